# SPDX-License-Identifier: GPL-3.0-or-later
"""The Makefile's list of targets, and scripts/setup.sh against stand-ins for apt and for the interpreter."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.polling import DEADLINE_SECONDS, until

# Stands for the interpreter that has GNU Radio and, copied there by its own `-m venv`, for the one in .venv. It notes
# each call, and fails those that match $FAIL_AT.
FAKE_PYTHON = """#!/bin/bash
echo "$*" | head -n 1 >> "$CALLS"
if [[ -n $FAIL_AT && $* == *"$FAIL_AT"* ]]; then echo "no route to anywhere" >&2; exit 1; fi
case "$1 $2 $3" in
    "-m venv "*)
        mkdir -p "${@: -1}/bin" && cp "$0" "${@: -1}/bin/python"
        echo "command = $0 $*" > "${@: -1}/pyvenv.cfg" ;;
    "-c "*gnuradio.gr*print*) echo "$0" ;;
esac
"""
DPKG_ALL_THERE = '#!/bin/bash\nfor name in "${@:4}"; do echo "$name installed"; done\n'
DPKG_NONE_THERE = "#!/bin/bash\nexit 1\n"


class Tree:
    """A copy of what set-up needs, in a folder whose name has a space, with stand-ins first on PATH."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        self.programs = folder / "bin"
        self.calls_file = folder / "calls"
        (self.root / "scripts").mkdir(parents=True)
        self.programs.mkdir()
        for name in ("pyproject.toml", "constraints.txt", "scripts/setup.sh"):
            shutil.copy(ROOT / name, self.root / name)
        self.add_program("python3", FAKE_PYTHON)
        self.add_program("dpkg-query", DPKG_ALL_THERE)

    def add_program(self, name: str, text: str) -> None:
        file = self.programs / name
        file.write_text(text)
        file.chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        clean = {key: value for key, value in os.environ.items() if key not in {"OAC_SKIP_APT", "PYTHON"}}
        stand_ins = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "PYTHON": str(self.programs / "python3"),
            "CALLS": str(self.calls_file),
            "FAIL_AT": "",
        }
        return clean | stand_ins | more

    def setup(self, *words: str, **environment: str) -> subprocess.CompletedProcess:
        """Run set-up anew; ``calls`` then has this run's calls of the interpreter."""
        self.calls_file.write_text("")
        return subprocess.run(
            ["bash", self.root / "scripts" / "setup.sh", *words],
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=DEADLINE_SECONDS,
        )

    @property
    def installs(self) -> list[str]:
        return [line for line in self.calls_file.read_text().splitlines() if line.startswith("-m pip install")]

    @property
    def stamps(self) -> list[Path]:
        return list(self.root.glob(".venv/.setup-*"))


@pytest.fixture
def tree(tmp_path) -> Tree:
    return Tree(tmp_path)


def test_help_lists_every_target():
    run = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^  make (\S+) +\w", run.stdout, re.MULTILINE))
    targets = set(re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split())
    assert listed == targets
    assert listed >= {
        "help",
        "setup",
        "test",
        "test-all",
        "test-numpy2",
        "test-repeat",
        "lint",
        "check",
        "companion",
        "bench",
        "docs",
        "train",
    }


def test_setup_installs_torch_then_torchvision_then_the_project(tree):
    run = tree.setup()
    assert run.returncode == 0, run.stderr
    assert [line.split()[-1] for line in tree.installs] == ["torch", "torchvision", ".[dev,pluto]"]
    assert all("--constraint constraints.txt" in line for line in tree.installs)
    assert len(tree.stamps) == 1


def test_numpy_2_has_an_environment_that_does_not_see_gnu_radio(tree):
    assert tree.setup("numpy2").returncode == 0
    venv = tree.root / ".cache" / "numpy2"
    assert f"-m venv {venv}\n" in (venv / "pyvenv.cfg").read_text(), "without --system-site-packages"
    assert [line.split()[-1] for line in tree.installs] == ["torch", "torchvision", ".[dev]"]
    pinned = tree.root / ".cache" / "constraints-numpy2.txt"
    assert all(f"--constraint {pinned.relative_to(tree.root)}" in line for line in tree.installs)
    pins = [line for line in pinned.read_text().splitlines() if line.startswith("numpy==")]
    assert len(pins) == 1
    assert pins[0].startswith("numpy==2.")
    others = (tree.root / "constraints.txt").read_text().splitlines()
    assert set(pinned.read_text().splitlines()) - set(others) == set(pins), "all else is as in the tested environment"
    tree.calls_file.write_text("")
    assert tree.setup("numpy2").stdout == "", "it is skipped once it has finished"
    assert tree.setup().returncode == 0
    assert len(tree.installs) == 3, ".venv is another one"


def test_an_environment_that_is_unknown_is_refused(tree):
    run = tree.setup("numpy3")
    assert run.returncode == 2
    assert "numpy3 is no environment" in run.stderr


def test_all_tests_run_under_numpy_2_as_well():
    def plan(target):
        command = ["make", "-n", target]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert ".cache/numpy2/bin/python -m pytest" in plan("test-all")
    folders = re.findall(r"tests/\S+", plan("test-numpy2").split(" -m pytest ")[-1])
    assert {"tests/dsp", "tests/loop", "tests/rounds", "tests/calibration", "tests/fl_app"} <= set(folders)
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_what_is_left_out_without_gnu_radio_is_there():
    from tests import conftest

    assert conftest.NEED_GNU_RADIO
    assert [name for name in conftest.NEED_GNU_RADIO if not (ROOT / "tests" / name).exists()] == []


