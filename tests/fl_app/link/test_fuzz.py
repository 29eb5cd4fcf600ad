# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutated messages against the server: no crash, no hang, memory stays, and honest clients go on."""

import gc
import logging
import random
import tracemalloc
from pathlib import Path

import msgpack
import numpy as np
import pytest
import zmq

from fl_app.core.steps.server_step import ServerOptions
from fl_app.link.desk import Desk
from fl_app.link.strikes import KNOWN_PEERS
from fl_app.link.terms import Terms
from fl_app.link.wire import Message, pack
from oac_blocks.dsp.waveform.schemes import scheme_named
from tests.fl_app.link.mutations import mutate, sound
from tests.support.polling import DEADLINE_MS
from tests.support.runs import assert_every_round_once

D, K = 400, 80
MEMORY_BYTES = 200_000  # a byte for each message of the long version


def make_desk():
    terms = Terms(
        n_clients=4,
        d=D,
        scheme=scheme_named("onebit"),
        optimizer=ServerOptions(),
        config="",
        config_hash="c",
        fingerprint="f",
        heartbeat_seconds=1.0,
        silent_seconds=10.0,
        cut_off_after=5,
        buffers={"norm.running_mean": ("float32", (4,))},
    )
    model = {"w": np.zeros(D, np.float32), "memory": np.zeros(D, np.int8), "mask": np.ones(D // 8, np.uint8)}
    # Nobody is reachable: who joins takes over, so that the fuzz keeps getting at sessions of its own.
    desk = Desk(terms, lambda: model, is_reachable=lambda _: False)
    desk.set_state(0, None, "s", 0.0)
    return desk


def introduce(desk, identity, client, now):
    """Join and be ready, as an honest client does."""
    join = {"instance": identity.hex(), "config_hash": ""}
    ready = {"d": D, "fingerprint": "f", "have": -1, "checksum": ""}
    for sequence, (kind, body) in enumerate((("join", join), ("ready", ready)), 1):
        frames = [bytes(f) for f in pack(Message(kind, client, -1, sequence, body))]
        desk.handle(identity, None, frames, now)


def attack(desk, count, seed):
    """`count` messages, from strangers and from clients that have joined; a new connection every few messages."""
    rng = random.Random(seed)
    answers = 0
    for number in range(count):
        now = 0.001 * number
        if number % 6 == 0:
            identity, client = bytes([0, seed]) + int(number % 60_000).to_bytes(4, "big"), rng.randrange(3)
            if rng.random() < 0.6:
                introduce(desk, identity, client, now)
        if number % 500 == 0:
            desk.open("train" if number % 1000 else "measure", number // 500, K, now)
        frames = sound(rng, K, D, 2 + number, rng.randint(-1, number // 500 + 1), client)
        if rng.random() < 0.97:
            frames = mutate(frames, rng)
        answers_before = set(desk.job.answers)
        for outgoing in desk.handle(identity, None, frames, now):
            assert outgoing.identity == identity
            answers += 1
        for answer in (desk.job.answers[name] for name in desk.job.answers.keys() - answers_before):
            if answer.payload is not None:
                assert answer.payload.shape == (K,)
                assert np.abs(answer.payload).max() <= 1
    return answers


def held_bytes():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def rebuild_interned():
    """Read so many new keys that Python rebuilds its table of interned strings: its megabytes then count before."""
    for number in range(120_000):
        msgpack.unpackb(b"\x81\xa8%08d\x01" % number)


def run_fuzz(count, watch_memory):
    desk = make_desk()
    logging.disable(logging.CRITICAL)
    try:
        if watch_memory:
            tracemalloc.start()
            rebuild_interned()
        attack(desk, min(count, 30_000), seed=0)  # so that everything that may be remembered is
        before = held_bytes()
        attack(desk, count, seed=1)
        grown = held_bytes() - before
    finally:
        tracemalloc.stop()
        logging.disable(logging.NOTSET)
    assert grown < MEMORY_BYTES, f"{grown} bytes more after {count} messages"
    assert len(desk.sessions) <= 4
    assert len(desk._strikes) <= KNOWN_PEERS
    for kind in ("bad", "cut off", "late", "unknown", "after cut off"):
        assert desk.counts[kind] > 0, desk.counts
    assert desk.counts["bad"] > count // 4
    # The one client that nobody plays is still served.
    desk.open("train", 10**6, K, 1e9)
    introduce(desk, b"honest", 3, 1e9)
    body = {"loss": 0.5, "seconds": 0.1, "sent": True}
    done = pack(Message("done", 3, 10**6, 9, body, {"payload": np.ones(K, np.int8)}))
    desk.handle(b"honest", None, [bytes(frame) for frame in done], 1e9)
    assert desk.job.answers[3].payload.sum() == K
    return desk.counts


def test_mutated_messages_do_no_harm():
    run_fuzz(5000, watch_memory=False)  # watching makes it many times slower


@pytest.mark.slow
def test_200_000_mutated_messages_do_no_harm():
    print(run_fuzz(200_000, watch_memory=True))


def resident_kb(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def assert_answered(socket):
    """A question that always has an answer: there is no client 9. So the server has kept up with what came before."""
    socket.send_multipart(pack(Message("join", 9, -1, 1, {"instance": "i", "config_hash": ""})))
    assert socket.poll(DEADLINE_MS), "no answer"
    assert b"this run has the clients 0 to 1" in socket.recv()


@pytest.mark.parametrize("count", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_mutated_messages_over_a_real_socket(site, link_settings, count):
    # The clients wait in round 2 until the attack is over, so that the server is all ears for it.
    settings = link_settings(
        run={"rounds": 4, "eval_every": 100}, clients={"n": 2}, link={"round_seconds": 200.0, "patience_seconds": 200.0}
    )
    here = site(settings)
    server, flag = here.server(), here.folder / "flag"
    wait = f"lambda t: t == 2 and [time.sleep(0.01) for _ in iter(lambda: os.path.exists({str(flag)!r}), True)]"
    there = [here.voter(number, wait) for number in range(2)]
    here.wait_for_rounds(2, server)
    d, k = 109_402, 21_880
    rng, context = random.Random(1), zmq.Context()
    before = resident_kb(server.pid)
    socket = None
    for number in range(count):
        if number % 20 == 0:  # five bad ones, and a connection is cut off
            if socket is not None:
                socket.close()
            socket = context.socket(zmq.DEALER)
            socket.set(zmq.LINGER, 1000)
            socket.set(zmq.SNDTIMEO, 20_000)
            socket.connect(here.endpoint)
            assert_answered(socket)
        frames = mutate(sound(rng, k, d, 1 + number, 2, rng.randrange(2)), rng)
        if frames:
            socket.send_multipart(frames)
    socket.close()
    socket = context.socket(zmq.DEALER)
    socket.connect(here.endpoint)
    assert_answered(socket)
    assert resident_kb(server.pid) - before < 50_000
    socket.close()
    context.term()
    flag.touch()
    assert server.wait() == 0, server.text
    assert [one.wait() for one in there] == [0, 0]
    assert_every_round_once(here.run, 4)
    assert [row.absent_clients for row in here.run.rows()] == [0] * 4
    assert "Traceback" not in server.text
    assert server.text.count("is cut off after 5 bad messages") > count // 100


@pytest.mark.slow
def test_size_cap_of_the_server(site, link_settings):
    """What is larger than anything that a client may send ends the connection before it fills the memory."""
    here = site(link_settings(run={"rounds": 3, "eval_every": 100}, clients={"n": 1}))
    server, flag = here.server(), here.folder / "flag"
    here.voter(0, f"lambda t: t == 1 and [time.sleep(0.01) for _ in iter(lambda: os.path.exists({str(flag)!r}), True)]")
    here.wait_for_rounds(1, server)
    most = 4 * 109_402 + 100_000
    context = zmq.Context()
    for size, is_read in ((most + 1, True), (2 * most + 1, False), (60_000_000, False)):
        socket, told = context.socket(zmq.DEALER), f"has {size} bytes, more than {most}"
        socket.set(zmq.LINGER, 0)
        monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        socket.connect(here.endpoint)
        socket.send(b"\x00" * size)
        if is_read:
            server.says(told)
        else:
            assert monitor.poll(DEADLINE_MS), "the connection stays"
            assert told not in server.text
    context.destroy(linger=0)
    flag.touch()
    assert server.wait() == 0, server.text
