# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the air by formulas: equation (7) for amplitudes, the exact statistics of energies on tones; no waveform.

Equation (7) is (sum_n h_n g_n + xi) / N over the N participants, with one real h_n of mean 1 for each client and round,
and independent noise xi on each entry. The two energies of a vote, or of an entry of the energy scheme, are drawn
independently for each entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Unseen, Uplink
from fl_app.air.bursts import air_time, plan
from fl_app.air.observed import MOST_TONES, Observation, in_db
from fl_app.air.simulation.clipping import clip_entries
from fl_app.air.simulation.gains import draw_flat_gains, mean_gain
from fl_app.air.simulation.levels import analog_levels, energy_levels, levels_of
from fl_app.air.simulation.simulated import SimulatedAir
from fl_app.core.streams import stream
from oac_blocks.dsp.channel.fading import gains
from oac_blocks.dsp.channel.noise import complex_alpha_stable

Formula = Callable[["FadingAir", npt.NDArray[Any], npt.NDArray[np.int64], int], npt.NDArray[np.float32]]


class FadingAir(SimulatedAir):
    """Compute the uplink by formulas; they ignore ``profile``, clocks, timing and converter."""

    _seen = Observation()  # what the page shows of the last round

    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        values, clients = self.check(payload, clients, t)
        formula = FORMULAS.get(self.scheme.name, FadingAir._subcarriers)
        received = formula(self, values, clients, t)
        received = clip_entries(received, self.settings.clip_level)
        return Uplink(received, clients, *air_time(plan(values.shape[1], self.settings)))

    def observe(self) -> Observation | None:
        return self._seen

    def _mean(
        self, entries: npt.NDArray[np.float32], clients: npt.NDArray[np.int64], t: int
    ) -> npt.NDArray[np.float32]:
        levels = analog_levels(self.settings, entries, mean_gain(self.settings, "flat"))
        total = np.zeros(entries.shape[1], np.float32)
        numbers = clients.tolist()
        h = [draw_flat_gains(1, self.settings, stream(self.seed, "air gain", t, client)) for client in numbers]
        for row, gain in zip(entries, h, strict=True):
            total += gain * row
        self._seen = Observation(tuple(numbers), power_db=in_db(np.square(np.concatenate(h))))
        # Two entries share a subcarrier: its real and its imaginary part.
        pairs = self._noise(-(-len(total) // 2), 2 * levels.entry_noise_std**2, t)
        total += pairs.view(np.float32)[: len(total)]
        return total / np.float32(len(entries))

    def _votes(
        self,
        votes: npt.NDArray[np.int8],
        clients: npt.NDArray[np.int64],  # noqa: ARG002 (which clients they are makes no difference)
        t: int,
    ) -> npt.NDArray[np.float32]:
        """Return energy for minus energy against, averaged over the copies, in units of one client's subcarrier."""
        noise_power = energy_levels(self.settings, votes).subcarrier_noise
        return self._difference(votes == 1, votes == -1, noise_power, t)

    def _entries(
        self,
        entries: npt.NDArray[np.float32],
        clients: npt.NDArray[np.int64],  # noqa: ARG002
        t: int,
    ) -> npt.NDArray[np.float32]:
        """Return the estimate of the mean entry by the energy scheme."""
        levels = energy_levels(self.settings, entries)
        sent = self.scheme.signed_energies(entries, levels.scale)
        plus, minus = np.maximum(sent, 0), np.maximum(-sent, 0)
        difference = self._difference(plus, minus, levels.subcarrier_noise, t)
        return self.scheme.received_of(difference, levels.scale, len(entries))

    def _difference(
        self, plus: npt.NDArray[Any], minus: npt.NDArray[Any], noise_power: float, t: int
    ) -> npt.NDArray[np.float32]:
        """Return the difference of two tones' energies, averaged over the copies, for the energies (N, k) sent."""
        exponential = self.settings.fading == "rayleigh" and self.settings.noise_alpha == 2
        draw = self._exponential_energies if exponential else self._energies
        copies = np.float32(self.settings.repeats)
        energy_plus, energy_minus = draw(plus, noise_power, t, 0), draw(minus, noise_power, t, 1)
        some = np.stack([energy_plus[:MOST_TONES], energy_minus[:MOST_TONES]]) / copies
        self._seen = Observation(energies=some)
        return (energy_plus - energy_minus) / copies

    def _exponential_energies(
        self, sent: npt.NDArray[Any], noise_power: float, t: int, tone: int
    ) -> npt.NDArray[np.float32]:
        """Draw energies: K Rayleigh gains and Gaussian noise add up to a Gaussian, and R such energies are Erlang."""
        rng = stream(self.seed, "air energy", t, tone)
        means = sent.sum(axis=0, dtype=np.float32) + np.float32(noise_power)
        return means * rng.standard_gamma(self.settings.repeats, len(means), np.float32)

    def _energies(self, sent: npt.NDArray[Any], noise_power: float, t: int, tone: int) -> npt.NDArray[np.float32]:
        """Draw energies without the shortcut: add up the clients on the subcarrier, each with its own phase."""
        settings, rng = self.settings, stream(self.seed, "air energy", t, tone)
        k = sent.shape[1]
        energies = np.zeros(k, np.float32)
        for copy in range(settings.repeats):
            total = self._noise(k, noise_power, t, tone, copy)
            for row in sent:
                turn = np.exp(2j * np.pi * rng.random(k, np.float32))
                total += np.sqrt(row, dtype=np.float32) * gains((k,), settings.fading, rng, settings.rician_k_db) * turn
            energies += total.real**2 + total.imag**2
        return energies

    def _subcarriers(self, values: npt.NDArray[Any], clients: npt.NDArray[np.int64], t: int) -> npt.NDArray[np.float32]:
        """Receive any scheme without its own formula: each subcarrier of each client has an independent gain.

        In a coherent scheme each client has one gain, and it is real, as the client's precoding leaves it.
        """
        settings, scheme, num = self.settings, self.scheme, self.settings.numerology()
        mean = mean_gain(settings, "flat") if scheme.coherent else 1.0
        levels = levels_of(settings, values, mean)
        total: npt.NDArray[np.complex64] | None = None
        for row, client in zip(values, clients.tolist(), strict=True):
            rng = stream(self.seed, "air gain", t, client)
            grid = scheme.encode(row, num, rng=rng, repeats=settings.repeats, scale=levels.scale)
            if scheme.coherent:
                grid = grid * draw_flat_gains(1, settings, rng)
            else:
                turns = np.exp(2j * np.pi * rng.random(grid.shape, np.float32))
                grid = grid * gains(grid.shape, settings.fading, rng, settings.rician_k_db) * turns
            total = grid if total is None else total + grid
        assert total is not None
        total = total + self._noise(total.size, levels.subcarrier_noise, t).reshape(total.shape)
        grid, k = total.astype(np.complex64), values.shape[1]
        copies, scale = settings.repeats, levels.scale
        return scheme.detect(grid, k, num, repeats=copies, scale=scale, clients=len(values), mean_gain=mean)

    def _noise(self, n: int, power: float, *indices: int) -> npt.NDArray[np.complex64]:
        return complex_alpha_stable(n, self.settings.noise_alpha, power, stream(self.seed, "air noise", *indices))


# Formulas of the schemes whose statistics are known in closed form; every other scheme goes by subcarriers.
FORMULAS: dict[str, Formula] = {
    "onebit": FadingAir._votes,
    "analog": FadingAir._mean,
    "energy": FadingAir._entries,
}
