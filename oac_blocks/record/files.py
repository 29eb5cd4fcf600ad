# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a received round as a SigMF recording, and read one back with all its checks."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.receive.capture import Capture
from oac_blocks.dsp.receive.server_stream import MOST_VOTES, HeardRound, ServerStream
from oac_blocks.dsp.receive.tracking import SearchMark, Tracking
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import KINDS, Kind, RoundLayout
from oac_blocks.dsp.waveform.schemes import scheme_from_outside
from oac_blocks.errors import OacError
from oac_blocks.record.metadata import FORMAT, Facts, layout_values, metadata, own_key

DATA, META, PART = ".sigmf-data", ".sigmf-meta", ".part"


class RecordError(OacError, ValueError):
    """Nothing can be recorded, or a recording cannot be replayed; the message says why, in a sentence."""


@dataclass(frozen=True, eq=False)
class Recording:
    """A recorded round: its samples, what a receiver needs to hear it again, and what was heard."""

    path: Path  # without the ending
    capture: Capture
    layout: RoundLayout
    round: int
    kind: Kind
    k: int | None  # votes of a payload round
    voting: tuple[int, ...] | None
    trigger_sample: float
    energies_sha256: str | None
    soft_votes_sha256: str | None
    offset_samples: dict[int, float]  # offset of each client that was heard


def require_sigmf() -> None:
    """Raise ``RecordError`` if the package sigmf cannot be imported."""
    try:
        importlib.import_module("sigmf")
    except ImportError as error:
        raise RecordError(f"recordings need the package sigmf ({error}): pip install 'gr-oac[record]'") from None


def write(path: Path, heard: HeardRound, layout: RoundLayout, facts: Facts, voting: Collection[int] | None) -> int:
    """Write a round as ``path`` with the endings of SigMF, and return the number of bytes.

    Nothing is left behind if that fails.
    """
    from sigmf import SigMFFile

    about = metadata(heard, layout, facts, voting)
    assert heard.capture is not None
    data = np.ascontiguousarray(heard.capture.samples, "<c8").tobytes()
    about["global"]["core:sha512"] = hashlib.sha512(data).hexdigest()
    meta = (SigMFFile(metadata=about).dumps() + "\n").encode()
    files = {_with(path, DATA): data, _with(path, META): meta}
    try:
        for file, content in files.items():
            _with(file, PART).write_bytes(content)
        for file in files:  # the metadata comes last: who finds it finds the samples
            _with(file, PART).rename(file)
    except OSError:
        for file in files:
            _with(file, PART).unlink(missing_ok=True)
        remove(path)
        raise
    return len(data) + len(meta)


def remove(path: Path) -> None:
    """Remove the recording ``path``, the metadata first: who finds it finds the samples."""
    for ending in (META, DATA):
        _with(path, ending).unlink(missing_ok=True)


def recordings(places: Collection[Path]) -> list[Path]:
    """Return the recordings that are named, by either of their files, and those of the folders that are named.

    Raises
    ------
    RecordError
        If a place is neither, or a folder holds no recording.
    """
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            inside = sorted(file.with_suffix("") for file in place.glob(f"*{META}"))
            if not inside:
                raise RecordError(f"{place} holds no recording, no file *{META}")
            found += inside
            continue
        path = place.with_suffix("") if place.suffix in (DATA, META) else place
        if not _with(path, META).is_file():
            raise RecordError(f"there is no file {_with(path, META)}")
        found.append(path)
    return list(dict.fromkeys(found))


