# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages that nobody should send: sound ones, changed in their bytes, their fields, their arrays or their order.

`rng` is a `random.Random`, which is much quicker than numpy's for one number at a time.
"""

import math

import msgpack
import numpy as np

from fl_app.link.wire import Message, pack

STRANGE = (
    *(None, True, False, -1, 0, 1, 2**31, 2**62, 2**63 - 1, -(2**63), 0.5, math.nan, math.inf, -math.inf, 1e308),
    *("", "x", "a" * 65, "\n\x00", "{}", "../../etc/passwd", b"", b"\x00" * 8, [], {}, [1, [2, [3]]], {"a": {"b": 1}}),
)
SHAPES = ([2**40, 2**40], [0, 2**62], [-1], [1] * 9, "object", "float32")
FROM_CLIENTS = ("join", "ready", "done", "statistics", "heartbeat", "resync", "leave")
TYPES = (*FROM_CLIENTS, "work", "model", "welcome", "stop")


def sound(rng, k, d, sequence, round_=0, client=0):
    """A message as a client might send it."""
    kind = rng.choice(FROM_CLIENTS)
    bodies = {
        "join": {"instance": "ab", "config_hash": ""},
        "ready": {"d": d, "fingerprint": "f", "have": -1, "checksum": ""},
        "done": {"loss": 1.0, "seconds": 0.1, "sent": True},
        "statistics": {"seconds": 0.1},
        "heartbeat": {"have": 0, "busy": "train 0"},
    }
    arrays = {"payload": np.full(k, rng.choice((-1, 0, 1)), np.int8)} if kind == "done" else {}
    return [bytes(f) for f in pack(Message(kind, client, round_, sequence, bodies.get(kind, {}), arrays))]


def mutate(frames, rng):
    """One to three changes."""
    for _ in range(rng.randint(1, 3)):
        frames = rng.choice(CHANGES)(frames, rng)
    return frames


def _replace(frames, which, frame):
    return [*frames[:which], frame, *frames[which + 1 :]]


def _flip(frames, rng):
    which = rng.randrange(len(frames)) if frames else 0
    if not frames or not frames[which]:
        return [*frames, rng.randbytes(3)]
    changed = bytearray(frames[which])
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return _replace(frames, which, bytes(changed))


def _cut(frames, rng):
    if not frames:
        return frames
    which = rng.randrange(len(frames))
    return _replace(frames, which, frames[which][: rng.randint(0, len(frames[which]))])


def _grow(frames, rng):
    return [*frames, rng.randbytes(rng.randrange(2000))]


def _drop(frames, rng):
    return frames[: rng.randint(0, len(frames))]


def _noise(_frames, rng):
    return [rng.randbytes(rng.randrange(300)) for _ in range(rng.randrange(4))]


def _many(frames, rng):
    return frames + [b""] * rng.randrange(400)


def _field(frames, rng):
    """Another value, another key or another type somewhere in the header."""
    try:
        header = msgpack.unpackb(frames[0], strict_map_key=False)
        key = rng.choice(list(header))
        if key == "body" and header["body"] and rng.random() < 0.7:
            header["body"][rng.choice(list(header["body"]))] = rng.choice(STRANGE)
        elif key == "arrays" and header["arrays"] and rng.random() < 0.7:
            header["arrays"][0][rng.randrange(3)] = rng.choice((*STRANGE, *SHAPES))
        elif key == "type":
            header["type"] = rng.choice(TYPES)
        else:
            header[key] = rng.choice(STRANGE)
        return [msgpack.packb(header), *frames[1:]]
    except Exception:  # an earlier change has left no header to change
        return _flip(frames, rng)


CHANGES = (_flip, _cut, _grow, _drop, _noise, _many, _field, _field, _field, _field)
