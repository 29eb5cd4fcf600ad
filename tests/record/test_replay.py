# SPDX-License-Identifier: GPL-3.0-or-later
"""Replays: the bits that the receiver heard, in units of those who voted; one line for what cannot be replayed."""

import hashlib
import json
import sys

import numpy as np
import pytest
import sigmf
from typer.testing import CliRunner

from oac_blocks.cli import app
from oac_blocks.dsp.receive.vote_units import energies_per_voter
from oac_blocks.record.files import RecordError, read, recordings, write
from oac_blocks.record.recorder import check_folder
from oac_blocks.record.replay import replay
from tests.dsp.receive.server_rounds import K, assert_same, small
from tests.record.recorded_rounds import FACTS, LAYOUT, heard_rounds

KINDS = ["acquire", "payload", "payload"]


@pytest.fixture(scope="module")
def heard():
    return list(heard_rounds(KINDS))


@pytest.fixture
def folder(tmp_path, heard):
    for one in heard:
        write(tmp_path / f"{one.round}", one, LAYOUT, FACTS, (0, 2))
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


def changed(folder, change, name="1"):
    """A recording whose metadata someone has changed."""
    file = folder / f"{name}.sigmf-meta"
    about = json.loads(file.read_text())
    change(about)
    file.write_text(json.dumps(about))
    return file


def test_a_replay_hears_every_bit(folder, heard):
    for one in heard:
        again = replay(read(folder / f"{one.round}"))
        assert_same([again.heard], [one])
        assert (again.verdict, again.arrivals) == ("equal", "equal")
        if one.kind == "payload":
            energies = energies_per_voter(one, (0, 2))
            np.testing.assert_array_equal(again.soft_votes, energies[0] - energies[1])


@pytest.mark.parametrize(("repeats", "votes"), [(3, 200), (1, 1)])
def test_other_repeats_and_few_votes(tmp_path, repeats, votes):
    """One vote needs one group, whatever the layout says."""
    layout = small(3, answer_samples=20_000, repeats=repeats)
    [one] = heard_rounds(["payload"], layout, votes)
    write(tmp_path / "x", one, layout, FACTS, None)
    recording = read(tmp_path / "x")
    assert recording.layout == layout
    assert_same([replay(recording).heard], [one])


def test_the_command_prints_rounds_and_a_verdict(folder):
    result = call(folder)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[-1] == "3 rounds: all equal"
    [row] = [line.split() for line in lines if line.split()[:1] == ["1"]]
    frame = LAYOUT.frame(K)
    assert row[1:6] == ["1", "payload", str(K), str(frame.symbols), str(frame.groups)]
    assert row[-1] == "equal"


def test_json_and_soft_votes(folder, heard, tmp_path):
    file = tmp_path / "votes.npy"
    result = call(folder / "1.sigmf-data", folder / "2", folder / "0.sigmf-meta", "--json", "--soft", file)
    value = json.loads(result.stdout)
    assert (value["equal"], value["different"]) == (3, 0)
    assert [one["round"] for one in value["rounds"]] == [1, 2, 0]
    first = value["rounds"][0]
    assert (first["votes"], first["verdict"], first["arrivals"]) == (K, "equal", "equal")
    assert [one["offset_samples"] for one in first["clients"]] == heard[1].offset_samples.tolist()
    assert "votes" not in value["rounds"][2]
    expected = [energies_per_voter(one, (0, 2)) for one in heard[1:]]
    np.testing.assert_array_equal(np.load(file), [energies[0] - energies[1] for energies in expected])
    assert call(folder, "--soft", tmp_path / "votes.csv").exit_code == 2


def test_other_votes_than_recorded_are_told(folder):
    """The window of the FFT is set elsewhere than when the round was received."""

    def earlier(about):
        about["global"]["oac:receiver"]["early_samples"] -= 3

    result = call(changed(folder, earlier), folder / "2", "--json")
    assert result.exit_code == 1
    value = json.loads(result.stdout)
    assert [one["verdict"] for one in value["rounds"]] == ["different", "equal"]
    assert call(folder).stdout.splitlines()[-1] == "3 rounds: 1 different"


def test_other_voters_are_told(folder):
    """The energies are the same, and the unit of the soft votes is another."""

    def without_voters(about):
        about["global"]["oac:voting"] = [1]

    assert replay(read(changed(folder, without_voters).with_suffix(""))).verdict == "different"


def one_line(*arguments):
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("oac-blocks replay: ")
    return line


