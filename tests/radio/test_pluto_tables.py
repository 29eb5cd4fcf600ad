# SPDX-License-Identifier: GPL-3.0-or-later
"""Set and read back every property of ``adi.Pluto``, on a virtual one and, with ``--radio-uri``, on a real one.

pytest tests/radio/test_pluto_tables.py --radio-uri ip:192.168.2.1
"""

import inspect
from dataclasses import dataclass

import numpy as np
import pytest

adi = pytest.importorskip("adi")


@dataclass(frozen=True)
class Row:
    """``low`` to ``high`` in so many steps; what is read back may be off by ``tolerance``."""

    name: str
    low: float
    high: float
    step: float
    tolerance: float
    points: int = 9
    whole: bool = True

    def values(self):
        places = np.linspace(0, round((self.high - self.low) / self.step), self.points)
        values = self.low + self.step * np.rint(places)
        return [int(v) for v in values] if self.whole else [float(v) for v in values]


NUMBERS = [
    Row("rx_lo", 70_000_000, 6_000_000_000, 1, tolerance=8),
    Row("tx_lo", 47_000_000, 6_000_000_000, 1, tolerance=8),
    Row("sample_rate", 521_000, 61_440_000, 1000, tolerance=8, points=13),
    Row("sample_rate", 600_000, 5_000_000, 100_000, tolerance=8, points=12),
    Row("rx_rf_bandwidth", 200_000, 56_000_000, 1, tolerance=0),
    Row("tx_rf_bandwidth", 200_000, 40_000_000, 1, tolerance=0),
    Row("tx_hardwaregain_chan0", -89.75, 0, 0.25, tolerance=0, points=40, whole=False),
    Row("loopback", 0, 2, 1, tolerance=0, points=3),
]
CHOICES = [
    ("gain_control_mode_chan0", ["slow_attack", "fast_attack", "manual"]),
    ("rx_dec8_filter_en", [True, False]),
    ("tx_int8_filter_en", [True, False]),
]
# Kept by the client itself, or read only, or with a test of their own below.
ELSEWHERE = {
    "rx_hardwaregain_chan0", "filter", "dds_frequencies", "dds_scales", "dds_phases", "dds_enabled",
    "ctx", "rx_annotated", "rx_buffer_size", "rx_channel_names", "rx_enabled_channels", "rx_output_type",
    "tx_channel_names", "tx_cyclic_buffer", "tx_enabled_channels",
}  # fmt: skip
OUT_OF_RANGE = [
    ("rx_lo", [69_000_000, 6_000_000_100]),
    ("tx_lo", [46_000_000, 6_000_000_100]),
    ("sample_rate", [61_500_000]),
    ("tx_hardwaregain_chan0", [0.25, -90.0]),
    ("loopback", [3, -1]),
    ("gain_control_mode_chan0", ["maximal"]),
]


def pytest_generate_tests(metafunc):
    if "uri" in metafunc.fixturenames:
        real = metafunc.config.getoption("--radio-uri", None)
        metafunc.parametrize("uri", ["virtual", *([real] if real else [])])


@pytest.fixture
def radio(uri, plutos):
    radio = adi.Pluto(uri=plutos(1).uris[0] if uri == "virtual" else uri)
    yield radio
    if uri != "virtual":
        radio.loopback = 0
        radio.disable_dds()
    radio.rx_destroy_buffer()
    radio.tx_destroy_buffer()


def test_the_tables_know_every_property():
    properties = {name for name, _ in inspect.getmembers(adi.Pluto, lambda member: isinstance(member, property))}
    in_tables = {row.name for row in NUMBERS} | {name for name, _ in CHOICES} | ELSEWHERE
    assert {name for name in properties if not name.startswith("_")} == in_tables


@pytest.mark.parametrize("row", NUMBERS, ids=lambda row: f"{row.name}-{row.points}")
def test_a_number_reads_back_as_set(radio, row):
    for value in row.values():
        setattr(radio, row.name, value)
        assert getattr(radio, row.name) == pytest.approx(value, abs=row.tolerance), value


@pytest.mark.parametrize(("name", "values"), CHOICES, ids=lambda one: one if isinstance(one, str) else "")
def test_a_choice_reads_back_as_set(radio, name, values):
    for value in [*values, *reversed(values)]:
        setattr(radio, name, value)
        assert getattr(radio, name) == value


@pytest.mark.parametrize(("name", "values"), OUT_OF_RANGE, ids=lambda one: one if isinstance(one, str) else "")
def test_out_of_range_is_refused_and_changes_nothing(radio, name, values):
    before = getattr(radio, name)
    for value in values:
        with pytest.raises(OSError, match="Invalid argument"):
            setattr(radio, name, value)
        assert getattr(radio, name) == before


@pytest.mark.parametrize(
    ("lo", "low", "high"), [(1_000_000_000, -1, 73), (2_400_000_000, -3, 71), (5_000_000_000, -10, 62)]
)
def test_the_receivers_gains_depend_on_the_frequency(radio, lo, low, high):
    radio.rx_lo = lo
    radio.gain_control_mode_chan0 = "manual"
    for gain in range(low, high + 1, 3):
        radio.rx_hardwaregain_chan0 = gain
        assert radio.rx_hardwaregain_chan0 == gain
    for gain in (low - 1, high + 1):
        with pytest.raises(OSError, match="Invalid argument"):
            radio.rx_hardwaregain_chan0 = gain


def test_the_gain_is_the_devices_own_unless_the_mode_is_manual(radio):
    radio.gain_control_mode_chan0 = "slow_attack"
    channel = radio._ctrl.find_channel("voltage0", False)
    with pytest.raises(OSError, match="not supported"):
        channel.attrs["hardwaregain"].value = "10"


def test_a_filter_is_loaded_from_a_file(radio, tmp_path):
    taps = "".join(f"{i},{i}\n" for i in range(64))
    (tmp_path / "filter.ftr").write_text(f"RX 3 GAIN -6 DEC 2\nTX 3 GAIN 0 INT 2\n{taps}\n")
    radio.filter = str(tmp_path / "filter.ftr")
    assert radio.filter == [64, 2, 64, 2]


def test_the_generators_read_back_as_set(radio):
    radio.sample_rate = 3_000_000
    radio.dds_frequencies = [0, 100_000, 700_000, 1_400_000]
    radio.dds_scales = [0.0, 0.25, 0.5, 1.0]
    radio.dds_phases = [0, 90_000, 180_000, 270_000]
    step = 3_000_000 / 65_536
    assert [int(v) for v in radio.dds_frequencies] == pytest.approx([0, 100_000, 700_000, 1_400_000], abs=step)
    assert [float(v) for v in radio.dds_scales] == pytest.approx([0, 0.25, 0.5, 1], abs=1e-3)
    assert [int(v) for v in radio.dds_phases] == pytest.approx([0, 90_000, 180_000, 270_000], abs=10)
    radio.dds_enabled = [1, 1, 1, 1]
    assert [int(v) for v in radio.dds_enabled] == [1, 1, 1, 1]
    radio.disable_dds()
    assert [int(v) for v in radio.dds_enabled] == [0, 0, 0, 0]


def test_the_flags_clear_where_a_one_is_written(radio):
    for device in (radio._rxadc, radio._txdac):
        device.reg_write(0x80000088, 0x7)
        assert device.reg_read(0x80000088) & 0x5 == 0


def test_it_is_as_warm_as_electronics_are(radio):
    temperature = radio._ctrl.find_channel("temp0", False)
    assert 0 < int(temperature.attrs["input"].value) < 100_000  # thousandths of a degree
