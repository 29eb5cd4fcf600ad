# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recording says: valid by the package sigmf, and annotations that lie where the layout puts the parts."""

import dataclasses
import json
import warnings

import numpy as np
import pytest
import sigmf

from oac_blocks.dsp.preamble import trigger
from oac_blocks.record.files import write
from oac_blocks.record.metadata import metadata
from tests.dsp.receive.server_rounds import NUM, TRIGGER_AT, K
from tests.record.recorded_rounds import ACQUIRE_OFFSETS, FACTS, LAYOUT, OFFSETS, heard_rounds

SYMBOL = NUM.symbol_samples


@pytest.fixture(scope="module")
def heard():
    """An acquire round, then a payload round."""
    return list(heard_rounds(["acquire", "payload"]))


@pytest.fixture(params=[0, 1], ids=["acquire", "payload"])
def recording(request, heard, tmp_path):
    """A written round as the package sigmf opens it: it compares the SHA-512 on the way."""
    write(tmp_path / "round", heard[request.param], LAYOUT, FACTS, (0, 2))
    return sigmf.fromfile(tmp_path / "round.sigmf-meta"), heard[request.param]


def annotations_of(heard):
    about = metadata(heard, LAYOUT, FACTS)
    json.dumps(about, allow_nan=False)
    parts = {one.get("core:label", one.get("core:comment")): one for one in about["annotations"]}
    assert len(parts) == len(about["annotations"])
    return parts


def place(annotation):
    return annotation["core:sample_start"], annotation["core:sample_count"]


def test_the_package_finds_it_valid_and_its_hash_right(recording):
    opened, heard = recording
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an extension that is used and not declared
        opened.validate()
    assert opened.get_global_field("core:sha512") == opened.calculate_hash()
    np.testing.assert_array_equal(opened.read_samples(), heard.capture.samples)


def test_a_changed_sample_is_noticed_by_the_package(recording, tmp_path):
    opened, _ = recording
    data = bytearray(opened.data_file.read_bytes())
    data[1000] ^= 1
    opened.data_file.write_bytes(data)
    with pytest.raises(sigmf.error.SigMFFileError, match="hash"):
        sigmf.fromfile(tmp_path / "round.sigmf-meta")


def test_what_a_person_looks_up(recording):
    opened, heard = recording
    about = opened.get_global_info()
    assert (about["core:datatype"], about["core:sample_rate"]) == ("cf32_le", NUM.sample_rate_hz)
    assert (about["core:hw"], about["core:description"]) == ("a test", "A round of a test")
    assert "core:author" not in about
    assert (about["oac:round"], about["oac:kind"], about["oac:seed"]) == (heard.round, heard.kind, 5)
    assert about["oac:layout"]["scheme"] == "onebit"
    [capture] = opened.get_captures()
    assert (capture["core:frequency"], capture["core:global_index"]) == (2.4e9, heard.capture.mark.sample)


def test_the_trigger_is_where_the_samples_have_it(heard):
    """Against the waveform itself: no other place of the recording is as much like it."""
    for one in heard:
        start, count = place(annotations_of(one)["trigger"])
        alike = np.abs(np.correlate(one.capture.samples, trigger()))
        assert (start, count) == (int(np.argmax(alike)), len(trigger()))
        assert start == round(one.trigger_sample) - one.capture.mark.sample


def test_groups_and_clients_of_a_payload_round(heard):
    """Of the layout in the records of these tests: the trigger at 700.3 of a record, and the answers behind it."""
    parts, frame = annotations_of(heard[1]), LAYOUT.frame(K)
    answer = place(parts["trigger"])[0] + LAYOUT.answer_samples
    at = answer
    for group, symbols in enumerate(frame.group_symbols().tolist()):
        assert place(parts[f"sync symbol of group {group}"]) == (at, SYMBOL)
        assert place(parts[f"group {group}"]) == (at + SYMBOL, symbols * SYMBOL)
        at += (1 + symbols) * SYMBOL
    assert at == answer + frame.samples == len(heard[1].capture.samples)
    fraction = TRIGGER_AT - round(TRIGGER_AT)
    for client, offset in enumerate(OFFSETS):
        start, count = place(parts[f"client {client}"])
        assert start == round(answer + fraction + offset)
        assert count == min(frame.samples, len(heard[1].capture.samples) - start)
        assert parts[f"client {client}"]["oac:offset_samples"] == pytest.approx(offset, abs=0.1)
    assert len(parts) == 1 + 2 * frame.groups + len(OFFSETS)


def test_slots_and_clients_of_an_acquire_round(heard):
    parts = annotations_of(heard[0])
    answer = place(parts["trigger"])[0] + LAYOUT.answer_samples
    assert [place(parts[f"slot {slot}"]) for slot in range(LAYOUT.slots)] == [
        (answer + slot * LAYOUT.slot_samples, LAYOUT.slot_samples) for slot in range(LAYOUT.slots)
    ]
    for client, offset in enumerate(ACQUIRE_OFFSETS):
        start, count = place(parts[f"client {client}"])
        middle = LAYOUT.sequence_start_samples(client)
        assert (start, count) == (pytest.approx(answer + 0.3 + middle + offset, abs=0.6), SYMBOL)
    assert len(parts) == 1 + LAYOUT.slots + len(ACQUIRE_OFFSETS)


def test_frequencies_are_those_that_are_sent(heard):
    """The active subcarriers, and the trigger with its roll-off of a half at two samples per chip."""
    parts = annotations_of(heard[1])
    answers = NUM.subcarrier_frequencies() * NUM.sample_rate_hz
    for label, low, high in (("trigger", -7.5e6, 7.5e6), ("group 0", answers.min(), answers.max())):
        half = 0 if label == "trigger" else NUM.subcarrier_spacing_hz / 2
        edges = [parts[label][f"core:freq_{side}_edge"] for side in ("lower", "upper")]
        assert edges == pytest.approx([2.4e9 + low - half, 2.4e9 + high + half])


def test_a_round_without_samples_is_refused(heard):
    with pytest.raises(ValueError, match="round 1 must have a capture"):
        metadata(dataclasses.replace(heard[1], capture=None), LAYOUT, FACTS)