@pytest.mark.parametrize("left", [0, 1001, 8000], ids=["nothing", "half a sample", "whole samples"])
def test_a_truncated_file(folder, left):
    data = folder / "1.sigmf-data"
    data.write_bytes(data.read_bytes()[:left])
    assert f"{data} is damaged or cut short" in one_line(folder)


def test_missing_files(folder, tmp_path):
    (folder / "1.sigmf-data").unlink()
    assert "1.sigmf-data: No such file or directory" in one_line(folder / "1")
    assert f"there is no file {folder / '7'}.sigmf-meta" in one_line(folder / "7.sigmf-meta")
    (tmp_path / "empty").mkdir()
    assert "empty holds no recording" in one_line(tmp_path / "empty")


def test_a_foreign_recording(tmp_path):
    """Made by the package's own generator of signals."""
    sigmf.SigMFGenerator(seed=1).generate().tofile(tmp_path / "foreign")
    said = one_line(tmp_path / "foreign.sigmf-meta")
    assert "is SigMF, but no recording of gr-oac: the key oac:format is missing" in said


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"global": 3}', "\x80"])
def test_no_sigmf_at_all(folder, text):
    (folder / "1.sigmf-meta").write_text(text, encoding="latin-1")
    assert f"{folder / '1.sigmf-meta'} is not" in one_line(folder / "1")


OURS = ["kind", "layout", "receiver", "search", "trigger_sample", "voting", "round", "k"]
OURS += ["energies_sha256", "soft_votes_sha256"]


@pytest.mark.parametrize("key", [f"oac:{name}" for name in OURS] + ["core:sha512", "core:datatype", "core:version"])
def test_a_missing_key(folder, key):
    said = one_line(changed(folder, lambda about: about["global"].pop(key)))
    assert key in said


@pytest.mark.parametrize(
    ("section", "name"), [("layout", "groups"), ("layout", "scheme"), ("receiver", "span_rows"), ("search", "last_snr")]
)
def test_a_missing_key_inside(folder, section, name):
    said = one_line(changed(folder, lambda about: about["global"][f"oac:{section}"].pop(name)))
    assert f"the key oac:{section}.{name} is missing" in said


def test_no_index_of_the_first_sample(folder):
    said = one_line(changed(folder, lambda about: about["captures"][0].pop("core:global_index")))
    assert "the key core:global_index is missing" in said


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("format", 99, "oac:format is 99; this gr-oac reads 1"),
        ("kind", "song", "oac:kind must be one of payload, acquire"),
        ("k", "many", "oac:k must be"),
        ("k", 0, "oac:k must be"),
        ("layout", 5, "oac:layout must be an object"),
        ("round", None, "oac:round must be"),
        ("voting", 3, "oac:voting must be"),
        ("voting", [3], "oac:voting must be"),
        ("trigger_sample", "late", "oac:trigger_sample must be"),
    ],
)
def test_a_wrong_value(folder, key, value, words):
    assert words in one_line(changed(folder, lambda about: about["global"].update({f"oac:{key}": value})))


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [("layout", "fft_size", 7), ("layout", "more", 1), ("receiver", "span_rows", 0), ("search", "cfo_rad", "fast")],
)
def test_a_wrong_value_inside(folder, section, name, value):
    one_line(changed(folder, lambda about: about["global"][f"oac:{section}"].update({name: value})))


def test_a_scheme_is_not_imported_from_a_file(folder):
    """A recording that somebody sent must not decide what runs here."""
    said = one_line(changed(folder, lambda about: about["global"]["oac:layout"].update(scheme="os:system")))
    assert "scheme" in said


def test_samples_without_a_trigger(folder):
    recording = sigmf.fromfile(folder / "1.sigmf-meta")
    samples = np.zeros(len(recording), np.complex64)
    (folder / "1.sigmf-data").write_bytes(samples.tobytes())
    digest = hashlib.sha512(samples.tobytes()).hexdigest()
    changed(folder, lambda about: about["global"].update({"core:sha512": digest}))
    assert "the receiver finds no trigger in it" in one_line(folder / "1")


def test_without_the_extra_the_command_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sigmf", None)  # as where it is not installed: its import fails
    assert "pip install 'gr-oac[record]'" in one_line(folder)
    with pytest.raises(RecordError, match=r"gr-oac\[record\]"):
        check_folder(folder)


def test_a_recording_is_named_once(folder):
    assert recordings([folder, folder / "1.sigmf-meta", folder / "1.sigmf-data"]) == [folder / n for n in "012"]
    with pytest.raises(RecordError):
        recordings([folder / "1.sigmf-extra"])