def test_setup_is_skipped_once_it_has_finished(tree):
    tree.setup()
    again = tree.setup()
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert len(tree.calls_file.read_text().splitlines()) == 1, "only the look at the venv"
    assert tree.installs == []


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt", "scripts/setup.sh"])
def test_setup_runs_again_when_the_recipe_has_changed(tree, file):
    tree.setup()
    with (tree.root / file).open("a") as recipe:
        recipe.write("\n# changed\n")
    assert tree.setup().returncode == 0
    assert len(tree.installs) == 3
    assert len(tree.stamps) == 1


def test_venv_is_made_anew_after_a_move(tree):
    tree.setup()
    tree.root = tree.root.rename(tree.root.with_name("moved checkout"))
    assert "making .venv" in tree.setup().stdout
    assert len(tree.installs) == 3


def test_venv_of_another_interpreter_is_made_anew(tree):
    tree.setup()
    tree.add_program("other", FAKE_PYTHON)
    tree.stamps[0].unlink()
    run = tree.setup(PYTHON=str(tree.programs / "other"))
    assert f"making .venv with {tree.programs / 'other'}" in run.stdout


@pytest.mark.parametrize(
    ("fail_at", "what"),
    [
        ("-m venv", "making .venv"),
        ("pip install --constraint constraints.txt torchvision", "installing torchvision"),
        ("--editable", "installing the rest"),
        ("import gnuradio.gr, numpy", "checking"),
    ],
)
def test_failing_step_tells_what_and_what_to_do_and_leaves_no_stamp(tree, fail_at, what):
    run = tree.setup(FAIL_AT=fail_at)
    assert run.returncode == 1
    assert f"setup failed: {what}" in run.stderr
    assert "no route to anywhere" in run.stderr, "the last lines of the log"
    assert "what to do: " in run.stderr
    assert re.search(r"command: .*python.* -\S", run.stderr)
    assert tree.stamps == []
    assert tree.setup().returncode == 0, "it goes on from there once the cause is gone"


def test_failing_apt_tells_the_packages_to_install_by_hand(tree):
    tree.add_program("dpkg-query", DPKG_NONE_THERE)
    tree.add_program("sudo", '#!/bin/bash\nexec "$@"\n')
    tree.add_program(
        "apt-get", '#!/bin/bash\n[[ $* == *update ]] || { echo "E: Unable to locate package"; exit 100; }\n'
    )
    run = tree.setup()
    assert run.returncode == 1
    assert "setup failed: installing gnuradio" in run.stderr
    assert "E: Unable to locate package" in run.stderr
    assert "run as root: apt-get install gnuradio" in run.stderr
    assert tree.stamps == []


def test_only_a_package_that_tests_can_do_without_is_missing(tree):
    tree.add_program("dpkg-query", '#!/bin/bash\n[[ $* == *dataset* ]] || exec bash "$0.all" "$@"\n')
    tree.add_program("dpkg-query.all", DPKG_ALL_THERE)
    tree.add_program("sudo", "#!/bin/bash\nexit 1\n")
    tree.add_program("apt-get", "#!/bin/bash\nexit 100\n")
    run = tree.setup()
    assert run.returncode == 0
    assert "could not be had: dataset-fashion-mnist" in run.stdout
    assert tree.setup().stdout == "", "it is not asked for in every run"


def test_machine_without_gnuradio_is_told_how_to_get_it(tree):
    broken = tree.root / "broken" / "gnuradio"
    broken.mkdir(parents=True)
    broken.joinpath("__init__.py").write_text("raise ImportError('no GNU Radio')\n")
    run = tree.setup(FAIL_AT="gnuradio.gr", PYTHONPATH=str(broken.parent), OAC_SKIP_APT="1")
    assert run.returncode == 1
    assert "no python3 on this machine has GNU Radio" in run.stderr
    assert "apt-get install gnuradio" in run.stderr
    assert "PYTHON=/path" in run.stderr


def test_two_setups_at_once_install_once(tree, program):
    flag = tree.root / "may go on"
    wait = f"[[ $* != *editable* ]] || until [[ -e '{flag}' ]]; do sleep 0.01; done\ncase"
    tree.add_program("python3", FAKE_PYTHON.replace("case", wait, 1))
    tree.calls_file.write_text("")
    command = ["bash", tree.root / "scripts" / "setup.sh"]
    both = [program(command, env=tree.environment()) for _ in range(2)]
    until(lambda: any("waiting for another set-up" in one.out for one in both), "the second set-up's wait")
    flag.touch()
    assert [one.wait() for one in both] == [0, 0]
    assert sum("waiting for another set-up" in one.out for one in both) == 1
    assert len(tree.installs) == 3


def test_check_is_lint_then_tests_and_ci_runs_it():
    plan = subprocess.run(["make", "-n", "check"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    steps = ("scripts/setup.sh", "-m ruff check .", "-m ruff format --check .", "-m mypy", "-m pytest -n 3")
    places = [plan.index(step) for step in steps]
    assert places == sorted(places)
    assert "exec make check" in (ROOT / ".ci" / "run").read_text()
