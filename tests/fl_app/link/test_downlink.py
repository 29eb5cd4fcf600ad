# SPDX-License-Identifier: GPL-3.0-or-later
"""A client's copy follows the server's model bit for bit, for a small part of the bytes."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_app.core.selection import make_policy
from fl_app.core.server import Server
from fl_app.core.steps.schedules import SCHEDULES, RateSchedule
from fl_app.core.steps.server_step import ServerOptions
from fl_app.link.caller import BYTES_PER_PARAMETER
from fl_app.link.downlink import (
    Replica,
    change_of,
    checksum_of,
    pack_bits,
    packed_bytes,
    size_of,
    unpack_bits,
    whole_model,
)
from fl_app.link.wire import Message, WireError, pack, unpack

CNN_D = 109_402
SGD, CONSTANT = ServerOptions(), RateSchedule(0.01, rounds=10)


def make_server(mode, d, k, seed, options=SGD, rates=CONSTANT):
    rng = np.random.default_rng(seed)
    policy = make_policy("fair-k", d, k, rng=np.random.default_rng(seed + 1))
    return Server(rng.normal(size=d).astype(np.float32), policy, rates, mode, options.make(d))


def over_the_wire(kind, arrays, **body):
    frames = [bytes(frame) for frame in pack(Message(kind, 0, 0, 0, body, arrays))]
    return unpack(frames, 10**8)


def change_over_the_wire(server, sent, **changes):
    return over_the_wire("work", {**change_of(server, sent), **changes}, eta=server.rate)


def copy_of(server, options=SGD):
    body = {"mode": server.scheme.name, **asdict(options)}
    return Replica.from_message(over_the_wire("model", whole_model(server), **body), server.d)


def assert_same(replica, server):
    assert replica.w.tobytes() == server.w.tobytes()
    np.testing.assert_array_equal(replica.memory, server.scheme.remember(server.g))
    np.testing.assert_array_equal(replica.selected, server.selected)
    assert replica.checksum() == checksum_of(server)


def draw(mode, k, rng):
    """Votes of two clients have ties, and so exact zeros; analog values have none."""
    if mode == "onebit":
        return rng.integers(-1, 2, k).astype(np.float32) * rng.random(k, np.float32)
    return rng.normal(size=k).astype(np.float32)


@settings(max_examples=60)
@given(
    mode=st.sampled_from(["onebit", "analog"]),
    d=st.integers(1, 70),
    share=st.floats(0.01, 1),
    seed=st.integers(0, 1000),
    options=st.sampled_from(
        [SGD, ServerOptions("momentum"), ServerOptions("momentum", 0.5, True), ServerOptions("adam")]
    ),
    rates=st.builds(
        RateSchedule,
        base=st.floats(1e-6, 10),
        rounds=st.integers(3, 9),
        name=st.sampled_from(SCHEDULES),
        factor=st.floats(0.1, 1),
        every=st.integers(1, 3),
        warmup=st.integers(0, 2),
    ),
    lost=st.lists(st.booleans(), min_size=1, max_size=6),
)
def test_copy_follows_bit_for_bit(mode, d, share, seed, options, rates, lost):
    server = make_server(mode, d, max(1, round(share * d)), seed, options, rates)
    copies, rng = [copy_of(server, options)], np.random.default_rng(seed)
    for t, is_lost in enumerate(lost):
        if is_lost:
            server.skip()
            continue
        sent = server.selected
        server.update(draw(mode, sent.size, rng), t)
        copies = [*copies, copy_of(server, options)]  # a client joins in each round, and follows from then on
        for copy in copies[:-1]:
            copy.apply(change_over_the_wire(server, sent))
        for copy in copies:
            assert_same(copy, server)


@pytest.mark.parametrize(("optimizer", "name"), [("momentum", "velocity"), ("adam", "mean"), ("adam", "square")])
def test_optimizer_that_went_wrong_is_noticed(optimizer, name):
    options = ServerOptions(optimizer)
    server = make_server("onebit", 40, 10, 1, options)
    copy = copy_of(server, options)
    copy.step.arrays()[name][3] += 1
    assert copy.w.tobytes() == server.w.tobytes()
    assert copy.checksum() != checksum_of(server)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"optimizer": "adan"}, "adan"),
        ({"momentum": 1.0}, "momentum must be below 1"),
        ({"epsilon": float("nan")}, "epsilon must be finite"),
        ({"nesterov": 1}, "nesterov must be true or false"),
        ({"optimizer": "adam"}, "step.mean must be float32"),
    ],
)
def test_model_with_an_optimizer_that_cannot_be_is_refused(changes, why):
    server = make_server("onebit", 40, 10, 1)
    body = {"mode": "onebit", **asdict(SGD), **changes}
    with pytest.raises(WireError, match=why):
        Replica.from_message(over_the_wire("model", whole_model(server), **body), 40)


@given(st.lists(st.booleans(), max_size=40))
def test_bits(flags):
    packed = pack_bits(np.array(flags, np.bool_))
    assert packed.size == packed_bytes(len(flags))
    assert unpack_bits(packed, len(flags)).tolist() == flags


def test_bytes_of_a_round_of_the_cnn():
    k = round(0.2 * CNN_D)
    server = make_server("onebit", CNN_D, k, 1)
    server.update(np.ones(CNN_D, np.float32), 0)
    sent = server.selected
    server.update(np.ones(k, np.float32), 1)
    change = change_of(server, sent)
    assert size_of(change) == -(-CNN_D // 8) + k // 8
    assert 4 * CNN_D / size_of(change) > 25


def test_client_takes_a_whole_model_with_the_arrays_of_adam():
    d = 8000
    whole = size_of(whole_model(make_server("analog", d, 80, 1, ServerOptions("adam"))))
    assert 16 * d < whole <= BYTES_PER_PARAMETER * d


def test_zeros_are_sent_only_where_there_are_some():
    server = make_server("onebit", 64, 16, 1)
    sent = server.selected
    server.update(np.ones(64, np.float32), 0)
    assert "zeros" not in change_of(server, sent)
    sent = server.selected
    server.update(np.zeros(16, np.float32), 1)
    change = change_of(server, sent)
    assert change["zeros"].nbytes == 2


@pytest.mark.parametrize("mode", ["onebit", "analog"])
def test_change_that_does_not_fit_changes_nothing(mode):
    server = make_server(mode, 40, 10, 1)
    replica = copy_of(server)
    before = replica.checksum()
    sent = server.selected
    server.update(draw(mode, 40, np.random.default_rng(1)), 0)
    change = change_of(server, sent)
    for name in change:
        for bad in (change[name][:-1], change[name].astype(np.int64)):
            with pytest.raises(WireError, match=name):
                replica.apply(change_over_the_wire(server, sent, **{name: bad}))
    for eta in (-0.1, float("inf"), "fast"):
        with pytest.raises(WireError, match="eta must be"):
            replica.apply(over_the_wire("work", change, eta=eta))
    assert replica.checksum() == before
    replica.apply(change_over_the_wire(server, sent))
    assert_same(replica, server)
