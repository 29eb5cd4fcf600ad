# SPDX-License-Identifier: GPL-3.0-or-later
"""A payload in several bursts: who is heard in all of them, and which entries hold exactly their votes."""

import numpy as np

from fl_app.air import AirSettings
from fl_app.air.live.flow_bursts import CarriedBurst, uplink_in_bursts
from fl_app.air.live.loopback_settings import burst_votes


def test_client_that_is_lost_between_two_bursts_is_not_heard():
    settings, clients = AirSettings(name="gnuradio"), np.array([2, 0, 5])
    k = 2 * burst_votes(settings)
    heard = iter([(0, 2, 5), (0, 5, 7)])

    def send(first, stop):
        return CarriedBurst(np.full(stop - first, float(first), np.float32), float("nan"), next(heard))

    uplink = uplink_in_bursts(k, clients, settings, send)
    assert uplink.heard.tolist() == [0, 5]
    assert uplink.entries_of_heard().tolist() == [False] * (k // 2) + [True] * (k // 2)
    assert uplink.snr_db is None
