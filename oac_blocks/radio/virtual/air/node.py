# SPDX-License-Identifier: GPL-3.0-or-later
"""One radio of the shared air: its libiio context, its crystal and its two streams."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import numpy as np

from oac_blocks.dsp.channel.crystal import Crystal
from oac_blocks.radio.ad9361 import CHIPS
from oac_blocks.radio.virtual.air import link
from oac_blocks.radio.virtual.air.air_settings import VirtualAirSettings
from oac_blocks.radio.virtual.air.gain_control import GainControl, rssi_db
from oac_blocks.radio.virtual.air.receiver import ReceiveQueue
from oac_blocks.radio.virtual.air.receiver_noise import ReceiverNoise
from oac_blocks.radio.virtual.air.timeline import Timeline
from oac_blocks.radio.virtual.air.transmitter import Transmitter
from oac_blocks.radio.virtual.iiod.pluto_context import PlutoContext
from oac_blocks.radio.virtual.iiod.registers import RX_OVERFLOW, TX_UNDERFLOW
from oac_blocks.radio.virtual.iiod.transceiver import Sensors


class Node:
    def __init__(self, index: int, settings: VirtualAirSettings, uri: str, lock: threading.RLock) -> None:
        self.rx_ready, self.tx_room = threading.Condition(lock), threading.Condition(lock)
        self.index = index
        self.uri = uri
        self._chip = CHIPS[settings.chip]
        self.crystal = Crystal(settings.crystals[index], settings.branch("crystal", index))
        self.noise = ReceiverNoise(settings.branch("noise", index))
        self.lo_ppm = settings.lo_error(index)
        self.plugged = True
        self.joined = False  # whether both of its buffers were open once
        self.closing = False  # whether one of them was closed, so that the other one will be
        self.listen: Callable[[], GainControl] = lambda: (
            self.gain
        )  # returns its level and gain now, with a stream or without
        self.gain_seconds = 0.0  # time at which its gain control followed the air last
        self.queues: list[ReceiveQueue] = []
        self.next = 0  # place of the next block in the receive stream
        self._next_seconds: tuple[int, Timeline, float] | None = None
        self.pending = np.zeros((0, 2), np.int16)  # received words that wait for room in a buffer
        self.power_on(lambda: None)
        self.rx_timeline = Timeline(self.pluto.settings.rx_stream_hz)
        self.tx = Transmitter(Timeline(self.pluto.settings.tx_stream_hz), self._underflow)
        self.tx.tones = self.pluto.settings.tones
        self.xo_ppm = 0.0

    def power_on(self, changed: Callable[[], None]) -> None:
        """Set everything as it is after the power came."""
        sensors = Sensors(lambda: 35_000 + 500 * self.index, self._rssi_db, self._gain_db)
        self.pluto = PlutoContext(self.uri, f"{self.index:034x}", sensors, changed, self._chip)
        self.kernel_buffers = {"rx": 4, "tx": 4}
        self.gain = GainControl()

    def _rssi_db(self) -> float:
        gain = self.listen()
        return rssi_db(gain.level_db, gain.gain_db)

    def _gain_db(self) -> int:
        return self.listen().gain_db

    def _underflow(self) -> None:
        self.pluto.tx_registers.status |= TX_UNDERFLOW

    def overflow(self) -> None:
        self.pluto.rx_registers.status |= RX_OVERFLOW

    @property
    def tx_end(self) -> link.End:
        return link.End(self.crystal, self.tx.timeline, self.lo_ppm)

    @property
    def rx_end(self) -> link.End:
        return link.End(self.crystal, self.rx_timeline, self.lo_ppm)

    def rx_place(self, true_seconds: float) -> int:
        """Return the number of the receiver's first sample at this time or later."""
        own = true_seconds + self.crystal.lead_at(true_seconds)
        return math.ceil(self.rx_timeline.sample_at(own) - 1e-6)

    def tx_place(self, true_seconds: float) -> int:
        own = true_seconds + self.crystal.lead_at(true_seconds)
        return math.ceil(self.tx.timeline.sample_at(own) - 1e-6)

    def rx_true(self, place: float) -> float:
        return self.crystal.true_at(self.rx_timeline.own_at(place))

    @property
    def next_seconds(self) -> float:
        """Return the true time at which the receiver's next block begins."""
        known = self._next_seconds
        if known is None or known[0] != self.next or known[1] is not self.rx_timeline:
            known = self._next_seconds = (self.next, self.rx_timeline, self.rx_true(self.next))
        return known[2]

    def tx_true(self, place: float) -> float:
        return self.crystal.true_at(self.tx.timeline.own_at(place))
