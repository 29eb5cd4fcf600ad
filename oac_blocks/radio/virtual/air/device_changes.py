# SPDX-License-Identifier: GPL-3.0-or-later
"""What the air does when a radio is powered on or its settings change, and what its sensors read."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

from oac_blocks.radio.virtual.air.air_time import AirTime
from oac_blocks.radio.virtual.air.gain_control import GainControl
from oac_blocks.radio.virtual.air.mixer import Mixer
from oac_blocks.radio.virtual.air.node import Node


class DeviceChanges:
    """Carries settings of the radios over to their streams. All methods are called with the air's lock held.

    ``tell_all`` wakes all threads that wait for something on the air.
    """

    def __init__(self, mixer: Mixer, time: AirTime, tell_all: Callable[[], None]) -> None:
        self._mixer, self._time, self._tell_all = mixer, time, tell_all

    def power_on(self, node: Node) -> None:
        """Give a radio the settings and the sensors that it has after the power came."""
        node.power_on(lambda: self.settings_changed(node))
        node.tx.tones = node.pluto.settings.tones
        node.pluto.sensors.temperature_millidegrees = lambda: self._temperature(node)
        node.listen = lambda: self._listen(node)
        self.settings_changed(node)

    def follow_gain(self, node: Node) -> None:
        """Let gain control catch up with the time in which there was no stream."""
        if not self._time.lock_step:
            now = self._time.now
            self._mixer.wait(node, node.gain, now, now - node.gain_seconds)
            node.gain_seconds = now

    def settings_changed(self, node: Node) -> None:
        """Carry the radio's rates, tones and clock correction over to its streams, from now on."""
        settings = node.pluto.settings
        now = self._time.advance()
        if node.tx.timeline.rate_hz != settings.tx_stream_hz:
            at = max(node.tx_place(now), 0) if now else 0
            node.tx.change_rate(settings.tx_stream_hz, at)
        if node.rx_timeline.rate_hz != settings.rx_stream_hz:
            place = node.next if node.queues else node.rx_place(now)
            node.rx_timeline = node.rx_timeline.changed(settings.rx_stream_hz, place if now else 0)
            node.next = node.rx_timeline.first
            node.pending = node.pending[:0]
        node.tx.tones = settings.tones if settings.tones_on else ()
        # A correction of the crystal's frequency by software moves the clock and the carrier.
        xo_ppm = -1e6 * (settings.xo_hz / 40e6 - 1)
        if xo_ppm != node.xo_ppm:
            node.crystal.add_ppm(xo_ppm - node.xo_ppm, now)
            node.xo_ppm = xo_ppm
        self._tell_all()

    def _listen(self, node: Node) -> GainControl:
        """Return level and gain of a receiver now; in lock-step, where time waits for streams, as they would settle."""
        if node.queues:
            return node.gain
        self._time.advance()
        if not self._time.lock_step:
            self.follow_gain(node)
            return node.gain
        settled = copy.copy(node.gain)  # reading the level must not change what is heard
        self._mixer.wait(node, settled, self._time.now, math.inf)
        return settled

    def _temperature(self, node: Node) -> int:
        """Return the chip's temperature: it warms up within minutes, a transmitter more than a receiver."""
        end = 9000.0 if node.tx.buffer is not None else 4000.0
        return round(31_000 + 700 * node.index + end * (1 - math.exp(-self._time.now / 120)))
