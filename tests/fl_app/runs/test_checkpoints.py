# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints are whole or do not count."""

import errno
import json
import os

import numpy as np
import pytest

from fl_app.runs import checkpoints
from fl_app.runs.checkpoints import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint


def make_checkpoint(rounds_done):
    rng = np.random.default_rng(rounds_done)
    arrays = {
        "w": rng.normal(size=50).astype(np.float32),
        "age": rng.integers(0, 9, 50).astype(np.int32),
        "selected": np.arange(7),
        "buffer.count": np.array(rounds_done),
    }
    state = {"policy": {"rng": {"state": 2**100 + rounds_done}}, "loss": 0.1 + rounds_done}
    return Checkpoint(rounds_done, arrays, state)


def assert_same(one, other):
    assert one.rounds_done == other.rounds_done
    assert one.state == other.state
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        assert (array.dtype, array.shape) == (other.arrays[name].dtype, other.arrays[name].shape)
        np.testing.assert_array_equal(array, other.arrays[name])


def test_latest_is_read_back_bit_for_bit_and_two_are_kept(tmp_path):
    for rounds_done in (5, 10, 99_995, 100_000):
        save_checkpoint(tmp_path, make_checkpoint(rounds_done))
    assert_same(load_checkpoint(tmp_path), make_checkpoint(100_000))
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {f"round-{n}.{end}" for n in ("99995", "100000") for end in ("json", "safetensors")}


def test_nothing_saved_is_nothing(tmp_path):
    assert load_checkpoint(tmp_path / "missing") is None


def damage_flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


def damage_cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damage_empty(path):
    path.write_bytes(b"")


def damage_remove(path):
    path.unlink()


@pytest.mark.parametrize("ending", ["safetensors", "json"])
@pytest.mark.parametrize("damage", [damage_flip_a_bit, damage_cut, damage_empty, damage_remove])
def test_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, caplog, damage, ending):
    for rounds_done in (5, 10):
        save_checkpoint(tmp_path, make_checkpoint(rounds_done))
    damage(tmp_path / f"round-00010.{ending}")
    assert_same(load_checkpoint(tmp_path), make_checkpoint(5))
    if (ending, damage) != ("json", damage_remove):  # without its JSON it was never finished: nothing to warn about
        assert "round-00010 is damaged" in caplog.text


def test_changed_state_is_noticed(tmp_path, caplog):
    for rounds_done in (5, 10):
        save_checkpoint(tmp_path, make_checkpoint(rounds_done))
    path = tmp_path / "round-00010.json"
    meta = json.loads(path.read_text())
    meta["state"] = meta["state"].replace("10.1", "10.2")
    path.write_text(json.dumps(meta))
    assert load_checkpoint(tmp_path).rounds_done == 5
    assert "does not match its checksum" in caplog.text


def test_all_damaged_is_an_error_that_says_what_to_do(tmp_path):
    save_checkpoint(tmp_path, make_checkpoint(5))
    damage_cut(tmp_path / "round-00005.safetensors")
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* is whole; start the run anew"):
        load_checkpoint(tmp_path)


def test_run_taken_up_before_a_damaged_checkpoint_leaves_it_behind(tmp_path):
    for rounds_done in (5, 10):
        save_checkpoint(tmp_path, make_checkpoint(rounds_done))
    damage_cut(tmp_path / "round-00010.safetensors")
    save_checkpoint(tmp_path, make_checkpoint(6))
    assert sorted(file.stem for file in tmp_path.glob("*.json")) == ["round-00005", "round-00006"]
    assert load_checkpoint(tmp_path).rounds_done == 6


@pytest.mark.parametrize("file", ["round-00010.safetensors", "round-00010.json"])
def test_full_disk_leaves_the_earlier_checkpoint_intact(tmp_path, file):
    """/dev/full answers every write as a full disk does."""
    save_checkpoint(tmp_path, make_checkpoint(5))
    (tmp_path / f"{file}.part").symlink_to("/dev/full")
    with pytest.raises(CheckpointError, match=r"round-00010: the disk is full; the checkpoint round-00005 is intact"):
        save_checkpoint(tmp_path, make_checkpoint(10))
    assert_same(load_checkpoint(tmp_path), make_checkpoint(5))
    assert not list(tmp_path.glob("*.part"))
    save_checkpoint(tmp_path, make_checkpoint(10))
    assert_same(load_checkpoint(tmp_path), make_checkpoint(10))


def test_content_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """A power cut between the two must not leave a name without content: fsync comes before the rename."""
    target = tmp_path / "file"

    def fail(_descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(checkpoints.os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        checkpoints.write_atomically(target, b"content")
    assert list(tmp_path.iterdir()) == []
