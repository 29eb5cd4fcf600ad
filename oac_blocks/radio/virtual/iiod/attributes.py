# SPDX-License-Identifier: GPL-3.0-or-later
"""An IIO context: devices with channels, all with attributes, and its description in XML.

An attribute is text that is read and written. What goes wrong is an ``OSError``, whose number the client gets.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn
from xml.sax.saxutils import quoteattr


def refuse(number: int = errno.EINVAL) -> NoReturn:
    raise OSError(number, errno.errorcode[number])


@dataclass(frozen=True)
class Attribute:
    """One attribute. ``filename`` is the kernel's name for it, by which clients find it; one file is one value."""

    name: str
    filename: str
    read: Callable[[], str] | None
    write: Callable[[str], None] | None = None

    def get(self) -> str:
        return self.read() if self.read else refuse(errno.EACCES)

    def set(self, text: str) -> None:
        if self.write is None:
            refuse(errno.EACCES)
        self.write(text)


@dataclass
class Channel:
    id: str
    output: bool
    name: str = ""
    scan: tuple[int, str] | None = None  # index and format in a buffer
    attributes: dict[str, Attribute] = field(default_factory=dict)

    def add(self, attribute: Attribute) -> None:
        self.attributes[attribute.name] = attribute


@dataclass
class Device:
    id: str
    name: str
    channels: list[Channel] = field(default_factory=list)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    debug: dict[str, Attribute] = field(default_factory=dict)
    buffer: dict[str, Attribute] = field(default_factory=dict)

    def channel(self, id_or_name: str, output: bool) -> Channel:
        for channel in self.channels:
            if channel.output == output and id_or_name in (channel.id, channel.name):
                return channel
        refuse(errno.ENODEV)

    @property
    def sample_channels(self) -> int:
        return sum(channel.scan is not None for channel in self.channels)


@dataclass
class Context:
    description: str
    attributes: dict[str, str]
    devices: list[Device]

    def device(self, id_or_name: str) -> Device:
        for device in self.devices:
            if id_or_name in (device.id, device.name):
                return device
        refuse(errno.ENODEV)

    def xml(self) -> str:
        parts = ['<?xml version="1.0" encoding="utf-8"?>', _DTD]
        parts.append(_tag("context", open_=True, name="network", description=self.description))
        parts += [_tag("context-attribute", name=name, value=value) for name, value in self.attributes.items()]
        for device in self.devices:
            parts.append(_tag("device", open_=True, id=device.id, name=device.name))
            for channel in device.channels:
                parts += _channel(channel)
            for kind, attributes in (
                ("attribute", device.attributes),
                ("debug-attribute", device.debug),
                ("buffer-attribute", device.buffer),
            ):
                parts += [_tag(kind, name=attribute.name) for attribute in attributes.values()]
            parts.append("</device>")
        parts.append("</context>")
        return "".join(parts)


def _channel(channel: Channel) -> list[str]:
    kind = "output" if channel.output else "input"
    names = {"name": channel.name} if channel.name else {}
    parts = [_tag("channel", open_=True, id=channel.id, **names, type=kind)]
    if channel.scan is not None:
        parts.append(_tag("scan-element", index=str(channel.scan[0]), format=channel.scan[1]))
    parts += [_tag("attribute", name=a.name, filename=a.filename) for a in channel.attributes.values()]
    return [*parts, "</channel>"]


def _tag(tag: str, *, open_: bool = False, **attributes: str) -> str:
    inside = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    return f"<{tag}{inside}{'>' if open_ else '/>'}"


# libiio also reads a context without it, but prints a warning.
_DTD = (
    "<!DOCTYPE context ["
    "<!ELEMENT context (device | context-attribute)*>"
    "<!ELEMENT context-attribute EMPTY>"
    "<!ELEMENT device (channel | attribute | debug-attribute | buffer-attribute)*>"
    "<!ELEMENT channel (scan-element?, attribute*)>"
    "<!ELEMENT attribute EMPTY><!ELEMENT scan-element EMPTY>"
    "<!ELEMENT debug-attribute EMPTY><!ELEMENT buffer-attribute EMPTY>"
    "<!ATTLIST context name CDATA #REQUIRED description CDATA #IMPLIED>"
    "<!ATTLIST context-attribute name CDATA #REQUIRED value CDATA #REQUIRED>"
    "<!ATTLIST device id CDATA #REQUIRED name CDATA #IMPLIED>"
    "<!ATTLIST channel id CDATA #REQUIRED type (input|output) #REQUIRED name CDATA #IMPLIED>"
    "<!ATTLIST scan-element index CDATA #REQUIRED format CDATA #REQUIRED scale CDATA #IMPLIED>"
    "<!ATTLIST attribute name CDATA #REQUIRED filename CDATA #IMPLIED>"
    "<!ATTLIST debug-attribute name CDATA #REQUIRED><!ATTLIST buffer-attribute name CDATA #REQUIRED>"
    "]>"
)
