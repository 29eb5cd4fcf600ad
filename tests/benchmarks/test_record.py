# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of the benchmarks: taken from the tables, kept as JSON, and compared."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from benchmarks.record import compare, results
from benchmarks.record.machine import commit, describe
from tests.support.paths import ROOT


def table(title, *rows):
    made = Table(title=title)
    for heading in ("work", "ms", "ratio"):
        made.add_column(heading)
    for row in rows:
        made.add_row(*row)
    return made


def kept(folder: Path, **figures) -> dict:
    return results.load(results.save(figures, folder))


def figure(value, row="ours", column="ms"):
    return {"table": "t", "row": row, "column": column, "value": value, "text": str(value)}


def test_the_numbers_of_a_table_are_its_figures():
    console = results.RecordingConsole(file=io.StringIO())
    console.print("words", table("d = 5", ("ours", "1,234.5", "[bold]2.00 x[/bold]"), ("theirs", "3e-2 s", "")))
    console.print(table("next", ("12", "-", "-0.5 dB")))
    found = [(one["table"], one["row"], one["column"], one["value"]) for one in console.take_figures()]
    assert found == [
        ("d = 5", "ours", "ms", 1234.5),
        ("d = 5", "ours", "ratio", 2.0),
        ("d = 5", "theirs", "ms", 0.03),
        ("next", "12", "ratio", -0.5),
    ]
    assert console.take_figures() == [], "they are taken once"


def test_a_file_has_the_machine_the_versions_the_commit_and_the_date(tmp_path):
    content = kept(tmp_path, selection=[figure(1.5)])
    machine = content["machine"]
    assert machine["commit"] == commit()
    assert machine["cores"] == len(os.sched_getaffinity(0))
    assert {"cpu", "memory_gib", "system", "date", "load"} <= machine.keys()
    assert {"python", "numpy", "torch", "numba"} <= machine["versions"].keys()
    assert content["benchmarks"]["selection"]["figures"] == [figure(1.5)]
    described = describe()
    assert json.loads(json.dumps(described)) == described


def test_another_run_of_a_commit_replaces_the_benchmarks_that_it_ran(tmp_path):
    kept(tmp_path, one=[figure(1)], two=[figure(2)])
    content = kept(tmp_path, two=[figure(3)])
    assert content["benchmarks"]["one"]["figures"] == [figure(1)]
    assert content["benchmarks"]["two"]["figures"] == [figure(3)]


def test_pairs_have_the_ratio_of_b_to_a(tmp_path):
    a = kept(tmp_path / "a", x=[figure(2.0), figure(0.0, "zero"), figure(7.0, "gone"), figure(1.0, "close")])
    b = kept(tmp_path / "b", x=[figure(3.0), figure(1.0, "zero"), figure(1.05, "close"), figure(9.0, "new")])
    found = {pair.row: pair for pair in compare.pairs(a, b)}
    assert {row: pair.ratio for row, pair in found.items()} == {
        "ours": 1.5,
        "zero": None,
        "gone": None,
        "close": 1.05,
        "new": None,
    }
    assert [row for row, pair in found.items() if pair.noteworthy] == ["ours"]
    back = {pair.row: pair for pair in compare.pairs(b, a)}
    assert back["ours"].ratio == pytest.approx(1 / 1.5)
    assert back["ours"].noteworthy
    assert not compare.pairs(a, a)[0].noteworthy


def test_the_comparison_says_when_the_machines_differ(tmp_path):
    a, b = kept(tmp_path / "a", x=[figure(2.0)]), kept(tmp_path / "b", x=[figure(4.0)])
    told = io.StringIO()
    compare.show(a, b, Console(file=told, width=100))
    assert "2.00" in told.getvalue()
    assert "Different machines" not in told.getvalue()
    b["machine"]["cpu"] = "abacus"
    compare.show(a, b, Console(file=told, width=100))
    assert "Different machines" in told.getvalue()


def test_a_name_is_a_file_or_a_commit(tmp_path):
    file = results.save({"x": [figure(1)]}, tmp_path)
    assert compare.find(str(file), tmp_path) == file
    assert compare.find("HEAD", tmp_path) == file
    assert compare.find(file.stem, tmp_path) == file
    with pytest.raises(ValueError, match=f"nowhere is neither.*{file.stem}.*make bench"):
        compare.find("nowhere", tmp_path)


def test_another_file_is_refused(tmp_path):
    file = tmp_path / "x.json"
    for text, message in (("[", "no JSON"), ("[]", "format = 1"), ('{"format": 9}', "format = 1")):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            results.load(file)


@pytest.mark.parametrize("words", [("one.json", "HEAD~1"), ("A=one.json", "B=HEAD~1"), ("test", "docs")])
def test_make_takes_both_names_as_words_or_variables(words):
    """Names of targets, too: the words behind bench-compare are no targets."""
    told = subprocess.run(
        ["make", "--no-print-directory", "-n", "bench-compare", *words], cwd=ROOT, capture_output=True, text=True
    )
    names = [word.rpartition("=")[2] for word in words]
    assert f"-m benchmarks.record.compare {names[0]} {names[1]}\n" in told.stdout
    assert "pytest" not in told.stdout


def test_the_command_compares_and_explains(tmp_path, capsys):
    file = results.save({"x": [figure(1)]}, tmp_path)
    assert compare.main([str(file), str(file)]) == 0
    assert "1.00" in capsys.readouterr().out
    assert compare.main([str(file)]) == 2
    assert compare.main([str(file), "nowhere"]) == 1
    assert "neither a file nor a commit" in capsys.readouterr().err
