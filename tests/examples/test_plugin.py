# SPDX-License-Identifier: GPL-3.0-or-later
"""The package in examples/plugin is found by its entry points once it is installed, and by import strings without."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

PACKAGE = ROOT / "examples" / "plugin"
TIMES = ("seconds", "train_seconds", "air_cpu_seconds")


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the package: pip leaves its working files beside the sources."""
    place = tmp_path_factory.mktemp("package") / "plugin"
    shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("runs", "__pycache__", "build", "*.egg-info"))
    return place


@pytest.fixture(scope="module")
def installed(copied, tmp_path_factory):
    """A folder that has the package as pip installs it; no index is asked."""
    target = tmp_path_factory.mktemp("target")
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "--target"]
    done = subprocess.run([*pip, target, copied], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def train(config, folder, **environment):
    command = [sys.executable, "-P", "-m", "fl_app", "train", config, "--json", "--set", "run.rounds=3"]
    known = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env={**known, **environment}, capture_output=True, text=True, check=False
    )
    return done, json.loads(done.stdout) if done.returncode == 0 else None


def test_names_of_an_installed_package_and_import_strings_train_alike(copied, installed, tmp_path):
    done, by_name = train(copied / "by_name.toml", tmp_path, PYTHONPATH=str(installed))
    assert by_name is not None, done.stderr
    done, by_string = train("by_import_string.toml", copied)
    assert by_string is not None, done.stderr
    assert by_name["policy"] == "patient-k"
    assert by_string["policy"] == "oac_plugin_example:PatientK"
    assert by_name["d"] == 28 * 28 * 24 + 24 + 24 * 26 + 26  # hidden = 24, from [model.args]
    same = [key for key in by_name if key not in (*TIMES, "run", "policy")]
    assert {key: by_name[key] for key in same} == {key: by_string[key] for key in same}
    assert ":" not in by_string["run"]


def test_without_the_package_its_names_are_unknown(copied, tmp_path):
    done, _ = train(copied / "by_name.toml", tmp_path)
    assert done.returncode == 2
    assert "[model] name = 'tiny-mlp': did you mean 'mlp'? There are cnn" in done.stderr


def test_elsewhere_the_module_is_not_found(copied, tmp_path):
    done, _ = train(copied / "by_import_string.toml", tmp_path)
    assert done.returncode == 2
    assert "there is no module 'oac_plugin_example' among the installed packages or in" in done.stderr
