# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the tests that need Flower, in an environment of their own: Flower needs other versions of what is used here."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.environments import environment
from benchmarks.flower import REQUIREMENT
from tests.support.paths import ROOT

FOLDER = Path(__file__).with_name("with_flower")


@pytest.mark.slow
@pytest.mark.timeout(1800)  # the tests inside have time limits of their own, and clean up behind them
@pytest.mark.parametrize("file", [file.name for file in sorted(FOLDER.glob("test_*.py"))])
def test_with_flower(file):
    python = environment("flower-over-ours", [REQUIREMENT], over_ours=True) / "bin" / "python"
    command = [python, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-s", "-rs", FOLDER / file]
    run = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    print(run.stdout)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-5_000:]
    assert re.search(r"\d+ passed(?!.*skipped)", run.stdout.splitlines()[-1]), run.stdout[-2_000:]
