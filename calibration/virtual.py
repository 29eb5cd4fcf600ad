# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate a server and N clients round by round, without streams; waveforms are computed only where they matter.

Each client has its own crystal for clock and carrier, and its own stream offset, delay and multipath. In each round
the simulation computes the trigger as each client receives it, and the real estimator measures its time. It then
computes the answers as the server receives them (the sync symbols of a payload round, or the sequences of an acquire
round), and the server's real estimators measure them. Payload and silence in between are not computed, so that a
thousand rounds take seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from calibration.clocks import ClientClocks
from calibration.faults import Fault, FaultSchedule
from calibration.waves import MARGIN_SAMPLES, SharedTones, strongest, trigger_records
from oac_blocks.dsp import bounds
from oac_blocks.dsp.channel.crystal import CrystalSettings
from oac_blocks.dsp.channel.noise import complex_gaussian
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.receive import acquisition
from oac_blocks.dsp.receive.arrival import estimate_arrival
from oac_blocks.dsp.receive.shared_burst import estimate_burst
from oac_blocks.dsp.receive.trigger_search import DEFAULT_MIN_SNR_DB
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.answer import sequence_answer
from oac_blocks.dsp.waveform.round_layout import Kind, RoundLayout
from oac_blocks.dsp.waveform.trigger import trigger
from oac_blocks.loop.states import Answer, Arrivals, Order, Plan, Sent

Floats = npt.NDArray[np.float64]
Complex = npt.NDArray[np.complex128]

_CFO_SHARE = 0.25  # weight of the newest trigger in a client's running mean of the frequency
_MOST_SPREADS = 5  # delay spreads after which the multipath ends


@dataclass(frozen=True)
class VirtualSettings:
    """The settings of the radios. The seed draws each client's rate within ``ppm`` and offset within a quarter slot."""

    layout: RoundLayout = field(default_factory=lambda: RoundLayout(clients=5, groups=2, answer_samples=400_000))
    votes: int = 21_880
    ppm: float = 20.0  # the rate errors are uniform between minus and plus this
    walk_ppm: float = 0.1  # standard deviation of a rate's random walk after one second
    wobble_ppm: float = 0.0
    wobble_seconds: float = 20.0
    carrier_hz: float = 2.4e9
    snr_db: float = 15.0  # SNR of a client's subcarrier at the server, and of the trigger's samples at a client
    own_trigger_snr_db: float = 30.0  # SNR of the server's own trigger at the server
    delay_spread_samples: float = 0.0  # 0 is one path; otherwise Rayleigh multipath with an exponential profile
    gain_spread_db: float = 0.0  # the mean powers are uniform between minus and plus this
    interval_samples: int | None = None  # from trigger to trigger; None is twice the turnaround, or the round's length
    seed: int = 1

    def __post_init__(self) -> None:
        integer("votes", self.votes, 1)
        real("ppm", self.ppm, 0.0, 200.0)
        for name in ("walk_ppm", "wobble_ppm", "carrier_hz", "gain_spread_db"):
            real(name, getattr(self, name), 0.0)
        real("wobble_seconds", self.wobble_seconds, 0.0, open_low=True)
        real("snr_db", self.snr_db, -50.0, 100.0)
        real("own_trigger_snr_db", self.own_trigger_snr_db, -10.0, 100.0)
        prefix = self.layout.num.cp_samples
        real("delay_spread_samples", self.delay_spread_samples, 0.0, prefix / _MOST_SPREADS)
        integer("seed", self.seed, 0)
        if self.interval_samples is not None:
            integer("interval_samples", self.interval_samples, self.round_samples)

    @property
    def round_samples(self) -> int:
        """Return the samples from a trigger to the end of the longest answer."""
        layout = self.layout
        return layout.answer_samples + max(layout.frame(self.votes).samples, acquisition.samples_needed(layout))

    @property
    def interval(self) -> int:
        """Return the samples from trigger to trigger."""
        return self.interval_samples or max(2 * self.layout.answer_samples, self.round_samples + 10_000)


@dataclass(frozen=True)
class RoundResult:
    """The result of a round. ``gaps``, ``answers`` and ``arrivals`` are for the loop; the other fields are true values.

    ``residual_samples`` is the true minus the nominal arrival time of each client, averaged over the frame and over the
    client's paths; in a given world it is that of the first path. It is NaN for a client that did not answer.
    """

    gaps: tuple[tuple[int, int, str], ...]  # client, new epoch, reason
    answers: tuple[Answer, ...]
    arrivals: Arrivals
    residual_samples: Floats
    clock_ppm: Floats  # true rate errors in the middle of the turnaround