def read(path: Path) -> Recording:
    """Return the recording ``path`` (without ending), checked by SigMF's schema, its hash and our own keys.

    Raises
    ------
    RecordError
        If it is damaged, of another program, or incomplete.
    """
    require_sigmf()
    file = _with(path, META)
    about, samples = _checked_by_sigmf(path)
    own = about["global"]

    def value(name: str) -> Any:
        key = own_key(name)
        if key not in own:
            raise RecordError(f"{file}: the key {key} is missing")
        return own[key]

    if own_key("format") not in own:
        raise RecordError(f"{file} is SigMF, but no recording of gr-oac: the key {own_key('format')} is missing")
    if value("format") != FORMAT:
        raise RecordError(f"{file}: {own_key('format')} is {value('format')!r}; this gr-oac reads {FORMAT}")
    if own["core:datatype"] != "cf32_le":
        raise RecordError(f"{file}: core:datatype is {own['core:datatype']!r}, and a replay takes 'cf32_le'")
    kind = value("kind")
    if kind not in KINDS:
        raise RecordError(f"{file}: {own_key('kind')} must be one of {', '.join(KINDS)}, got {kind!r}")
    is_payload = kind == "payload"
    try:
        layout = _layout(value("layout"))
        usual = ServerStream(layout).settings()
        settings = _as_in(usual, value("receiver"), own_key("receiver"))
        ServerStream(layout, **settings)
        tracking = Tracking(**_as_in(dataclasses.asdict(Tracking()), value("search"), own_key("search")))
        [first, *_] = about["captures"]
        mark = SearchMark(integer("core:global_index", first["core:global_index"], 0), tracking)
        voting = value("voting")
        if voting is not None:
            require(isinstance(voting, list), own_key("voting"), repr(voting), "null or a list of clients")
            voting = tuple(integer(own_key("voting"), client, 0, layout.clients - 1) for client in voting)
        return Recording(
            path=path,
            capture=Capture(samples, mark, settings),
            layout=layout,
            round=integer(own_key("round"), value("round"), 0),
            kind=kind,
            k=integer(own_key("k"), value("k"), 1, MOST_VOTES) if is_payload else None,
            voting=voting,
            trigger_sample=real(own_key("trigger_sample"), value("trigger_sample")),
            energies_sha256=str(value("energies_sha256")) if is_payload else None,
            soft_votes_sha256=str(value("soft_votes_sha256")) if is_payload else None,
            offset_samples=_offsets(about["annotations"]),
        )
    except RecordError:
        raise
    except KeyError as error:
        raise RecordError(f"{file}: the key {error.args[0]} is missing") from None
    except (ValueError, TypeError) as error:
        raise RecordError(f"{file}: {error}") from None


def _checked_by_sigmf(path: Path) -> tuple[dict[str, Any], npt.NDArray[np.complex64]]:
    """Return metadata and samples of a recording whose schema and hash are right."""
    import jsonschema
    import sigmf
    from sigmf.error import SigMFError

    file, data = _with(path, META), _with(path, DATA)
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        with warnings.catch_warnings():  # what it warns of ends in an error below
            warnings.simplefilter("ignore")
            sigmf.validate.validate(about)
            if "core:sha512" not in about["global"]:
                raise RecordError(f"{file}: the key core:sha512 is missing")
            recording = sigmf.SigMFFile(metadata=about, data_file=data)
            samples = np.array(recording.read_samples(), np.complex64)
    except RecordError:
        raise
    except OSError as error:
        raise RecordError(f"cannot read {error.filename or data}: {error.strerror or error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{file} is not SigMF: {error}") from None
    except jsonschema.exceptions.ValidationError as error:
        raise RecordError(f"{file} is not valid SigMF: {error.message.splitlines()[0]}") from None
    except (SigMFError, ValueError) as error:
        raise RecordError(f"{data} is damaged or cut short: {str(error).splitlines()[0]}") from None
    return about, samples


def _layout(values: Any) -> RoundLayout:
    known = _as_in(layout_values(RoundLayout()), values, own_key("layout"))
    num = Numerology(**{name: known.pop(name) for name in Numerology().to_dict()})
    return RoundLayout(num, scheme=scheme_from_outside(known.pop("scheme")), **known)


def _as_in(pattern: Mapping[str, Any], values: Any, key: str) -> dict[str, Any]:
    """Return the values if they have the names of the pattern."""
    if not isinstance(values, dict):
        raise RecordError(f"{key} must be an object, not {values!r}")
    for name in pattern:
        if name not in values:
            raise KeyError(f"{key}.{name}")
    for name in values:
        if name not in pattern:
            raise ValueError(f"{key} has an unknown key {name!r}")
    return dict(values)


def _offsets(annotations: list[dict[str, Any]]) -> dict[int, float]:
    client, offset = own_key("client"), own_key("offset_samples")
    return {int(one[client]): float(one[offset]) for one in annotations if client in one}


def _with(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
