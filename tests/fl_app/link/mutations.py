# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages that nobody should send: sound ones, changed in their bytes, their fields, their arrays or their order."""

import math

import msgpack
import numpy as np

from fl_app.link.wire import Message, pack

STRANGE = (
    *(None, True, False, -1, 0, 1, 2**31, 2**62, 2**63 - 1, -(2**63), 0.5, math.nan, math.inf, -math.inf, 1e308),
    *("", "x", "a" * 65, "\n\x00", "{}", "../../etc/passwd", b"", b"\x00" * 8, [], {}, [1, [2, [3]]], {"a": {"b": 1}}),
)
TYPES = ("join", "ready", "done", "statistics", "heartbeat", "resync", "leave", "work", "model", "welcome", "stop")


def sound(rng, k, d, sequence, round_=0, client=0):
    """A message as a client might send it."""
    kind = TYPES[rng.integers(7)]
    bodies = {
        "join": {"instance": "ab", "config_hash": ""},
        "ready": {"d": d, "fingerprint": "f", "have": -1, "checksum": ""},
        "done": {"loss": 1.0, "seconds": 0.1, "sent": True},
        "statistics": {"seconds": 0.1},
        "heartbeat": {"have": 0, "busy": "train 0"},
    }
    arrays = {"payload": rng.integers(-1, 2, k).astype(np.int8)} if kind == "done" else {}
    return [bytes(f) for f in pack(Message(kind, client, round_, sequence, bodies.get(kind, {}), arrays))]


def mutate(frames, rng):
    """One to three changes."""
    frames = list(frames)
    for _ in range(rng.integers(1, 4)):
        change = CHANGES[rng.integers(len(CHANGES))]
        frames = change(frames, rng)
    return frames


def _flip(frames, rng):
    which = rng.integers(len(frames)) if frames else None
    if which is None or not frames[which]:
        return [*frames, rng.bytes(3)]
    changed = bytearray(frames[which])
    for _ in range(rng.integers(1, 9)):
        changed[rng.integers(len(changed))] = rng.integers(256)
    return [*frames[:which], bytes(changed), *frames[which + 1 :]]


def _cut(frames, rng):
    if not frames:
        return frames
    which = rng.integers(len(frames))
    return [*frames[:which], frames[which][: rng.integers(len(frames[which]) + 1)], *frames[which + 1 :]]


def _grow(frames, rng):
    return [*frames, rng.bytes(int(rng.integers(2000)))]


def _drop(frames, rng):
    return frames[: rng.integers(len(frames) + 1)]


def _noise(_frames, rng):
    return [rng.bytes(int(rng.integers(300))) for _ in range(rng.integers(4))]


def _many(frames, rng):
    return frames + [b""] * int(rng.integers(400))


def _field(frames, rng):
    """Another value, another key or another type somewhere in the header."""
    try:
        header = msgpack.unpackb(frames[0], strict_map_key=False)
        keys = list(header)
        key = keys[rng.integers(len(keys))]
        if key == "body" and header["body"] and rng.random() < 0.7:
            inner = list(header["body"])
            header["body"][inner[rng.integers(len(inner))]] = STRANGE[rng.integers(len(STRANGE))]
        elif key == "arrays" and header["arrays"] and rng.random() < 0.7:
            header["arrays"][0][rng.integers(3)] = [*STRANGE, [2**40, 2**40], [0, 2**62], "object", "float32", [-1]][
                rng.integers(len(STRANGE) + 5)
            ]
        elif key == "type":
            header["type"] = TYPES[rng.integers(len(TYPES))]
        else:
            header[key] = STRANGE[rng.integers(len(STRANGE))]
        return [msgpack.packb(header), *frames[1:]]
    except Exception:  # an earlier change has left no header to change
        return _flip(frames, rng)


CHANGES = (_flip, _cut, _grow, _drop, _noise, _many, _field, _field, _field, _field)