class World(Protocol):
    """Clocks and multipath that a caller gives, in place of those that the settings draw."""

    def rates_ppm(self, plan: Plan) -> Floats:
        """Return the rate errors (N,) in this round; they hold from its trigger to the next one."""

    def taps(self, plan: Plan) -> Complex:
        """Return the multipath (N, taps) in this round, one sample apart; it is the same in both directions."""


class VirtualRadios:
    """A simulated server and its clients, which run one round at a time."""

    def __init__(self, settings: VirtualSettings, faults: Iterable[Fault] = (), world: World | None = None) -> None:
        self.settings = settings
        self._world = world
        layout = settings.layout
        n = layout.clients
        self._schedule = FaultSchedule(faults)
        require(self._schedule.clients() <= n, "faults", f"client {self._schedule.clients() - 1}", f"below {n}")
        seeds = np.random.SeedSequence(settings.seed).spawn(4)
        setup, turns, self._noise, self._fading = (np.random.default_rng(seed) for seed in seeds)
        crystals = [
            CrystalSettings(
                float(ppm), settings.walk_ppm, settings.wobble_ppm, settings.wobble_seconds, float(turns.random())
            )
            for ppm in settings.ppm * setup.uniform(-1, 1, n)
        ]
        if world is not None:
            crystals = [CrystalSettings()] * n
        self._given_ppm = np.zeros(n)  # rates of a given world in the last round
        self._clocks = ClientClocks(crystals, layout.num.sample_rate_hz, seeds[1])
        self._begin = 0.0  # time of the server at which the next round begins, in samples
        quarter = layout.slot_samples / 4
        self.stream_offset_samples = setup.uniform(-quarter, quarter, n)
        self.delay_samples = setup.uniform(0.5, 20.0, n)
        self._amplitude = 10 ** (settings.gain_spread_db * setup.uniform(-1, 1, n) / 20)
        self._rx_origin = np.floor(setup.uniform(0, 1e7, n))  # first sample of each client's receive count
        self.epochs = np.zeros(n, np.int64)
        self._cfo = np.full(n, np.nan)  # carrier offset as each client knows it, rad/sample
        self._shared = SharedTones(layout)
        self._own_variance = bounds.joint_crlb(trigger(), 10 ** (settings.own_trigger_snr_db / 10))[0]

    def play(self, plan: Plan) -> RoundResult:
        """Play one round by these orders and return its result."""
        gaps = self._strike(plan.round)
        begin, self._begin = self._begin, self._begin + self.settings.interval
        sent_at = begin + self._noise.uniform(0, 1)  # time of the trigger's first sample at the server
        taps = self._draw_taps(plan.round) if self._world is None else self._meet(self._world, plan, begin)
        triggers = self._triggers(sent_at, taps)
        for fault in self._schedule.now(plan.round, "false_trigger"):
            triggers.count[fault.client] += fault.value

        # A client whose trigger is too weak to be detected does not answer.
        detects = triggers.snr_db >= DEFAULT_MIN_SNR_DB
        orders = [order for order in plan.orders if self._responds(order, plan.round) and detects[order.client]]
        answers = tuple(self._answer(order, triggers) for order in orders)
        air = self._on_air(orders, plan.kind, sent_at, triggers, taps)
        noise_power = 10 ** (-self.settings.snr_db / 10)
        noise_power += sum(10 ** (fault.value / 10) for fault in self._schedule.now(plan.round, "interferer"))
        hear = self._hear_sequences if plan.kind == "acquire" else self._hear_frame
        measured = hear(air, noise_power)
        measured[0] -= triggers.own_sample - sent_at
        residual = air.delays.mean(axis=1) + _mean_excess(self._spreads(plan.round))
        place = np.where(np.isfinite(measured[0]), self._places(plan.kind), np.nan)
        arrivals = Arrivals(plan.round, plan.kind, triggers.own_sample, *np.vstack((measured, place)))
        clock_ppm = self._clocks.rates_ppm(begin + self.settings.interval / 4)
        return RoundResult(gaps, answers, arrivals, residual, clock_ppm)

    def _meet(self, world: World, plan: Plan, begin: float) -> Complex:
        """Set the clocks to the rates of a given world, and return its multipath."""
        rates = world.rates_ppm(plan)
        for client, change in enumerate((rates - self._given_ppm).tolist()):
            if change:
                self._clocks.step(client, change, begin)
        self._given_ppm = rates.copy()
        return world.taps(plan)

    def _places(self, kind: Kind) -> Floats:
        """Return where each client is measured, in samples after its answer's first sample, (N,)."""
        layout = self.settings.layout
        if kind == "acquire":
            return np.array([layout.sequence_start_samples(client) for client in range(layout.clients)], np.float64)
        return np.full(layout.clients, layout.frame(self.settings.votes).sync_starts_samples().mean())

    def _answer(self, order: Order, triggers: _Triggers) -> Answer:
        client = order.client
        sent: Sent = "acquire" if order.mode == "acquire" else "payload"
        count = triggers.count[client] + self._rx_origin[client]
        heard = (float(count), float(triggers.cfo[client]), float(triggers.snr_db[client]))
        return Answer(client, order.round, int(self.epochs[client]), sent, order.correction_samples, *heard)

    def _on_air(
        self,
        orders: list[Order],
        kind: Kind,
        sent_at: float,
        triggers: _Triggers,
        taps: Complex,
    ) -> _OnAir:
        """Place each answer by its client's clock, and return when it arrives by the server's clock."""
        layout = self.settings.layout
        corrections, gains, stretch = np.zeros(layout.clients), np.zeros(layout.clients), np.ones(layout.clients)
        for order in orders:
            corrections[order.client] = order.correction_samples
            stretch[order.client] += 1e-6 * order.drift_ppm
            gains[order.client] = self._amplitude[order.client] * 10 ** (order.gain_db / 20)
        laid = triggers.count + layout.answer_samples + corrections + self.stream_offset_samples
        if kind == "acquire":
            starts = self._places(kind)[None]
        else:
            starts = layout.frame(self.settings.votes).sync_starts_samples()[:, None].astype(np.float64)
        wanted = sent_at + layout.answer_samples
        delays = [
            self._clocks.time_of(laid + start * stretch) + self.delay_samples - wanted - start for start in starts
        ]
        clients = np.array([order.client for order in orders], np.int64)
        answering = np.isin(np.arange(layout.clients), clients)[:, None]
        turn = self._true_cfo(wanted) - self._cfo
        return _OnAir(clients, np.where(answering, np.transpose(delays), np.nan), gains, taps, turn)

    def _strike(self, round_: int) -> tuple[tuple[int, int, str], ...]:
        """Apply the faults that come before the round, and return the stream gaps."""
        for fault in self._schedule.now(round_, "jump"):
            self.stream_offset_samples[fault.client] += fault.value
        for fault in self._schedule.now(round_, "clock_step"):
            self._clocks.step(fault.client, fault.value, self._begin)
        gaps = []
        for fault in self._schedule.now(round_, "gap"):
            self.stream_offset_samples[fault.client] += fault.value
            self._rx_origin[fault.client] += math.floor(abs(fault.value))
            self.epochs[fault.client] += 1
            gaps.append((fault.client, int(self.epochs[fault.client]), "stream gap"))
        return tuple(gaps)

    def _responds(self, order: Order, round_: int) -> bool:
        faults = (*self._schedule.now(round_, "miss"), *self._schedule.now(round_, "vanish"))
        deaf = any(fault.client == order.client for fault in faults)
        return order.mode != "silent" and order.epoch == self.epochs[order.client] and not deaf

    def _spreads(self, round_: int) -> Floats:
        spreads = np.full(self.settings.layout.clients, self.settings.delay_spread_samples)
        for fault in self._schedule.now(round_, "echoes"):
            spreads[fault.client] = fault.value
        return spreads

    def _draw_taps(self, round_: int) -> Complex:
        """Draw each client's multipath (N, taps), one sample apart; it is the same in both directions."""
        spreads = self._spreads(round_)
        count = 1 + math.ceil(_MOST_SPREADS * float(spreads.max()))
        drawn = self._fading.standard_normal((len(spreads), count, 2)).view(np.complex128)[..., 0] / math.sqrt(2)
        powers = _profile(spreads, count)
        taps = drawn * np.sqrt(powers)
        alone = spreads == 0
        taps[alone] = 0
        taps[alone, 0] = np.exp(1j * np.angle(drawn[alone, 0]))
        return taps

    def _true_cfo(self, time: float) -> Floats:
        """Return the clients' carrier offsets against the server in rad/sample; one crystal makes clock and carrier."""
        hertz = 1e-6 * self._clocks.rates_ppm(time) * self.settings.carrier_hz
        return 2 * np.pi * hertz / self.settings.layout.num.sample_rate_hz

    def _triggers(self, sent_at: float, taps: Complex) -> _Triggers:
        """Return the trigger as each client and the server itself receive it."""
        arrived = np.append(self._clocks.count_at(sent_at + self.delay_samples), sent_at)
        first = np.floor(arrived)
        # A client with a high carrier receives the server at a low frequency.
        cfo = np.append(-self._true_cfo(sent_at), 0.0)
        paths = np.zeros((len(first), taps.shape[1]), np.complex128)
        paths[:-1] = taps * self._amplitude[:, None]
        paths[-1, 0] = 1.0
        snr_db = np.append(np.full(len(taps), self.settings.snr_db), self.settings.own_trigger_snr_db)
        records = trigger_records(arrived - first, cfo, paths)
        records += complex_gaussian(records.shape, 1.0, self._noise) * np.sqrt(10 ** (-snr_db / 10))[:, None]
        known = np.append(-self._cfo, 0.0)
        unknown = bool(np.isnan(known).any())
        near = np.where(np.isnan(known), cfo, known)
        start = strongest(records, near)
        fit = estimate_arrival(
            records.astype(np.complex64), trigger(), start, near, search=unknown, iterations=6 if unknown else 3
        )
        count = first + fit.time_samples - MARGIN_SAMPLES
        seen = fit.cfo_rad_per_sample[:-1]
        self._cfo = np.where(np.isnan(self._cfo), -seen, (1 - _CFO_SHARE) * self._cfo - _CFO_SHARE * seen)
        return _Triggers(count[:-1], seen, 10 * np.log10(fit.snr[:-1]), float(count[-1]))

    def _hear_frame(self, air: _OnAir, noise_power: float) -> Floats:
        """Measure the sync symbols of a frame with the estimator of the shared slot: five values for each client."""
        layout = self.settings.layout
        num = layout.num
        early = num.cp_samples // 3
        frame = layout.frame(self.settings.votes)
        starts = frame.sync_starts_samples()
        grid = np.zeros((frame.groups, num.active_subcarriers), np.complex128)
        for client in air.clients:
            delays, taps, gain = air.delays[client], air.taps[client], air.gains[client]
            later = np.arange(len(taps))
            whole = (delays.min() + later >= -early) & (delays.max() + later <= num.cp_samples - early)
            # A path outside the prefix shows no whole symbol, but interference of the same power.
            noise_power += gain**2 * float(np.sum(np.abs(taps[~whole]) ** 2))
            taps = np.where(whole, taps, 0)
            if not taps.any():
                continue
            phase = np.exp(1j * air.turn[client] * starts)
            grid += gain * phase[:, None] * self._shared.of(client, delays, taps)
        symbols = ofdm.modulate(grid[:, None, :].astype(np.complex64), num)
        symbols = symbols + complex_gaussian(symbols.shape, noise_power, self._noise)
        heard = estimate_burst(symbols, starts, layout.clients, num, early)
        sigma = np.sqrt(heard.sigma_samples**2 + self._own_variance)
        return np.stack((heard.delay_samples, sigma, _db(heard.power), heard.cfo_rad, _db(heard.snr)))

    def _hear_sequences(self, air: _OnAir, noise_power: float) -> Floats:
        """Search the slots of an acquire round for the sequences: five values for each client."""
        layout = self.settings.layout
        margin = acquisition.MARGIN_SAMPLES
        samples = margin + acquisition.samples_needed(layout)
        record = complex_gaussian(samples, noise_power, self._noise).astype(np.complex128)
        for client in air.clients.tolist():
            at = margin + layout.sequence_start_samples(client) + air.delays[client, 0]
            whole = math.floor(at)
            wave = air.gains[client] * sequence_answer(client, layout, at - whole, float(air.turn[client]))
            for delay, tap in enumerate(air.taps[client]):
                begin, stop = (min(max(place, 0), samples) for place in (whole + delay, whole + delay + len(wave)))
                record[begin:stop] += tap * wave[begin - whole - delay : stop - whole - delay]
        found = acquisition.acquire(record.astype(np.complex64), layout, float(margin))
        sigma = np.sqrt(found.sigma_samples**2 + self._own_variance)
        unknown = np.full(layout.clients, np.nan)
        return np.stack((found.offset_samples, sigma, found.power_db, unknown, found.snr_db))


