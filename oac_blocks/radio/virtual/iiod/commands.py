# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines that an IIOD client sends, as values. A line that is no command becomes ``Unknown``; nothing is raised."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

MAX_LINE_BYTES = 1024
Place = Literal["device", "input", "output", "debug", "buffer"]
_NUMBER = re.compile(r"[0-9]{1,18}")
_MASK = re.compile(r"[0-9a-fA-F]{8}")


@dataclass(frozen=True)
class Nothing:
    """An empty line. It gets no answer."""


@dataclass(frozen=True)
class Unknown:
    """A line that is no command. The answer is -EINVAL."""


@dataclass(frozen=True)
class Simple:
    name: Literal["PRINT", "VERSION", "EXIT", "TIMEOUT"]


@dataclass(frozen=True)
class Trigger:
    device: str


@dataclass(frozen=True)
class AttributePath:
    device: str
    place: Place
    attribute: str
    channel: str = ""


@dataclass(frozen=True)
class Read:
    path: AttributePath


@dataclass(frozen=True)
class Write:
    path: AttributePath
    length: int  # number of bytes that follow the line


@dataclass(frozen=True)
class SetBuffers:
    device: str
    count: int


@dataclass(frozen=True)
class Open:
    device: str
    samples: int
    mask: int
    cyclic: bool


@dataclass(frozen=True)
class Close:
    device: str


@dataclass(frozen=True)
class ReadBuffer:
    device: str
    length: int


@dataclass(frozen=True)
class WriteBuffer:
    device: str
    length: int


Command = (
    Nothing | Unknown | Simple | Trigger | Read | Write | SetBuffers | Open | Close | ReadBuffer | WriteBuffer
)  # fmt: skip


def parse(line: bytes) -> Command:
    """Return the command of one line, with or without its line end."""
    try:
        text = line.decode("ascii")
    except UnicodeDecodeError:
        return Unknown()
    words = text.split()
    if not words:
        return Nothing()
    name, rest = words[0].upper(), words[1:]
    match name, rest:
        case (("PRINT" | "VERSION" | "EXIT"), []):
            return Simple(name)
        case "QUIT", []:
            return Simple("EXIT")
        case "TIMEOUT", [number] if _NUMBER.fullmatch(number):
            return Simple("TIMEOUT")
        case (("GETTRIG" | "SETTRIG"), [device, *_]):
            return Trigger(device)
        case "READ", [device, *path]:
            found = _path(device, path)
            return Read(found) if found else Unknown()
        case "WRITE", [device, *path, number] if _NUMBER.fullmatch(number):
            found = _path(device, path)
            return Write(found, int(number)) if found else Unknown()
        case "SET", [device, "BUFFERS_COUNT", number] if _NUMBER.fullmatch(number):
            return SetBuffers(device, int(number))
        case "OPEN", [device, number, mask] if _NUMBER.fullmatch(number) and _MASK.fullmatch(mask):
            return Open(device, int(number), int(mask, 16), cyclic=False)
        case "OPEN", [device, number, mask, "CYCLIC"] if _NUMBER.fullmatch(number) and _MASK.fullmatch(mask):
            return Open(device, int(number), int(mask, 16), cyclic=True)
        case "CLOSE", [device]:
            return Close(device)
        case "READBUF", [device, number] if _NUMBER.fullmatch(number):
            return ReadBuffer(device, int(number))
        case "WRITEBUF", [device, number] if _NUMBER.fullmatch(number):
            return WriteBuffer(device, int(number))
    return Unknown()


def _path(device: str, words: list[str]) -> AttributePath | None:
    match words:
        case ["INPUT", channel, attribute]:
            return AttributePath(device, "input", attribute, channel)
        case ["OUTPUT", channel, attribute]:
            return AttributePath(device, "output", attribute, channel)
        case ["DEBUG", attribute]:
            return AttributePath(device, "debug", attribute)
        case ["BUFFER", attribute]:
            return AttributePath(device, "buffer", attribute)
        case [attribute] if attribute not in ("INPUT", "OUTPUT", "DEBUG", "BUFFER"):
            return AttributePath(device, "device", attribute)
    return None
