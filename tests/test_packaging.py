# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheel, built from a copy of the tree and installed into an empty venv, has all that users need."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.paths import ROOT
from tests.support.sharing import made_once

PACKAGES = ("oac_blocks", "fl_app", "calibration")


def run(*command: object, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_"))}
    result = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, from a copy: setuptools leaves its working files beside the sources."""
    (built,) = (made_once(tmp_path_factory, "packaging-tree", build_wheel) / "dist").glob("*.whl")
    return built


def build_wheel(tree: Path) -> None:
    for name in (*PACKAGES, "grc_flows", "configs", "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, tree)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tree / "dist", cwd=tree)


@pytest.fixture(scope="module")
def fresh_python(wheel, tmp_path_factory) -> Path:
    """An interpreter of an empty venv with the wheel in it.

    What the wheel depends on is lent from this environment by a path entry. That entry is read after the venv's own
    packages and its .pth files are not run, so the checkout, installed here as editable, cannot be seen through it.
    """

    def install(place: Path) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place)
        python = place / "bin" / "python"
        run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel, cwd=place)
        (site,) = place.glob("lib/python*/site-packages")
        site.joinpath("borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")

    return made_once(tmp_path_factory, "packaging-venv", install) / "bin" / "python"


@pytest.mark.parametrize("package", PACKAGES)
def test_installed_package_is_imported_from_the_venv(fresh_python, tmp_path, package):
    file = run(fresh_python, "-c", f"import {package}; print({package}.__file__)", cwd=tmp_path)
    assert Path(file).is_relative_to(fresh_python.parents[1])


def test_console_scripts_are_installed(fresh_python, tmp_path):
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert set(scripts) == {"fl_app", "oac-calibrate", "oac-blocks", "oac-virtual-pluto"}
    for script in scripts:
        assert os.access(fresh_python.parent / script, os.X_OK)


@pytest.mark.parametrize("script", ["fl_app", "oac-blocks", "oac-calibrate", "oac-virtual-pluto"])
def test_console_script_knows_the_version(fresh_python, tmp_path, script):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert run(fresh_python.parent / script, "--version", cwd=tmp_path) == f"{script} {version}"


def test_path_of_the_blocks_is_one_folder_inside_the_venv(fresh_python, tmp_path):
    folder = Path(run(fresh_python.parent / "oac-blocks", "path", cwd=tmp_path))
    assert folder.is_absolute()
    assert folder.is_dir()
    assert folder.is_relative_to(fresh_python.parents[1])


@pytest.mark.parametrize(
    ("source", "pattern", "inside"),
    [
        ("oac_blocks/grc", "*.yml", "oac_blocks/grc"),
        ("grc_flows", "*", "oac_blocks/flowgraphs"),
        ("configs", "*", "fl_app/configs"),
        ("fl_app/data", "*.xz", "fl_app/data"),
    ],
)
def test_wheel_has_the_data_files(wheel, source, pattern, inside):
    expected = {f"{inside}/{file.name}" for file in (ROOT / source).glob(pattern) if file.is_file()}
    assert expected <= set(ZipFile(wheel).namelist())


def test_wheel_has_nothing_but_the_packages(wheel):
    tops = {name.partition("/")[0] for name in ZipFile(wheel).namelist()}
    assert tops - set(PACKAGES) == {f"gr_oac-{wheel.name.split('-')[1]}.dist-info"}


def test_every_source_file_names_its_licence():
    tracked = run("git", "ls-files", "*.py", "*.sh", ".ci/run", "Makefile", cwd=ROOT).splitlines()
    files = [ROOT / name for name in tracked if (ROOT / name).is_file()]
    assert files
    line = "# SPDX-License-Identifier: GPL-3.0-or-later"
    assert [file.name for file in files if line not in file.read_text().splitlines()[:2]] == []
