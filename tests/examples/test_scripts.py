# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts in examples/ run as they stand, in an empty folder, and print what they promise."""

import io
import re
import subprocess
import sys
import tokenize

import pytest

from tests.support.paths import ROOT

FOLDER = ROOT / "examples"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))
LIMIT = 25  # lines of code that a new user has to write


def lines_of_code(text):
    """Count the lines that hold code: no blank lines, comments or docstrings."""
    counted, line_begins = set(), True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            line_begins = True
        elif token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER):
            is_docstring = line_begins and token.type == tokenize.STRING
            counted.update([] if is_docstring else range(token.start[0], token.end[0] + 1))
            line_begins = False
    return len(counted)


def output_of(script, folder):
    done = subprocess.run([sys.executable, FOLDER / script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # GNU Radio maps its buffers twice in a row. If another thread takes the place meanwhile, it says so and retries.
    assert [line for line in done.stderr.splitlines() if not line.startswith("gr::vmcircbuf :error: shmat")] == []
    return done.stdout


def accuracies(text):
    return [float(value) for value in re.findall(r"accuracy (\d\.\d+)", text)]


def test_own_model_learns(tmp_path):
    found = accuracies(output_of("own_model.py", tmp_path))
    assert len(found) == 40
    assert found[-1] > 0.7  # eight codewords: 0.125 by chance


def test_own_policy_stands_beside_fair_k(tmp_path):
    lines = output_of("own_policy.py", tmp_path).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["fair-k", "AgeTimesMagnitude"]
    assert all(re.search(r"accuracy 0\.[2-9]\d+, mean age \d+\.\d rounds$", line) for line in lines)


def test_own_channel_loses_clients_and_own_scheme_votes(tmp_path):
    lines = dict(line.split(": ", 1) for line in output_of("own_channel.py", tmp_path).splitlines())
    assert set(lines) == {"own channel", "own scheme", "majority vote"}
    assert min(accuracies(" ".join(lines.values()))) > 0.15  # 26 letters: 0.04 by chance
    absent = int(re.search(r"absent (\d+)", lines["own channel"])[1])
    assert 20 < absent < 100  # of 200: each of 10 clients is lost with probability 0.3 in 20 rounds
    assert "wrong majorities" in lines["own scheme"]
    assert "wrong majorities" not in lines["own channel"]


def test_gnuradio_loopback_learns_as_the_simulation_does(tmp_path):
    lines = output_of("gnuradio_loopback.py", tmp_path).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["waveform", "gnuradio"]
    assert min(accuracies(" ".join(lines))) > 0.7


def test_text_learns_more_than_how_frequent_each_character_is(tmp_path):
    bits = [float(value) for value in re.findall(r": (\d\.\d+) bits per character", output_of("text.py", tmp_path))]
    assert len(bits) == 5
    # 78 characters, all as likely, have 6.28 bits; by their frequencies alone, they have 4.36 (3.024 nats).
    assert bits[0] > 5.5
    assert bits[-1] < 4.36


def test_sweep_draws_one_figure(tmp_path):
    lines = output_of("sweep.py", tmp_path).splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["k_M/k = 0.0", "k_M/k = 0.5", "k_M/k = 1.0"]
    assert (tmp_path / "runs" / "k-m-ratio" / "sweep.png").is_file()
    assert (tmp_path / "runs" / "k-m-ratio" / "sweep.html").is_file()


def test_every_script_is_tried_and_listed():
    tests = (ROOT / "tests" / "examples").glob("test_*.py")
    tried = "".join(path.read_text(encoding="utf-8") for path in tests)
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in FOLDER.iterdir()} - {"README.md", "__pycache__"}
    assert {name for name in names if f'"{name}"' not in tried} == set()
    assert {name for name in names if f"]({name}" not in listed} == set()


@pytest.mark.parametrize("script", ["own_model.py", "own_policy.py"])
def test_a_new_user_writes_few_lines(script):
    assert lines_of_code((FOLDER / script).read_text(encoding="utf-8")) <= LIMIT


def test_lines_of_code_are_counted():
    assert lines_of_code('"""Title\n\nmore\n"""\n\n# remark\nx = (1,\n  2)  # two\ny = """a\nb"""\n') == 4
