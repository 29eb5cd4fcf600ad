# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the interface of a scheme: everything that differs between ways to add up gradients over the air."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform.numerology import Numerology

Payload = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Grid = npt.NDArray[np.complex64]


class PackedField(NamedTuple):
    """An array of the downlink that describes the entries of the last payload."""

    name: str
    dtype: str
    size: int
    optional: bool = False


class Scheme(ABC):
    """A mapping from k gradient entries of each client to subcarriers, and from their sum back to k numbers.

    A scheme has no state: one object serves all clients, blocks and airs. A new scheme is a subclass, most easily of
    ``MajorityVote`` or ``Analog``; an air takes the class itself, its import string or its name.

    Attributes
    ----------
    name : str
        What configs and messages call it.
    dtype : dtype
        Type of a payload's entries.
    coherent : bool
        True if amplitudes add up. Clients then rotate their phases by a pilot, and carriers must stay in phase.
    scaled : bool
        True if all clients apply one common scale to their entries, which the server divides out again.
    repeatable : bool
        True if an entry may be sent on several subcarriers, ``repeats`` times.
    decides : bool
        True if received values are decisions, whose signs can be compared with the signs of the payloads' sum.

    Examples
    --------
    >>> from oac_blocks.dsp import Numerology
    >>> scheme, num, rng = oac.MajorityVote(), Numerology(), np.random.default_rng(1)
    >>> votes = scheme.payload_of(np.float32([0.5, -2, 3]), coins=rng)
    >>> grid = scheme.encode(votes, num, rng=rng)
    >>> grid.shape
    (1, 192)
    >>> scheme.detect(grid, 3, num).round(3)
    array([ 1., -1.,  1.], dtype=float32)
    """

    name: str
    dtype: np.dtype[Any]
    coherent: bool
    scaled: bool
    repeatable: bool
    decides: bool

    # What a client sends

    @abstractmethod
    def payload_of(self, entries: Floats, coins: np.random.Generator, abstain_below: float = 0.0) -> Payload:
        """Return the payload that a client sends for these gradient entries (k,); ``coins`` decides ties."""

    @abstractmethod
    def check(self, payload: Payload) -> Payload:
        """Return the payload (..., k) in the scheme's ``dtype``; raise ValueError if a value is not allowed."""

    def stands_for(self, payload: Payload, entries: Floats) -> Floats:
        """Return the entries that a client's payload stands for, in the units of its gradient.

        These are the multiple of the payload that is nearest to the entries: amplitudes stand for themselves, and a
        vote stands for the mean magnitude of the entries that were voted on. Error feedback keeps the difference.
        """
        sent, wanted = payload.astype(np.float64), entries.astype(np.float64)
        power = float(sent @ sent)
        return (sent * (float(sent @ wanted) / power if power else 0.0)).astype(np.float32)

    def common_scale(self, rms: npt.NDArray[np.float64], peak: npt.NDArray[np.float64]) -> float:  # noqa: ARG002
        """Return the scale that all clients apply in a round.

        Parameters
        ----------
        rms, peak : float64 arrays of shape (clients,)
            Root mean square and largest magnitude of each client's entries, as the clients report them; above 0.
        """
        return 1.0

    @abstractmethod
    def random_payload(self, k: int, rng: np.random.Generator) -> Payload:
        """Return a payload of k random entries, to test a link."""

    # The waveform

    @abstractmethod
    def entries_per_symbol(self, num: Numerology) -> int:
        """Return the number of entries that one OFDM symbol carries."""

    def symbols_needed(self, k: int, num: Numerology, repeats: int = 1) -> int:
        """Return the number of OFDM symbols for k entries, each sent ``repeats`` times."""
        k, repeats = integer("k", k, 1), integer("repeats", repeats, 1)
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
            Number of subcarriers, or pairs of subcarriers, for each entry.
        scale : float
            The common scale; only a scheme that is ``scaled`` uses it.
        precoding : array, optional
            Factors by which a client of a coherent scheme multiplies its subcarriers.
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
        """Return the server's k received values for a received grid (..., symbols, active).

        A scheme that is ``scaled`` divides by the scale, by the number of received clients and by the mean gain of
        their channels.
        """

    # Radios that compare energies

    @property
    def waveform(self) -> str:
        """Return the name of the scheme by which blocks and flowgraphs send this one.

        A scheme of a user's program is unknown there; it goes by the scheme whose subcarriers it uses.
        """
        return self.name

    def signed_energies(self, payload: Payload, scale: float) -> Payload:  # noqa: ARG002 (a vote has unit energy)
        """Return what a client hands to its radio for a payload: its entries in units of a vote's energy."""
        return payload

    def energies(self, grid: Grid, k: int, num: Numerology, *, repeats: int = 1) -> Floats:  # noqa: ARG002
        """Return the energies for and against each of k entries, (..., 2, k), summed over the copies.

        Raises
        ------
        ValueError
            If the scheme does not compare energies.
        """
        raise ValueError(f"scheme must compare energies, got {self.name!r}")

    def received_of(self, soft_votes: Floats, scale: float, clients: int) -> Floats:  # noqa: ARG002
        """Return the server's received values for its radio's soft votes.

        Parameters
        ----------
        soft_votes : float32 array of shape (k,)
            Energy for minus energy against, the mean over the copies, in units of the energy of one client's vote.
        scale : float
            The common scale of ``signed_energies``.
        clients : int
            Number of clients whose entries are in the soft votes.
        """
        return soft_votes

    @abstractmethod
    def combine(self, payload: Payload) -> Floats:
        """Return the values that a perfect channel delivers for the payloads (N, k) of N clients."""

    # The update

    @abstractmethod
    def direction(self, memory: npt.NDArray[Any]) -> Floats:
        """Return the direction that the model moves against, from the gradient memory g or what ``remember`` keeps."""

    @abstractmethod
    def remember(self, g: Floats) -> npt.NDArray[Any]:
        """Return the part of g that a client needs to compute ``direction``."""

    @property
    @abstractmethod
    def memory_dtype(self) -> np.dtype[Any]:
        """Return the dtype of the result of ``remember``."""

    @abstractmethod
    def downlink_fields(self, k: int) -> tuple[PackedField, ...]:
        """Return the arrays that tell a client about k fresh entries of g."""

    @abstractmethod
    def pack(self, fresh: Floats) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of ``downlink_fields`` for fresh entries (k,) of g."""

    @abstractmethod
    def unpack(self, arrays: Mapping[str, npt.NDArray[Any]], k: int) -> npt.NDArray[Any]:
        """Return what a client remembers of the k fresh entries, from the arrays of ``pack``."""
