# SPDX-License-Identifier: GPL-3.0-or-later
"""Check virtual Plutos after programs have used them."""

from dataclasses import replace

from oac_blocks.radio.virtual.iiod.settings import RadioSettings
from tests.support.polling import until


def assert_as_found(served):
    """Assert that every radio is as after power-on, except that its tones are off, so that it sends nothing.

    A synthesiser returns to a frequency within its step (3 Hz). The device chooses an automatic gain by itself.
    """
    fresh = RadioSettings(tones_on=False)
    for node in served.air.nodes:
        now = node.pluto.settings
        assert replace(now, rx_gain_db=fresh.rx_gain_db, tx_lo_hz=round(now.tx_lo_hz, -1)) == fresh
        # A program that has ended is noticed when its connection is, a moment later.
        until(lambda node=node: not node.tx.streaming, "the end of the radio's stream")
