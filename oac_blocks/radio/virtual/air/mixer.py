# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute what a receiver hears: the sum of all transmissions, interferers and noise, times its gain."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel.resampling import BLOCK, GUARD, HOP
from oac_blocks.dsp.channel.sample_history import SampleHistory
from oac_blocks.radio import ad9361
from oac_blocks.radio.limits import Range
from oac_blocks.radio.virtual.air import link
from oac_blocks.radio.virtual.air.air_settings import VirtualAirSettings
from oac_blocks.radio.virtual.air.echoes import AHEAD, Echoes
from oac_blocks.radio.virtual.air.feeder import TAPS, Conversion, Feeder, filtered
from oac_blocks.radio.virtual.air.gain_control import GainControl
from oac_blocks.radio.virtual.air.node import Node
from oac_blocks.radio.virtual.air.receiver import Words, words_from_samples
from oac_blocks.radio.virtual.air.timeline import Timeline
from oac_blocks.radio.virtual.air.transmitter import PIECE
from oac_blocks.radio.virtual.faults import RadioFault
from oac_blocks.radio.virtual.iiod.settings import RadioSettings

Samples = npt.NDArray[np.complex64]
_LISTEN_SAMPLES = 8192  # length of the piece of a transmission whose power is measured while no stream is open
KEPT_SAMPLES = 4 * BLOCK + HOP  # samples of a transmission that are kept behind the place of the slowest receiver
_MOST_WRITTEN = 1 << 18  # samples of a transmission above which only the needed ones are kept


@dataclass(frozen=True)
class Way:
    """The way from one sender to a receiver: the receiver's block borders as places in the sender's stream."""

    sender: Node
    conversion: Conversion
    track: link.Track
    lookahead: int  # samples of the sender that are needed behind the last one of a block

    def needed(self, blocks: int) -> int:
        return math.ceil(float(self.track.places[blocks])) + self.lookahead

    def covered(self) -> int:
        """Return the number of blocks for which the sender has handed over all samples that they need."""
        return int(np.count_nonzero(np.ceil(self.track.places[1:]) + self.lookahead <= self.sender.tx.end))


