# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorder: a bounded folder, complete recordings at any time, and rounds that go on where a disk is full."""

import contextlib
import dataclasses
import logging
import os
import resource
import signal
import threading

import pytest

from oac_blocks.record.files import RecordError, read, recordings
from oac_blocks.record.recorder import Recorder, check_folder
from tests.record.recorded_rounds import FACTS, LAYOUT, heard_rounds
from tests.support.polling import until


@pytest.fixture(scope="module")
def heard():
    return next(heard_rounds(["payload"]))


def recorded(folder, heard, rounds, most_mb=100.0):
    with Recorder(folder, FACTS, most_mb, waits=True) as recorder:
        for number in rounds:
            recorder.round(dataclasses.replace(heard, round=number), LAYOUT)
    return recorder


def names(folder):
    return sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))


def test_each_round_is_a_recording_of_its_own(tmp_path, heard):
    recorder = recorded(tmp_path / "new" / "rec", heard, [3, 4])
    assert (recorder.written, recorder.dropped, recorder.removed) == (2, 0, 0)
    assert names(tmp_path / "new" / "rec") == [
        f"{name}.sigmf-{end}" for name in ("000000-round-3", "000001-round-4") for end in ("data", "meta")
    ]
    assert recorder.summary == f"2 rounds recorded in {tmp_path / 'new' / 'rec'}"


def test_rounds_without_samples_are_left_out(tmp_path, heard):
    with Recorder(tmp_path, FACTS, 1.0) as recorder:
        recorder.round(dataclasses.replace(heard, capture=None), LAYOUT)
    recorder.round(heard, LAYOUT)  # a block may hear one more round while its flowgraph ends
    assert recorder.written == 0
    assert names(tmp_path) == []


def test_the_folder_stays_small_and_the_newest_rounds_stay(tmp_path, heard):
    one = heard.capture.samples.nbytes / 1e6
    stranger = tmp_path / "notes.txt"
    stranger.write_text("mine")
    recorder = recorded(tmp_path, heard, range(6), most_mb=3.2 * one)
    assert (recorder.written, recorder.removed) == (6, 3)
    assert [path.name for path in recordings([tmp_path])] == [f"{n:06d}-round-{n}" for n in (3, 4, 5)]
    assert stranger.read_text() == "mine"
    recorded(tmp_path, heard, [0], most_mb=3.2 * one)  # begun anew: those that are there are the oldest
    assert [path.name for path in recordings([tmp_path])] == ["000004-round-4", "000005-round-5", "000006-round-0"]
    recorder = recorded(tmp_path, heard, [1], most_mb=0.0)
    assert [path.name for path in recordings([tmp_path])] == ["000007-round-1"]
    assert recorder.summary.endswith(", 3 old ones removed")


def test_what_a_killed_program_left_is_cleared_away(tmp_path, heard):
    recorded(tmp_path, heard, [0])
    for name in ("000001-round-1.sigmf-data", "000001-round-1.sigmf-meta.part", "000002-round-2.sigmf-data.part"):
        (tmp_path / name).write_bytes(b"half")
    recorded(tmp_path, heard, [9])
    assert names(tmp_path) == [
        f"{name}.sigmf-{end}" for name in ("000000-round-0", "000003-round-9") for end in ("data", "meta")
    ]


def test_two_programs_do_not_share_a_folder(tmp_path):
    with Recorder(tmp_path, FACTS, 1.0), pytest.raises(RecordError, match="another program records into"):
        check_folder(tmp_path)
    check_folder(tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"cannot record into .*file/rec: Not a directory"):
        check_folder(tmp_path / "file" / "rec")


@contextlib.contextmanager
def largest_file(size):
    """No file may grow beyond this size, as on a full disk: the kernel refuses to write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_rounds_go_on_while_the_disk_is_full(tmp_path, heard, caplog):
    with caplog.at_level(logging.WARNING), Recorder(tmp_path, FACTS, 100.0, waits=True) as recorder:
        with largest_file(20_000):
            for number in range(8):  # more than wait: those that were taken have failed
                recorder.round(dataclasses.replace(heard, round=number), LAYOUT)
            until(lambda: recorder.dropped == 8, "the last round that fails")
        recorder.round(dataclasses.replace(heard, round=8), LAYOUT)
    assert (recorder.written, recorder.dropped) == (1, 8)
    assert [record.getMessage() for record in caplog.records] == [
        "round 0 is not recorded: [Errno 27] File too large (further ones are counted, not logged; the rounds go on)"
    ]
    assert names(tmp_path) == ["000008-round-8.sigmf-data", "000008-round-8.sigmf-meta"]
    assert recorder.summary.endswith(", 8 could not be recorded")


def test_a_slow_disk_costs_rounds_and_no_time(tmp_path, heard):
    """The first file is a pipe that nobody reads, so that the recorder's thread waits for as long as the test wants."""
    pipe = tmp_path / "000000-round-0.sigmf-data.part"
    recorder = Recorder(tmp_path, FACTS, 100.0)
    os.mkfifo(pipe)
    for number in range(9):
        recorder.round(dataclasses.replace(heard, round=number), LAYOUT)
    assert recorder.dropped >= 4  # one is being written, and four wait
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    recorder.close()
    reader.join()
    assert received == [heard.capture.samples.tobytes()]
    assert recorder.written + recorder.dropped == 9


def test_a_reader_finds_complete_recordings_at_any_time(tmp_path, heard):
    with Recorder(tmp_path, FACTS, 100.0, waits=True) as recorder:
        seen = 0
        for number in range(6):
            recorder.round(dataclasses.replace(heard, round=number), LAYOUT)
            for path in recordings([tmp_path]) if recorder.written else []:
                seen += 1
                assert len(read(path).capture.samples) == len(heard.capture.samples)
    assert seen > 0