@dataclass(frozen=True)
class _Triggers:
    """A received trigger: times in the clients' own counts, frequencies in rad/sample."""

    count: Floats
    cfo: Floats
    snr_db: Floats
    own_sample: float  # the server's own measurement, in its samples


@dataclass(frozen=True)
class _OnAir:
    """The answers of a round. ``delays`` (N, symbols) are relative to the nominal time of each symbol."""

    clients: npt.NDArray[np.int64]  # numbers of the clients that answer
    delays: Floats
    gains: Floats
    taps: Complex
    turn: Floats  # remaining carrier offset after the clients' corrections, rad/sample


def _profile(spreads: Floats, count: int) -> Floats:
    """Return the mean powers (N, count) of exponentially decaying paths; their sum is 1."""
    with np.errstate(divide="ignore"):
        rate = np.where(spreads > 0, 1 / spreads, np.inf)
    decay = np.exp(-np.arange(count) * np.minimum(rate, 700.0)[:, None])
    powers: Floats = decay / decay.sum(axis=1, keepdims=True)
    return powers


def _mean_excess(spreads: Floats) -> Floats:
    """Return the mean delay of the paths after the first one."""
    count = 1 + math.ceil(_MOST_SPREADS * float(spreads.max()))
    return _profile(spreads, count) @ np.arange(count)


def _db(ratio: Floats) -> Floats:
    return 10 * np.log10(np.maximum(ratio, 1e-30))
