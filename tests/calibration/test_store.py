# SPDX-License-Identifier: GPL-3.0-or-later
import dataclasses
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.store import StoredCalibration, StoreError, of_client, path_of, read, write
from oac_blocks.loop.closed_loop import Guess, Loop, LoopSettings
from tests.loop.worlds import SAMPLE_RATE_HZ, TURNAROUND, NumberClient, World

STORED = StoredCalibration(
    "1044734c9605", datetime(2026, 11, 16, 12, 0, 0, 250, tzinfo=UTC), 20e6, 400_000.0, -1290.53, -3.0, 8.2, 0.01
)
NUMBER = st.floats(-1e9, 1e9, allow_nan=False)


def test_what_is_written_is_read(tmp_path):
    path = path_of(tmp_path, STORED.serial)
    assert read(path, STORED.serial) is None
    write(path, STORED)
    assert read(path, STORED.serial) == STORED
    again = dataclasses.replace(STORED, correction_samples=5.0, drift_ppm=None)
    write(path, again)
    assert read(path, STORED.serial) == again
    assert [entry.name for entry in path.parent.iterdir()] == ["calibration.toml"]


@given(correction=NUMBER, gain=NUMBER, hours=st.integers(-12, 12), micro=st.integers(0, 999_999))
def test_every_number_and_time_comes_back(tmp_path_factory, correction, gain, hours, micro):
    zone = timezone(timedelta(hours=hours))
    stored = dataclasses.replace(
        STORED,
        correction_samples=correction,
        gain_db=gain,
        measured_at=datetime(2027, 1, 2, 3, 4, 5, micro, tzinfo=zone),
    )
    path = tmp_path_factory.mktemp("store") / "calibration.toml"
    write(path, stored)
    assert read(path, stored.serial) == stored


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "format"),
        (b"not = [toml", "not a readable calibration"),
        (b"\xff\xfe", "not a readable calibration"),
        (b'format = "other"\n', "format"),
        (b'format = "oac-calibration"\nversion = 2\n', "version 2"),
        (b'format = "oac-calibration"\nversion = 1\nserial = "a"\n', "missing"),
        (b'format = "oac-calibration"\nversion = 1\nserial = "a"\ncolour = 3\n', "colour"),
    ],
)
def test_a_broken_file_is_an_error_and_stays_as_it_is(tmp_path, content, says):
    path = tmp_path / "calibration.toml"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=says):
        read(path, "a")
    with pytest.raises(StoreError, match=says):
        write(path, STORED)
    assert path.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["calibration.toml"]


def test_half_a_file_is_an_error(tmp_path):
    path = tmp_path / "calibration.toml"
    write(path, STORED)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError):
            read(path, STORED.serial)


def test_a_file_of_another_radio_is_an_error_and_stays_as_it_is(tmp_path):
    path = tmp_path / "calibration.toml"
    write(path, STORED)
    before = path.read_bytes()
    other = dataclasses.replace(STORED, serial="another")
    with pytest.raises(StoreError, match="belongs to radio 1044734c9605, not to another"):
        read(path, "another")
    with pytest.raises(StoreError, match="not to another"):
        write(path, other)
    assert path.read_bytes() == before


def test_a_folder_in_its_place_is_an_error(tmp_path):
    (tmp_path / "calibration.toml").mkdir()
    with pytest.raises(StoreError):
        read(tmp_path / "calibration.toml", "a")


@pytest.mark.parametrize("serial", ["", "..", "a/b", "../x", "a b", "ä", "x" * 200])
def test_serial_numbers_name_no_other_folder(tmp_path, serial):
    with pytest.raises(ValueError, match="serial"):
        path_of(tmp_path, serial)


def test_a_guess_holds_for_its_rate_and_turnaround_alone():
    assert STORED.guess(20e6, 400_000.0) == Guess(-1290.53, -3.0)
    assert STORED.guess(10e6, 400_000.0) == Guess(0.0, -3.0)
    assert STORED.guess(20e6, 200_000.0) == Guess(0.0, -3.0)


def test_age():
    assert STORED.age_seconds(STORED.measured_at + timedelta(hours=1)) == 3600.0


def test_from_one_run_to_the_next(tmp_path):
    """What a loop found is where the next one begins, and it acquires all the same: the streams have moved since."""
    settings = LoopSettings(turnaround_samples=TURNAROUND, sample_rate_hz=SAMPLE_RATE_HZ)
    first = World([NumberClient(3500.0)], Loop(1, settings))
    with pytest.raises(ValueError, match="tracking"):
        of_client(first.loop.clients[0], "a", SAMPLE_RATE_HZ, TURNAROUND)
    first.run(10)
    path = path_of(tmp_path, "a")
    write(path, of_client(first.loop.clients[0], "a", SAMPLE_RATE_HZ, TURNAROUND))
    stored = read(path, "a")
    guess = stored.guess(SAMPLE_RATE_HZ, TURNAROUND)
    assert guess.correction_samples == pytest.approx(3500.0, abs=0.1)
    second = World([NumberClient(3900.0)], Loop(1, settings, {0: guess}))
    assert [plan.kind for plan in second.run(4)] == ["acquire", "acquire", "payload", "payload"]
    assert abs(second.offsets[-1][0]) < 0.1
    assert second.plans[0].orders[0].correction_samples == guess.correction_samples
