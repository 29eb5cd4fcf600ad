# SPDX-License-Identifier: GPL-3.0-or-later
"""Save checkpoints that are either whole or absent: arrays in safetensors, the rest in JSON, both with checksums.

`round-00020.json` is written last and holds the checksum of `round-00020.safetensors`. If it is missing, or if a
checksum does not match, the checkpoint does not count, and the one before it is used.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from oac_blocks.errors import OacError

FORMAT = 1  # version of the checkpoint's format
KEPT = 2  # number of checkpoints that are kept

_log = logging.getLogger(__name__)


class CheckpointError(OacError, RuntimeError):
    """A checkpoint cannot be written or read; the message says which one and what to do."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Hold all that a run needs to go on with round `rounds_done`, bit for bit."""

    rounds_done: int
    arrays: dict[str, NDArray[Any]]
    state: dict[str, Any]  # JSON values: the state of the policy and the air, and the figures so far


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, and remove all but the last two."""
    stem = f"round-{checkpoint.rounds_done:05d}"
    tensors = safetensors.numpy.save({name: np.asarray(a, order="C") for name, a in checkpoint.arrays.items()})
    state = json.dumps(checkpoint.state)
    meta = {
        "format": FORMAT,
        "rounds_done": checkpoint.rounds_done,
        "tensors_sha256": hashlib.sha256(tensors).hexdigest(),
        "state_sha256": hashlib.sha256(state.encode()).hexdigest(),
        "state": state,
    }
    try:
        folder.mkdir(exist_ok=True)
        write_atomically(folder / f"{stem}.safetensors", tensors)
        write_atomically(folder / f"{stem}.json", json.dumps(meta).encode())
        stems = _stems(folder)
        # Later checkpoints can only be damaged ones, as this run was resumed from an earlier one.
        kept_stems = stems[: stems.index(stem) + 1][-KEPT:]
        for old in set(stems) - set(kept_stems):
            # Remove the JSON first: arrays alone are no checkpoint, but JSON without arrays looks like a damaged one.
            (folder / f"{old}.json").unlink(missing_ok=True)
            (folder / f"{old}.safetensors").unlink(missing_ok=True)
    except OSError as error:
        intact = [old for old in _stems(folder) if old != stem]
        kept = f"the checkpoint {intact[-1]} is intact" if intact else "there is no earlier checkpoint"
        raise CheckpointError(f"cannot save {folder / stem}: {why_not_written(error)}; {kept}") from error


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the newest checkpoint that is whole, or None if no checkpoint was ever written."""
    stems = _stems(folder)
    for stem in reversed(stems):
        try:
            return _read(folder, stem)
        except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
            _log.warning("checkpoint %s is damaged (%s); taking the one before it", folder / stem, error)
    if stems:
        raise CheckpointError(f"no checkpoint in {folder} is whole; start the run anew from its config.toml")
    return None


def _read(folder: Path, stem: str) -> Checkpoint:
    meta = json.loads((folder / f"{stem}.json").read_bytes())
    if meta["format"] != FORMAT:
        raise ValueError(f"its format is {meta['format']}, but this version reads {FORMAT}")
    tensors = (folder / f"{stem}.safetensors").read_bytes()
    if hashlib.sha256(tensors).hexdigest() != meta["tensors_sha256"]:
        raise ValueError("its arrays do not match their checksum")
    if hashlib.sha256(meta["state"].encode()).hexdigest() != meta["state_sha256"]:
        raise ValueError("its state does not match its checksum")
    return Checkpoint(meta["rounds_done"], safetensors.numpy.load(tensors), json.loads(meta["state"]))


def _stems(folder: Path) -> list[str]:
    stems = (file.stem for file in folder.glob("round-*.json"))
    return sorted((stem for stem in stems if stem[6:].isdecimal()), key=lambda stem: int(stem[6:]))


def why_not_written(error: OSError) -> str:
    """Return the reason of the error in plain words."""
    return "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error.strerror or error)


def write_atomically(path: Path, content: bytes, durable: bool = True) -> None:
    """Write under a temporary name, flush to the disk and rename: a reader sees the old or the new file whole.

    With ``durable=False`` nothing is flushed: the file may be lost in a power failure.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        with temporary.open("wb") as stream:
            stream.write(content)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if not durable:
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name, too, survives a power failure
    finally:
        os.close(folder)
