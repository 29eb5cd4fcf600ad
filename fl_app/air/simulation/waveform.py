# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate the air as radios make it: each burst passes its own clock, oscillator and multipath; the sum is received.

The code processes a few clients at a time, so that memory does not grow with their number, and burst by burst, so that
it does not grow with the payload. A client whose symbols cover the server's FFT windows is added up on the subcarriers
(`dsp.symbol_channel`), if the part that this omits is far below the noise. In a coherent scheme, so is a client with a
symbol border in the windows, with a correction there. All other clients pass the channel sample by sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Unseen, Uplink
from fl_app.air.bursts import Burst, air_time, early_samples, plan
from fl_app.air.observed import MOST_TONES, Observation, in_db, spectrum_db
from fl_app.air.pilots import pilot_noise
from fl_app.air.settings import AirSettings
from fl_app.air.simulation import front_end
from fl_app.air.simulation.arrivals import SimulatedArrivals
from fl_app.air.simulation.clipping import clip_entries
from fl_app.air.simulation.clocks import RoundClocks
from fl_app.air.simulation.coherence import coherence_of, warn_of_random_phases
from fl_app.air.simulation.gains import mean_gain
from fl_app.air.simulation.levels import Levels, levels_of
from fl_app.air.simulation.path import Path, draw_echoes, draw_path
from fl_app.air.simulation.peaks import PeakMeter
from fl_app.air.simulation.precoding import Precoding, client_precodings
from fl_app.air.simulation.simulated import SimulatedAir
from fl_app.air.simulation.threads import in_order
from fl_app.core.streams import stream
from oac_blocks.dsp import preamble
from oac_blocks.dsp.channel.symbol_channel import Seen, SymbolChannel, SymbolSum, mean_ringing
from oac_blocks.dsp.receive import burst_snr
from oac_blocks.dsp.waveform import frame, ofdm

ComplexArray = npt.NDArray[np.complex64]
Drawn = tuple[ComplexArray, npt.NDArray[np.float64]]  # taps and clock rates of a path

_ECHO_TAIL_SAMPLES = 64  # samples after the last symbol, so that resampling meets no edge there
_CLIENTS_AT_ONCE = 4  # clients whose signals are in memory together
_RINGING_TO_NOISE = 0.03  # ringing of all clients together, relative to the noise, that may be omitted: 0.1 dB


class _LastRound(NamedTuple):
    t: int
    clients: npt.NDArray[np.int64]
    burst: Burst
    samples: ComplexArray  # received in the first burst


