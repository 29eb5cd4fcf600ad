# SPDX-License-Identifier: GPL-3.0-or-later
"""Fast lock of an oscillator: eight profiles, each a frequency, stored and recalled, saved and loaded as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from oac_blocks.radio.limits import Range
from oac_blocks.radio.virtual.iiod import texts
from oac_blocks.radio.virtual.iiod.attributes import refuse
from oac_blocks.radio.virtual.iiod.texts import Read, Write

PROFILES = Range(0, 1, 7)
_WORDS = 16
_FREQUENCY_BYTES = 8  # words that hold the frequency; those of a real chip are contents of its registers


class Fastlock:
    """The profiles of one oscillator. ``frequency_hz`` reads the oscillator, and ``tune`` sets it."""

    def __init__(self, frequency_hz: Callable[[], int], tune: Callable[[int], None]) -> None:
        self._frequency_hz, self._tune = frequency_hz, tune
        self._stored_hz: dict[int, int] = {}
        self._recalled: int | None = None
        self._saved = 0

    def attributes(self) -> Iterator[tuple[str, Read, Write]]:
        """Return name, read and write function of each attribute, in the driver's order."""
        yield "fastlock_load", texts.constant("0"), self._load
        yield "fastlock_recall", self._read_recalled, self._recall
        yield "fastlock_save", self._read_saved, self._save
        yield "fastlock_store", texts.constant("0"), self._store

    def _load(self, text: str) -> None:
        """Load a profile from "profile word,word,...", 16 words of 8 bits."""
        found = re.fullmatch(r"\s*([0-7])\s+(\d{1,3}(?:\s*,\s*\d{1,3}){15})\s*", text.replace("\0", ""))
        if found is None:
            refuse()
        words = [int(word) for word in found.group(2).split(",")]
        if max(words) > 255:
            refuse()
        self._stored_hz[int(found.group(1))] = int.from_bytes(bytes(words[:_FREQUENCY_BYTES]), "little")

    def _recall(self, text: str) -> None:
        profile = texts.within(PROFILES, texts.integer(text))
        if profile not in self._stored_hz:
            refuse()
        self._tune(self._stored_hz[profile])
        self._recalled = profile

    def _read_recalled(self) -> str:
        return refuse() if self._recalled is None else str(self._recalled)

    def _save(self, text: str) -> None:
        self._saved = texts.within(PROFILES, texts.integer(text))

    def _read_saved(self) -> str:
        frequency = self._stored_hz.get(self._saved, 0).to_bytes(_FREQUENCY_BYTES, "little")
        words = [*frequency, *[0] * (_WORDS - _FREQUENCY_BYTES)]
        return f"{self._saved} {','.join(map(str, words))}"

    def _store(self, text: str) -> None:
        self._stored_hz[texts.within(PROFILES, texts.integer(text))] = self._frequency_hz()