@dataclass
class Mixer:
    settings: VirtualAirSettings
    nodes: list[Node]
    fades: list[RadioFault] = field(default_factory=list)
    interferers: list[RadioFault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._feeders: dict[tuple[int, int], tuple[Feeder, SampleHistory]] = {}
        self.echoes = Echoes(self.settings)
        self._noise_density = self.settings.noise_density()

    def ways(self, node: Node, blocks: int) -> list[Way]:
        """Return the ways from all radios that this one may hear, for its next blocks."""
        looped = node.pluto.settings.loopback == 1
        senders = [node] if looped else [sender for sender in self.nodes if self._may_hear(node, sender)]
        found = []
        at = link.borders(node.next, blocks, node.rx_end)
        for sender in senders:
            conversion = _conversion(sender, node)
            if conversion.silent:
                continue
            delay = 0.0 if looped else self.settings.delay(sender.index, node.index)
            carrier = 0.0 if looped else float(node.pluto.settings.rx_lo_hz)
            track = link.track(at, sender.tx_end, node.rx_end, delay, carrier)
            found.append(Way(sender, conversion, track, _lookahead(conversion)))
        self._drop_feeders(node, found)
        return found

    def bring(self, node: Node, way: Way, end: int) -> None:
        """Write the sender's stream up to this place, piece by piece if the receiver takes it at another rate.

        A block of a slow receiver may cover millions of samples of a fast transmitter, which never exist at once.
        """
        tx = way.sender.tx
        if way.conversion.trivial or tx.streaming:
            tx.fill(end)
        if way.conversion.trivial:
            tx.write(end)
            return
        while True:
            self._feeder(node, way).advance(min(tx.written, end) - tx.first)
            if tx.written >= end:
                return
            if tx.written - tx.oldest > _MOST_WRITTEN:
                self.forget(way.sender, math.inf)
            some = min(end, tx.written + PIECE)
            tx.fill(some)
            tx.write(some)

    def receive(self, node: Node, ways: list[Way], blocks: int) -> Words:
        """Return the receiver's next blocks. The senders' streams must be written as far as they are needed."""
        antenna = np.zeros(blocks * HOP, np.complex64)
        for way in ways:
            self._add(antenna, node, way, blocks)
        settings, rate_hz = node.pluto.settings, node.rx_timeline.rate_hz
        if settings.loopback != 1:
            self._interfere(antenna, node)
            node.noise.add(antenna, self._noise_density, settings.rx_bandwidth_hz, rate_hz)
            manual = settings.gain_mode == "manual"
            rows = antenna.reshape(1 if manual else blocks, -1)
            for row in rows:
                power = _power(row[-HOP:])
                row *= np.float32(node.gain.step(power, HOP / rate_hz, *_gain_settings(settings)))
        return words_from_samples(antenna)

    def listen(self, node: Node, true_seconds: float) -> float:
        """Return the power at this radio's antenna at one moment, without any effect on the streams.

        Different radios' signals count as independent.
        """
        settings = node.pluto.settings
        power = self._noise_density * min(settings.rx_bandwidth_hz, settings.rx_stream_hz)
        power += sum(
            10 ** (fault.value / 10)
            for fault in self.interferers
            if fault.radio == node.index and 0 <= true_seconds - (fault.at_seconds or 0.0) < fault.seconds
        )
        for sender in self.nodes:
            conversion = _over_the_air(sender.pluto.settings, settings)
            if not self._may_hear(node, sender) or conversion.silent:
                continue
            sent = sender.tx.around(sender.tx_place(true_seconds), _LISTEN_SAMPLES)
            if sent.any():
                taps = self._weather(sender, node, np.array([true_seconds, true_seconds])).begin[0]
                heard = filtered(sent, conversion.taps()) if conversion.filters else sent
                power += _power(heard) * float(np.sum(np.abs(taps) ** 2))
        return power

    def wait(self, node: Node, gain: GainControl, true_seconds: float, seconds: float) -> None:
        """Let a receiver's gain control follow what is in the air, for so long without a stream."""
        if node.pluto.settings.loopback != 1:
            gain.wait(self.listen(node, true_seconds), seconds, *_gain_settings(node.pluto.settings))

    def begin_anew(self, receiver: int) -> None:
        """Forget what a receiver has heard: it was closed, and nothing of the time in between is kept."""
        self._feeders = {key: value for key, value in self._feeders.items() if key[1] != receiver}

    def forget(self, sender: Node, now: float) -> None:
        """Drop the part of a radio's transmission that no receiver, now or from now on, can ask for."""
        tx, listening = sender.tx, [node for node in self.nodes if node.queues]
        times = [node.next_seconds for node in listening]
        kept = sender.tx_place(min([now, *times])) - KEPT_SAMPLES
        if tx.written - kept > _MOST_WRITTEN:
            # Receivers that take it at another rate need nothing but what their feeders have not read.
            raw = [at for node, at in zip(listening, times, strict=True) if _conversion(sender, node).trivial]
            kept = sender.tx_place(min(raw)) - KEPT_SAMPLES if raw else tx.written
        for (index, _), (feeder, history) in self._feeders.items():
            if index == sender.index and history is tx.history:
                kept = min(kept, feeder.needs_from + tx.first)
        tx.forget(kept)

    def forget_faults(self, before: float) -> None:
        """Drop fades and interferers that were over at this time."""
        for faults in (self.fades, self.interferers):
            faults[:] = [one for one in faults if (one.at_seconds or 0.0) + one.seconds > before]

    def _drop_feeders(self, node: Node, ways: list[Way]) -> None:
        """Drop the feeders that are no longer read: they would keep their sender's whole transmission from then on."""
        read = {way.sender.index for way in ways if not way.conversion.trivial}
        stale = [key for key in self._feeders if key[1] == node.index and key[0] not in read]
        for key in stale:
            del self._feeders[key]

    def _may_hear(self, node: Node, sender: Node) -> bool:
        if sender is node and self.settings.leakage_db is None:
            return False
        return sender.plugged and node.pluto.settings.receives and sender.pluto.settings.transmits

    def _add(self, antenna: Samples, node: Node, way: Way, blocks: int) -> None:
        tx, seconds = way.sender.tx, way.track.true_seconds
        history, oldest, places = tx.history, tx.oldest - tx.first, way.track.places - tx.first
        if not way.conversion.trivial:
            feeder = self._feeder(node, way)
            history, oldest = feeder.history, feeder.oldest
            places = feeder.timeline.samples(tx.timeline.own(way.track.places))
            feeder.forget(math.floor(places[0]) - BLOCK)
        track = link.Track(places[: blocks + 1], way.track.turns[: blocks + 1], seconds[: blocks + 1])
        link.add_to(antenna, track, history, self._weather(way.sender, node, track.true_seconds), oldest)

    def _feeder(self, node: Node, way: Way) -> Feeder:
        key, tx = (way.sender.index, node.index), way.sender.tx
        there = self._feeders.get(key)
        if there is not None and there[0].conversion == way.conversion and there[1] is tx.history:
            return there[0]
        ratio = way.conversion.tx_rate_hz / way.conversion.rx_rate_hz
        behind = 2 * BLOCK if ratio >= 1 else math.ceil(2 * BLOCK * ratio) + 2 * TAPS  # two blocks of either side
        # What its filter looks back at must be kept, or be the silence before sample 0.
        start = max(0, tx.oldest - tx.first + TAPS // 2, math.floor(way.track.places[0]) - tx.first - behind)
        timeline = Timeline(tx.timeline.rate_hz, tx.timeline.first - tx.first, tx.timeline.own_seconds)
        feeder = Feeder(way.conversion, tx.history, timeline, start)
        self._feeders[key] = (feeder, tx.history)
        return feeder

    def _weather(self, sender: Node, node: Node, seconds: npt.NDArray[np.float64]) -> link.Taps:
        """Return echoes and gain of the blocks between these borders."""
        settings, blocks = self.settings, len(seconds) - 1
        if node.pluto.settings.loopback == 1:
            return link.Taps.constant(np.ones(1, np.complex64), blocks)
        gain_db = sender.pluto.settings.tx_gain_db - settings.path_loss_db
        if sender is node:
            gain_db += settings.leakage_db or 0.0
        # A fade on purpose begins and ends with a block.
        fades = [
            sum(fault.value for fault in self.fades if fault.holds(at, sender.index, node.index))
            for at in seconds[:-1].tolist()
        ]
        amplitudes = (10 ** ((gain_db - np.array(fades)) / 20)).astype(np.float32)[:, None]
        if settings.channel == "none" or sender is node:
            return link.Taps(amplitudes.astype(np.complex64), amplitudes.astype(np.complex64))
        taps, ahead = self.echoes.taps(sender.index, node.index, node.rx_timeline.rate_hz, seconds)
        return link.Taps(taps[:-1] * amplitudes, taps[1:] * amplitudes, ahead)

    def _interfere(self, antenna: Samples, node: Node) -> None:
        for fault in self.interferers:
            start = fault.at_seconds or 0.0
            if fault.radio != node.index:
                continue
            first, last = max(0, node.rx_place(start) - node.next), len(antenna)
            if math.isfinite(fault.seconds):
                last = min(last, node.rx_place(start + fault.seconds) - node.next)
            if first < last:
                places = node.next + np.arange(first, last)
                turns = (fault.hertz / node.rx_timeline.rate_hz * places) % 1.0
                antenna[first:last] += (10 ** (fault.value / 20) * np.exp(2j * np.pi * turns)).astype(np.complex64)


def _conversion(sender: Node, node: Node) -> Conversion:
    a, b = sender.pluto.settings, node.pluto.settings
    if b.loopback == 1:
        return Conversion(a.tx_stream_hz, b.rx_stream_hz, 0.0, math.inf, math.inf)
    return _over_the_air(a, b)


def _over_the_air(sender: RadioSettings, receiver: RadioSettings) -> Conversion:
    shift = float(sender.tx_lo_hz - receiver.rx_lo_hz)
    rates = sender.tx_stream_hz, receiver.rx_stream_hz
    return Conversion(*rates, shift, sender.tx_bandwidth_hz, receiver.rx_bandwidth_hz)


def _gain_settings(settings: RadioSettings) -> tuple[str, int, Range]:
    return settings.gain_mode, settings.rx_gain_db, ad9361.rx_gain_db(settings.rx_lo_hz)


def _power(samples: Samples) -> float:
    return float(np.mean(samples.real**2 + samples.imag**2))


def _lookahead(conversion: Conversion) -> int:
    if conversion.trivial:
        return GUARD + AHEAD + 2
    ratio = conversion.tx_rate_hz / conversion.rx_rate_hz
    return math.ceil(ratio * (GUARD + AHEAD + 4)) + Feeder.lookahead(conversion)