class WaveformAir(SimulatedAir):
    """Transmit the clients' bursts through a simulated channel, sample by sample or on the subcarriers."""

    def __init__(self, settings: AirSettings, n_clients: int, seed: int) -> None:
        super().__init__(settings, n_clients, seed)
        self.num = settings.numerology()
        self.clocks = RoundClocks(settings, n_clients, seed)
        self.arrivals = SimulatedArrivals(settings, n_clients, seed)
        self.mean_gain = 1.0
        if self.scheme.coherent:
            warn_of_random_phases(settings)
            self.mean_gain = mean_gain(settings, pilot_noise=pilot_noise(settings))
        # If there are more clients than shifts, they share shifts; only tracking a client's own timing would suffer.
        self.sync = preamble.shared_slot(min(n_clients, preamble.max_clients(self.num)), self.num)
        self.sync_tones = ofdm.demodulate(self.sync, self.num)[:, 0]
        self.by_symbols = True  # False sends all clients sample by sample, for comparison
        # The server begins to listen one prefix before the nominal arrival of a burst, for early clients.
        self.nominal_samples = settings.cp_samples
        self._last: _LastRound | None = None

    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        values, clients = self.check(payload, clients, t)
        bursts = plan(values.shape[1], self.settings)
        transmits = ~np.isnan(self.arrivals.offsets(t)[clients])  # a client that is not calibrated is silent
        values, clients = values[transmits], clients[transmits]
        if not clients.size:
            self._last = None
            return Uplink(np.zeros(values.shape[1], np.float32), clients, *air_time(bursts))
        levels = levels_of(self.settings, values, self._noise_gain(bursts))
        peaks = PeakMeter(self.num, len(bursts) * len(clients))
        received = np.empty(values.shape[1], np.float32)
        powers, first_samples = [], np.empty(0, np.complex64)
        for index, burst in enumerate(bursts):
            clean = self._add_up(values[:, burst.entries], clients, burst, (t, index), levels, peaks)
            noise = stream(self.seed, "air noise", t, index)
            samples = front_end.receive(clean, len(clients), levels, self.settings, noise)
            samples = samples[self.nominal_samples :][: burst.layout.samples]
            first_samples = first_samples if index else samples
            powers.append(burst_snr.measure(samples, burst.layout, early_samples(self.settings)))
            received[burst.entries] = self._decode(samples, burst, levels, len(clients))
        self._last = _LastRound(t, clients, bursts[0], first_samples)
        received = clip_entries(received, self.settings.clip_level)
        return Uplink(received, clients, *air_time(bursts), burst_snr.snr_db(powers, len(clients)), peaks.db())

    def observe(self) -> Observation | None:
        """Describe the first burst of the last round; the draws are the burst's own, once more."""
        if self._last is None:
            return None
        t, clients, burst, samples = self._last
        links = [path.link for _, path in self._paths(clients, burst, (t, 0))]
        echoes = [draw_echoes(self.settings, self.seed, (t, 0, client)) for client in clients.tolist()]
        # Arrival of the middle of the burst, as calibration aligns it; with a clock error the beginning is elsewhere.
        early = self.nominal_samples + 0.5e-6 * burst.layout.samples * np.array([one.clock_ppm for one in links])
        state = "assumed in time" if self.settings.calibration == "assumed" else "tracking"
        return Observation(
            clients=tuple(clients.tolist()),
            states=(state if self.settings.calibration != "off" else "not calibrated",) * len(links),
            offset_samples=np.array([one.delay_samples for one in links]) - early,
            power_db=in_db([np.sum(np.abs(taps) ** 2) for taps in echoes]),
            cfo_hz=np.array([one.cfo_hz for one in links]),
            spectrum_db=spectrum_db(samples, self.num.fft_size),
            sample_rate_hz=self.settings.sample_rate_hz,
            energies=self._tone_energies(samples, burst),
        )

    def _tone_energies(self, samples: ComplexArray, burst: Burst) -> npt.NDArray[np.float32]:
        """Return the energies (2, entries) on the first tone pairs of a burst; none in a scheme without pairs."""
        grid = ofdm.demodulate(frame.payload_of(samples, burst.layout), self.num, early_samples(self.settings))
        repeats = self.settings.repeats
        try:
            energies = self.scheme.energies(grid, len(burst), self.num, repeats=repeats)
        except ValueError:  # the scheme does not compare energies
            return np.empty((2, 0), np.float32)
        return energies[:, :MOST_TONES] / np.float32(repeats)

    def _add_up(
        self,
        values: npt.NDArray[Any],
        clients: npt.NDArray[np.int64],
        burst: Burst,
        when: tuple[int, int],
        levels: Levels,
        peaks: PeakMeter,
    ) -> ComplexArray:
        """Return the sum of all clients' bursts at the server, before the server's own noise."""
        paths = self._paths(clients, burst, when)
        total = np.zeros(self.nominal_samples + burst.layout.samples + _ECHO_TAIL_SAMPLES, np.complex64)
        early = early_samples(self.settings)
        # Runs of the other schemes keep the bits that they had before there were corrections at borders.
        channel = SymbolChannel(burst.layout, self.nominal_samples, early, borders=self.scheme.coherent)
        by_symbols = SymbolSum(channel, [path.link for _, path in paths])
        may_ring = self.by_symbols and len(clients) * mean_ringing(self.num) <= _RINGING_TO_NOISE * levels.sample_noise
        for start in range(0, len(paths), _CLIENTS_AT_ONCE):
            some = paths[start : start + _CLIENTS_AT_ONCE]
            drawn = [path.draw(len(total)) for _, path in some] if may_ring or self.scheme.coherent else []
            all_seen = self._seen(channel, [path for _, path in some], drawn) if may_ring else [None] * len(some)
            precodings = self._precodings([path for _, path in some], drawn, burst)
            others = []
            for (row, path), seen, precoding in zip(some, all_seen, precodings, strict=True):
                grid, who = self._encode(values[row], path, levels), path.where[-1] % len(self.sync)
                peaks.look_at(grid, precoding)
                if seen is not None:
                    of_tones = None if precoding is None else precoding.of_tones
                    by_symbols.add(grid, self.sync_tones[who], seen, of_tones)
                borders = None if seen is None else seen.borders
                if seen is not None and borders is None:
                    continue
                sent = grid if precoding is None else precoding.apply(grid, slice(None))
                if borders is None:
                    others.append((sent, self.sync[who], path))
                else:
                    by_symbols.add_borders(sent, self.sync_tones[who], borders)
            for arrived in in_order(partial(self._carry, burst, len(total)), others):
                total += arrived
        by_symbols.add_to(total[self.nominal_samples :][: burst.layout.samples])
        return total

    def _paths(self, clients: npt.NDArray[np.int64], burst: Burst, when: tuple[int, int]) -> list[tuple[int, Path]]:
        """Return the row of the payload and the path of each client."""
        ppm, offsets = self.clocks.ppm(when[0]), self.arrivals.offsets(when[0])
        about = (burst.layout, self.nominal_samples, self.seed)
        return [
            (row, draw_path(self.settings, float(ppm[client]), *about, (*when, client), float(offsets[client])))
            for row, client in enumerate(clients.tolist())
        ]

    def _seen(self, channel: SymbolChannel, paths: list[Path], drawn: list[Drawn]) -> list[Seen | None]:
        taps, rates_ppm = zip(*drawn, strict=True)
        links = [path.link for path in paths]
        undone_ppm = np.array([link.clock_ppm for link in links]) if self.scheme.coherent else None
        return channel.seen(links, taps, np.stack(rates_ppm), undone_ppm)

    def _carry(self, burst: Burst, samples: int, sent: tuple[ComplexArray, ComplexArray, Path]) -> ComplexArray:
        """Return a client's payload (symbols, active) after its sync symbol, carried sample by sample."""
        grid, sync, path = sent
        return path.carry(frame.assemble(ofdm.modulate(grid, self.num), sync, burst.layout), samples)

    def _encode(self, values: npt.NDArray[Any], path: Path, levels: Levels) -> ComplexArray:
        """Return the payload's grid (symbols, active) before the client's precoding."""
        phases = None if self.scheme.coherent else stream(self.seed, "air vote phases", *path.where)
        return self.scheme.encode(values, self.num, rng=phases, repeats=self.settings.repeats, scale=levels.scale)

    def _precodings(self, paths: list[Path], drawn: list[Drawn], burst: Burst) -> Sequence[Precoding | None]:
        """Return the factors by which each client of a coherent scheme multiplies its payload."""
        if not self.scheme.coherent:
            return [None] * len(paths)
        taps = np.stack([own for own, _ in drawn])
        return client_precodings(paths, taps, self.nominal_samples, burst.layout, self.settings)

    def _noise_gain(self, bursts: list[Burst]) -> float:
        """Return the gain by which the noise on the entries is divided, in the mean over the round's subcarriers."""
        if not self.scheme.coherent:
            return 1.0
        inverse = [coherence_of(burst.layout, self.settings).noise_gain ** -2 for burst in bursts]
        symbols = [burst.layout.payload_symbols for burst in bursts]
        return float(self.mean_gain / np.sqrt(np.average(inverse, weights=symbols)))

    def _decode(
        self, samples: ComplexArray, burst: Burst, levels: Levels, participants: int
    ) -> npt.NDArray[np.float32]:
        payload = frame.payload_of(samples, burst.layout)
        grid = ofdm.demodulate(payload, self.num, early_samples(self.settings))
        if self.scheme.coherent:
            grid = coherence_of(burst.layout, self.settings).undo(grid)
        return self.scheme.detect(
            grid,
            len(burst),
            self.num,
            repeats=self.settings.repeats,
            scale=levels.scale,
            clients=participants,
            mean_gain=self.mean_gain,
        )
