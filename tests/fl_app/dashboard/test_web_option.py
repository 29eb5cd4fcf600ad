# SPDX-License-Identifier: GPL-3.0-or-later
"""--web beside a training: the page follows it, ends with it, and changes neither its exit status nor its course."""

import json
import os
import re
import signal
import urllib.request

import pytest

from tests.support.polling import DEADLINE_SECONDS
from tests.support.processes import FL_APP, assert_all_end, children_of

pytest.importorskip("starlette", reason="needs the extra web: pip install 'gr-oac[web]'")


def rounds_on(url):
    with urllib.request.urlopen(f"{url}api/runs", timeout=DEADLINE_SECONDS) as answer:
        return [run["rounds"] for run in json.load(answer)]


def test_the_page_of_a_training_grows_and_ends_with_it(program, tiny_options, tmp_path):
    long = ["--set=run.rounds=5000", "--set=air.name=ideal", "--set=run.eval_every=1000"]
    options = [*tiny_options, *long, "--out", tmp_path / "run", "--web", "--port", 0]
    run = program([*FL_APP, "train", *options], cwd=tmp_path)
    run.says("live page: http://127.0.0.1:")
    url = re.search(r"http://[\d.:]+/", run.err)[0]
    assert run.err.count("#run=run") == 1
    run.reaches(lambda: sum(rounds_on(url)) > 1, "rounds on the page")
    before = sum(rounds_on(url))
    run.reaches(lambda: sum(rounds_on(url)) > before, "more rounds on the page")
    (page,) = children_of(run.pid)
    run.send_to_all(signal.SIGINT)
    assert run.wait() == 130
    assert "stopped after a whole round, and saved" in run.err
    assert_all_end([page])


def test_a_training_goes_on_without_its_page(program, tiny_options, tmp_path):
    options = [*tiny_options, "--set=air.name=ideal", "--out", tmp_path / "run", "--web", "--port", 0]
    run = program([*FL_APP, "train", *options], cwd=tmp_path)
    run.says("live page: ")
    (page,) = run.reaches(lambda: children_of(run.pid), "the page's process")
    os.kill(page, signal.SIGKILL)
    assert run.wait() == 0
    assert (tmp_path / "run" / "result.json").is_file()
