# SPDX-License-Identifier: GPL-3.0-or-later
"""Large arrays go through shared memory, small ones and those without room through the pipe; all arrive alike."""

import os
import resource
from dataclasses import replace

import numpy as np
import pytest

from fl_app.core.client import Broadcast
from fl_app.core.models import get_parameters
from fl_app.engine.pool import InProcess, ProcessPool
from fl_app.engine.shared_memory import LEAST_BYTES, Outbox, read_copy, read_in_place
from tests.fl_app.engine.samples import make_samples
from tests.fl_app.engine.test_workers import LOCAL

LARGE, LARGER, SMALL = np.arange(LEAST_BYTES, dtype=np.int32), np.linspace(0, 1, LEAST_BYTES), np.arange(5)


@pytest.fixture
def outbox():
    made = Outbox.create()
    yield made
    made.close()


def size_of(outbox):
    return os.fstat(outbox.file).st_size


@pytest.mark.parametrize("read", [read_copy, read_in_place])
def test_messages_arrive_and_what_they_share_is_written_once(outbox, read):
    messages = [("train", {"w": LARGE, "few": SMALL}, LARGER), ("train", {"w": LARGE, "few": SMALL}, None)]
    packed = outbox.pack(messages)
    assert packed[0].places[0] == packed[1].places[0]
    assert [len(one.places) for one in packed] == [2, 1]
    assert LARGE.nbytes + LARGER.nbytes <= size_of(outbox) < 2 * LARGE.nbytes + LARGER.nbytes
    for one, (kind, arrays, more) in zip(packed, messages, strict=True):
        there = read(one, outbox.file)
        assert there[0] == kind
        for name, array in arrays.items():
            np.testing.assert_array_equal(there[1][name], array)
        assert (there[2] is None) == (more is None)
        np.testing.assert_array_equal(there[2], more)


def test_a_reader_writes_into_its_own_copy(outbox):
    packed = outbox.pack([LARGE])[0]
    there = read_in_place(packed, outbox.file)
    there += 1
    np.testing.assert_array_equal(read_copy(packed, outbox.file), LARGE)


def test_later_messages_take_the_place_of_earlier_ones(outbox):
    first = read_copy(outbox.pack([LARGER])[0], outbox.file)
    for array in (LARGE, LARGER, LARGE, LARGE):
        outbox.clear()
        packed = outbox.pack([array])[0]
    assert size_of(outbox) == LARGE.nbytes, "what only larger messages needed went back to the system"
    np.testing.assert_array_equal(read_copy(packed, outbox.file), LARGE)
    np.testing.assert_array_equal(first, LARGER)


def test_the_memory_has_no_name_that_a_killed_program_could_leave(outbox):
    assert os.fstat(outbox.file).st_nlink == 0


def test_an_array_without_room_goes_through_the_pipe(outbox):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE.nbytes, limits[1]))
    try:
        packed = outbox.pack([(LARGE, LARGER)])[0]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(packed.places) == 1
    for there, array in zip(read_copy(packed, outbox.file), (LARGE, LARGER), strict=True):
        np.testing.assert_array_equal(there, array)


@pytest.mark.parametrize("has_memory", [True, False])
def test_rounds_have_the_same_bits_with_shared_memory_and_without(has_memory, monkeypatch):
    """Several rounds, with what clients keep between them, and scores."""
    if not has_memory:
        monkeypatch.delattr(os, "memfd_create")
    local = replace(LOCAL, error_feedback=True)
    w = get_parameters(local.model.build(seed=1))
    every = [np.arange(w.size), np.arange(0, w.size, 3), np.arange(0, w.size, 2)]  # round 0 sends all entries
    clients = [make_samples(20 + n, n) for n in range(5)]
    results = []
    for workers in (InProcess(), ProcessPool(2)):
        try:
            workers.assign(local, 5, clients.__getitem__, make_samples(210, 99))
            kept, found = {}, []
            for t, selected in enumerate(every):
                reports = workers.train(Broadcast(t, w + np.float32(t), selected, kept))
                kept |= {report.client: report.residual for report in reports}
                found.append([(report.loss, report.payload, report.residual.copy()) for report in reports])
                found.append(workers.evaluate(w + np.float32(t), {}))
            results.append(found)
        finally:
            workers.close()
    here, there = results
    for one, other in zip(here[0::2], there[0::2], strict=True):
        for (loss, payload, residual), others in zip(one, other, strict=True):
            assert loss == others[0]
            np.testing.assert_array_equal(payload, others[1])
            np.testing.assert_array_equal(residual, others[2])
    assert here[1::2] == there[1::2]
