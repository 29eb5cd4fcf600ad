# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests ask of virtual Plutos after programs have used them."""

from dataclasses import replace

from oac_blocks.radio.virtual.iiod.settings import RadioSettings


def assert_as_found(served):
    """Every radio is as after power-on, except that its tones are off; so nothing is sent.

    A synthesiser comes back to a frequency within its step (3 Hz). An automatic gain is the device's own affair.
    """
    fresh = RadioSettings(tones_on=False)
    for node in served.air.nodes:
        now = node.pluto.settings
        assert replace(now, rx_gain_db=fresh.rx_gain_db, tx_lo_hz=round(now.tx_lo_hz, -1)) == fresh
        assert not node.tx.streaming
