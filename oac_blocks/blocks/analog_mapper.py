# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert gradient entries to subcarrier amplitudes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pmt

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import BurstSource, grid_numerology
from oac_blocks.blocks.support.message_order import take_waiting
from oac_blocks.dsp.checks import real
from oac_blocks.dsp.waveform import analog

_CHANNEL = pmt.intern("channel")


class analog_mapper(BurstSource):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Analog mapper: converts a PDU of float32 entries to a burst of OFDM symbols, two entries per subcarrier.

    Message port ``entries`` takes PDUs of float32. Entries 2q and 2q + 1, times ``scale``, are the real and the
    imaginary part of subcarrier q. All clients must use the same scale. Message port ``channel`` takes a PDU of
    complex64, the client's channel on each active subcarrier. From the next burst on the mapper removes its phase
    (``inversion`` "phase"), or inverts the channel where its magnitude is at least ``least_magnitude`` and sends
    nothing elsewhere ("truncated"). The output is vectors of the active subcarriers; the first item of a burst carries
    the length tag (in symbols) and the PDU's metadata.
    """

    def __init__(
        self,
        active_subcarriers: int = 192,
        scale: float = 1.0,
        inversion: analog.Inversion = "phase",
        least_magnitude: float = 0.1,
        length_tag: str = "packet_len",
    ) -> None:
        self._num = grid_numerology(active_subcarriers)
        self._precoding: npt.NDArray[np.complex64] | None = None
        # This trial makes bad arguments fail here and not at the first estimate.
        analog.precoder(np.ones(1, np.complex64), inversion, least_magnitude)
        self._inversion, self._least_magnitude = inversion, least_magnitude
        self.set_scale(scale)
        BurstSource.__init__(self, "OAC Analog Mapper", "entries", np.float32, self._num.active_subcarriers, length_tag)
        self.message_port_register_in(_CHANNEL)
        self.set_msg_handler(_CHANNEL, self._on_channel)

    @property
    def scale(self) -> float:
        """Return the amplitude of an entry of 1."""
        return self._scale

    def set_scale(self, scale: float) -> None:
        """Set the amplitude of an entry of 1, from the next burst on."""
        self._scale = real("scale", scale, 0.0, open_low=True)

    def _on_message(self, message: Any) -> None:
        take_waiting(self, "channel", self._on_channel)  # entries may be sent because the channel is known
        BurstSource._on_message(self, message)

    def _on_channel(self, message: Any) -> None:
        estimate = pdus.read(message, np.complex64)
        if isinstance(estimate, str):
            self._drops.add(f"channel: {estimate}")
        elif len(estimate.data) != self._num.active_subcarriers:
            wanted = self._num.active_subcarriers
            self._drops.add(f"channel must have {wanted} subcarriers, got {len(estimate.data)}")
        else:
            try:
                self._precoding = analog.precoder(estimate.data, self._inversion, self._least_magnitude)
            except ValueError as error:
                self._drops.add(str(error))

    def encode(self, data: npt.NDArray[Any]) -> npt.NDArray[np.complex64]:
        return analog.encode(data, self._num, self._scale, self._precoding)
