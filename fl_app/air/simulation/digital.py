# SPDX-License-Identifier: GPL-3.0-or-later
"""Send the entries digitally, one client after the other: the yardstick for the airs that add up on the channel.

Each client sends its k entries at the Shannon rate of its channel (less a back-off), on the active subcarriers of the
same OFDM symbols. The server receives them without error and combines them as the scheme does on a perfect channel.
What this costs is time on the air, and it grows with the number of clients.

The rate is the ergodic one, E[log2(1 + snr |h|^2)]: a code word sees all fades. At the rate of one fade h for a whole
transmission, the time k b / log2(1 + snr |h|^2) would have an infinite mean in Rayleigh fading, and a client in a deep
fade would never end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Unseen, Uplink
from fl_app.air.settings import AirSettings
from fl_app.air.simulation.quantiser import exact_bits, quantise
from fl_app.air.simulation.simulated import SimulatedAir
from fl_app.air.votes import decide_ties
from fl_app.core.streams import stream
from oac_blocks.dsp.channel.capacity import ergodic_rate
from oac_blocks.dsp.waveform.frame import FrameLayout

ENTRY_BITS = 8  # bits of an entry that is not a whole number, if the settings do not say


class DigitalAir(SimulatedAir):
    """Deliver the payloads without error, and charge the time that digital transmission takes at best."""

    def __init__(self, settings: AirSettings, n_clients: int, seed: int) -> None:
        super().__init__(settings, n_clients, seed)
        assert settings.snr_db is not None  # the settings refuse this air without noise
        snr = 10 ** ((settings.snr_db - settings.backoff_db) / 10)
        self.num = settings.numerology()
        self.bits_per_symbol = self.num.active_subcarriers * ergodic_rate(snr, settings.fading, settings.rician_k_db)

    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        values, clients = self.check(payload, clients, t)
        rows, layouts = [], []
        for row, client in zip(values, clients.tolist(), strict=True):
            if row.dtype.kind == "f":
                bits = self.settings.bits_per_entry or ENTRY_BITS
                rows.append(quantise(row, bits, stream(self.seed, "air rounding", t, client)))
            else:
                bits = exact_bits(row)
                rows.append(row)
            layouts.append(self._layout(bits * len(row)))
        decoded = np.stack(rows)
        received = self.scheme.combine(decoded)
        if self.scheme.decides:
            received = decide_ties(received, decoded, stream(self.seed, "air ties", t))
        symbols = sum(layout.symbols for layout in layouts)
        seconds = symbols * self.num.symbol_seconds
        return Uplink(received, clients, symbols, seconds, client_seconds=seconds / len(clients))

    def _layout(self, bits: int) -> FrameLayout:
        """Return the frame that carries these bits of one client; it has the sync symbols of every other burst."""
        return FrameLayout(max(1, int(np.ceil(bits / self.bits_per_symbol))), self.num, self.settings.groups)
