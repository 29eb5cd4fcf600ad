# SPDX-License-Identifier: GPL-3.0-or-later
"""What a scheme answers: everything that differs between votes, amplitudes and other ways to add up over the air."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.waveform.numerology import Numerology

Payload = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Grid = npt.NDArray[np.complex64]


class PackedField(NamedTuple):
    """An array of the downlink: what the server tells of the entries that were sent."""

    name: str
    dtype: str
    size: int
    optional: bool = False


class Scheme(ABC):
    """One way to map k gradient entries of each client to subcarriers, and their sum back to k numbers.

    A scheme has no state: one object serves all clients, blocks and airs. A new scheme is one module with a subclass
    and a call of ``register_scheme``.
    """

    name: str
    dtype: np.dtype[Any]  # of a payload's entries
    coherent: bool  # do amplitudes add up? Then clients turn their phases by a pilot, and carriers must stay in phase
    scaled: bool  # do all clients apply one common scale to their entries, which the server divides out again?
    repeatable: bool  # may an entry go out on several subcarriers, ``repeats`` times?
    decides: bool  # are the received values decisions, whose sign can be compared with that of the payloads' sum?

    # What a client sends

    @abstractmethod
    def payload_of(self, entries: Floats, coins: np.random.Generator, abstain_below: float = 0.0) -> Payload:
        """Return what a client sends of these gradient entries (k,). ``coins`` decide ties."""

    @abstractmethod
    def check(self, payload: Payload) -> Payload:
        """Return the payload (..., k) in the scheme's ``dtype``; ValueError if a value is not allowed."""

    @abstractmethod
    def random_payload(self, k: int, rng: np.random.Generator) -> Payload:
        """Return a payload of k random entries, to try a link with."""

    # The waveform

    @abstractmethod
    def entries_per_symbol(self, num: Numerology) -> int:
        """Return how many entries one OFDM symbol carries."""

    def symbols_needed(self, k: int, num: Numerology, repeats: int = 1) -> int:
        """Return the number of OFDM symbols for k entries, each sent ``repeats`` times."""
        return -(-k * repeats // self.entries_per_symbol(num))

    @abstractmethod
    def encode(
        self,
        payload: Payload,
        num: Numerology,
        *,
        rng: np.random.Generator | None = None,
        repeats: int = 1,
        scale: float = 1.0,
        precoding: npt.ArrayLike | None = None,
    ) -> Grid:
        """Return the grid (..., symbols, active) that a client transmits.

        Parameters
        ----------
        payload : array of shape (..., k)
        num : Numerology
        rng : Generator, optional
            Draws the phases of a scheme that is not coherent.
        repeats : int
            Subcarriers (or pairs of them) for each entry.
        scale : float
            The common scale of a scheme that is ``scaled``.
        precoding : array, optional
            What a client of a coherent scheme multiplies its subcarriers by.
        """

    @abstractmethod
    def detect(
        self,
        grid: Grid,
        k: int,
        num: Numerology,
        *,
        repeats: int = 1,
        scale: float = 1.0,
        clients: int = 1,
        mean_gain: float = 1.0,
    ) -> Floats:
        """Return what the server makes of the received grid (..., symbols, active): k numbers.

        A scheme that is ``scaled`` divides by the scale, the number of clients heard, and the mean gain of their
        channels.
        """

    @abstractmethod
    def combine(self, payload: Payload) -> Floats:
        """Return what a perfect channel delivers of the payloads (N, k) of N clients."""

    # The update

    @abstractmethod
    def direction(self, memory: npt.NDArray[Any]) -> Floats:
        """Return what the model moves against, from the gradient memory g or from what ``remember`` keeps of it."""

    @abstractmethod
    def remember(self, g: Floats) -> npt.NDArray[Any]:
        """Return what a client must know of g to compute ``direction``."""

    @property
    @abstractmethod
    def memory_dtype(self) -> np.dtype[Any]:
        """The dtype of what ``remember`` returns."""

    @abstractmethod
    def downlink_fields(self, k: int) -> tuple[PackedField, ...]:
        """Return the arrays that tell a client of k fresh entries of g."""

    @abstractmethod
    def pack(self, fresh: Floats) -> dict[str, npt.NDArray[Any]]:
        """Return those arrays for fresh entries (k,) of g."""

    @abstractmethod
    def unpack(self, arrays: Mapping[str, npt.NDArray[Any]], k: int) -> npt.NDArray[Any]:
        """Return what a client remembers of the k fresh entries, from the arrays of ``pack``."""
