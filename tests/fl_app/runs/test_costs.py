# SPDX-License-Identifier: GPL-3.0-or-later
"""Every round reports the energy that a client transmits, and the bandwidth that the round occupies."""

import numpy as np
import pytest

from fl_app.air import AirSettings, Uplink
from fl_app.air.costs import joules_per_client, occupied_hertz
from fl_app.runs.report import result_lines

N = 3  # clients of the tiny run


def uplink(**figures):
    return Uplink(np.zeros(4, np.float32), np.arange(2), **figures)


def test_where_all_send_at_once_every_client_pays_for_the_whole_burst():
    one = uplink(symbols=100, air_seconds=1.6e-3)
    assert joules_per_client(one, AirSettings(tx_power_w=0.25)) == pytest.approx(0.25 * 1.6e-3)
    assert joules_per_client(one, AirSettings()) == pytest.approx(1.6e-4)  # 20 dBm


def test_where_one_sends_at_a_time_a_client_pays_for_its_own_part():
    assert joules_per_client(uplink(symbols=100, air_seconds=1.6e-3, client_seconds=4e-4), AirSettings()) == 4e-5


def test_bandwidth_goes_from_the_lowest_to_the_highest_subcarrier():
    # 192 subcarriers and 8 empty ones around DC, 78,125 Hz apart.
    assert occupied_hertz(uplink(symbols=10, air_seconds=10 * 320 / 20e6), AirSettings()) == pytest.approx(200 * 78_125)
    # The radios' own rate counts, not that of the config.
    assert occupied_hertz(uplink(symbols=10, air_seconds=10 * 320 / 2.5e6), AirSettings()) == pytest.approx(
        200 * 2.5e6 / 256
    )
    assert occupied_hertz(uplink(symbols=0, air_seconds=0.0), AirSettings()) is None


@pytest.mark.parametrize(("air", "share"), [("fading", 1.0), ("waveform", 1.0), ("digital", 1 / N)])
def test_a_run_reports_energy_and_bandwidth(run, tiny, air, share):
    folder = run(tiny(air={"name": air, "tx_power_w": 0.5}, run={"rounds": 2}))
    rows, result = folder.rows(), folder.read_result()
    for row in rows:
        assert row.air_joules == pytest.approx(0.5 * share * row.air_seconds)
        assert row.air_hertz == pytest.approx(15.625e6)
    assert result["air_joules"] == pytest.approx(0.5 * share * result["air_seconds"])
    lines = dict(result_lines(result))
    assert lines["on the air"].endswith(" on 15.6 MHz")
    assert lines["transmitted by a client"] == f"{1000 * result['air_joules']:.3g} mJ"
