# SPDX-License-Identifier: GPL-3.0-or-later
"""Every attribute of a virtual Pluto through the real libiio: what is no value is refused and changes nothing."""

import errno

import pytest

from oac_blocks.radio import ad9361

iio = pytest.importorskip("iio")

BAD = ["bogus", "", "nan", "1e999", "-99999999999999999999", "0x1G", "one two three four five six", "%s%n", "1,2,3"]


class Everything:
    """All attributes of a context: of a device, its debugging, its buffer and its channels."""

    def __init__(self, uri):
        self.context = iio.Context(uri)
        self.found = {}
        for device in self.context.devices:
            for kind in ("attrs", "debug_attrs", "buffer_attrs"):
                for name, attribute in getattr(device, kind, {}).items():
                    self.found[device.name, kind, name] = attribute
            for channel in device.channels:
                for name, attribute in channel.attrs.items():
                    self.found[device.name, f"{'out' if channel.output else 'in'} {channel.id}", name] = attribute

    def writable(self, pluto):
        """Those that take anything at all, as the server knows them."""
        for (name, kind, attribute), found in self.found.items():
            device = pluto.context.device(name)
            if kind in ("attrs", "debug_attrs", "buffer_attrs"):
                table = {"attrs": device.attributes, "debug_attrs": device.debug, "buffer_attrs": device.buffer}[kind]
            else:
                direction, id_ = kind.split()
                table = device.channel(id_, direction == "out").attributes
            if table[attribute].write is not None:
                yield (name, kind, attribute), found


def value(attribute):
    try:
        return attribute.value
    except OSError as error:
        return error.errno


def written(attribute, text):
    """0, or the number of the error."""
    try:
        attribute.value = text
    except OSError as error:
        return error.errno
    return 0


@pytest.fixture
def all_of_it(plutos):
    served = plutos(1)
    everything = Everything(served.uris[0])
    return everything, served.air.context(0)


def test_no_attribute_takes_what_is_no_value(all_of_it):
    everything, pluto = all_of_it
    writable = dict(everything.writable(pluto))
    assert len(writable) > 60
    before = {key: value(attribute) for key, attribute in everything.found.items()}
    for key, attribute in writable.items():
        for text in BAD:
            assert written(attribute, text) == errno.EINVAL, (key, text)
    after = {key: value(attribute) for key, attribute in everything.found.items()}
    changing = {"rssi", "input", "raw"}  # a temperature goes on rising
    assert {k: v for k, v in after.items() if k[2] not in changing} == {
        k: v for k, v in before.items() if k[2] not in changing
    }


def test_what_is_read_only_says_so(all_of_it):
    everything, pluto = all_of_it
    for key in set(everything.found) - set(dict(everything.writable(pluto))):
        assert written(everything.found[key], "1") == errno.EACCES, key


def test_every_attribute_takes_its_own_text_again(all_of_it):
    """But those that ask for something else than they show, or that a Pluto does not have."""
    everything, pluto = all_of_it
    other = {
        "dcxo_tune_coarse", "dcxo_tune_fine", "external", "fastlock_load", "fastlock_recall", "fastlock_save",
        "filter_fir_config", "gain_table_config", "initialize", "multichip_sync", "hardwaregain", "direct_reg_access",
    }  # fmt: skip
    for key, attribute in everything.writable(pluto):
        if key[2] not in other:
            text = attribute.value
            attribute.value = text
            if key[2] == "frequency":  # the synthesisers' step
                assert int(attribute.value) == pytest.approx(int(text), abs=8), key
            else:
                assert attribute.value == text, key


def test_an_oscillators_profiles_are_stored_recalled_saved_and_loaded(all_of_it):
    everything, _ = all_of_it
    attributes = everything.context.find_device("ad9361-phy").find_channel("altvoltage0", True).attrs
    with pytest.raises(OSError, match="Invalid argument"):
        attributes["fastlock_recall"].value = "3"  # nothing is stored there
    attributes["frequency"].value = "915000000"
    attributes["fastlock_store"].value = "3"
    attributes["fastlock_save"].value = "3"
    saved = attributes["fastlock_save"].value
    assert saved.startswith("3 ")
    assert len(saved.split(",")) == 16
    attributes["frequency"].value = "2400000000"
    attributes["fastlock_load"].value = "5" + saved[1:]
    for profile in "3", "5":
        attributes["frequency"].value = "2400000000"
        attributes["fastlock_recall"].value = profile
        assert int(attributes["frequency"].value) == pytest.approx(915_000_000, abs=3)
        assert attributes["fastlock_recall"].value == profile


def test_the_chips_registers_tell_what_it_is_and_what_is_set(all_of_it):
    everything, _ = all_of_it
    chip = everything.context.find_device("ad9361-phy")
    assert chip.reg_read(0x037) & 0xF8 == 0x08  # AD936x
    assert chip.reg_read(0x037) == 0x0A
    assert chip.reg_read(0x017) & 0xF == 0xA  # FDD
    chip.attrs["ensm_mode"].value = "alert"
    assert chip.reg_read(0x017) & 0xF == 0x5
    chip.find_channel("voltage0", True).attrs["hardwaregain"].value = "-70.25"
    assert chip.reg_read(0x073) | chip.reg_read(0x074) << 8 == 281  # quarters of a dB
    for channel, register in (("altvoltage0", 0x247), ("altvoltage1", 0x287)):
        assert chip.reg_read(register) & 2
        chip.find_channel(channel, True).attrs["powerdown"].value = "1"
        assert not chip.reg_read(register) & 2
    chip.reg_write(0x3FC, 0x5A)
    assert chip.reg_read(0x3FC) == 0x5A


@pytest.mark.parametrize("name", ad9361.CHIPS)
def test_a_chip_says_what_it_is_and_refuses_what_it_cannot_do(plutos, name):
    chip = ad9361.CHIPS[name]
    context = iio.Context(plutos(1, chip=name).uris[0])
    assert context.attrs["ad9361-phy,model"] == name
    assert f"Z7010-{name.upper()}" in context.attrs["hw_model"]
    phy = context.find_device("ad9361-phy")
    for channel, allowed in (("altvoltage0", chip.rx_lo_hz), ("altvoltage1", chip.tx_lo_hz)):
        attributes = phy.find_channel(channel, True).attrs
        low, high = int(allowed.low), int(allowed.high)
        assert attributes["frequency_available"].value == f"[{low} 1 {high}]"
        for hertz in (low, high):
            attributes["frequency"].value = str(hertz)
            assert int(attributes["frequency"].value) == pytest.approx(hertz, abs=8)
        for hertz in (low - 1, high + 1):
            with pytest.raises(OSError, match="Invalid argument"):
                attributes["frequency"].value = str(hertz)
    bandwidth = phy.find_channel("voltage0", False).attrs["rf_bandwidth"]
    bandwidth.value = "56000000"  # the driver takes what it can do
    assert int(bandwidth.value) == chip.widest_bandwidth_hz
