# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands on radios, against virtual Plutos in lock-step; the real libiio and pyadi-iio between them."""

import json
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from calibration.cli import app
from fl_app.config import load_settings
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.faults import parse_fault
from oac_blocks.radio.virtual.server import VirtualPlutos
from oac_blocks.record.files import read, recordings
from oac_blocks.record.replay import replay
from tests.support.radios import assert_as_found

iio = pytest.importorskip("iio")
pytest.importorskip("oac_blocks.radio.pluto")
NOBODY = "ip:127.0.0.1:1"


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@contextmanager
def radios(count, faults=(), **air):
    options = {"ppm": 20, "wobble_ppm": 1, "snr_db": 26, **air}
    schedule = [parse_fault(line, count) for line in faults]
    with VirtualPlutos(spread(count, 1, **options), lock_step=True, faults=schedule) as served:
        yield served


def bench(served, *more, command="align", frequency=2.4e9):
    clients = [word for uri in served.uris[1:] for word in ("--client", uri)]
    gains = ("--rx-gain", 50, "--tx-gain", -10, "--clock", "lock-step")
    tuned = () if frequency is None else ("--frequency", frequency)
    return call(command, "--server", served.uris[0], *clients, *gains, *tuned, *more)


@pytest.mark.parametrize("command", ["probe", "loopback-test", "measure", "align", "track"])
def test_help_has_an_example(command):
    assert f"Example: oac-calibrate {command}" in " ".join(call(command, "--help").stdout.split())


def test_probe_shows_who_is_there_and_who_is_not():
    with radios(2) as served:
        result = call("probe", *served.uris)
        assert result.exit_code == 0
        for word in (*served.uris, f"{1:034x}", "v0.38", "31.7"):
            assert word in result.stdout
        result = call("probe", served.uris[0], NOBODY, "--json")
        assert result.exit_code == 1
        value = json.loads(result.stdout)
        assert value["radios"][0]["serial"] == "0" * 34
        assert value["radios"][0]["highest_rate_hz"] == 61.44e6
        assert value["missing"] == [f"no Pluto at {NOBODY}: Connection refused"]
        assert served.air.context(0).settings.sample_rate_hz == 30_720_000  # nothing was set


def test_probe_shows_what_another_program_left():
    with radios(1) as served:
        assert json.loads(call("probe", *served.uris, "--json").stdout)["radios"][0]["hindrances"] == []
        context = iio.Context(served.uris[0])
        chip = context.find_device("ad9361-phy")
        chip.find_channel("altvoltage1", True).attrs["powerdown"].value = "1"
        chip.attrs["ensm_mode"].value = "alert"
        result = call("probe", *served.uris)
        assert result.exit_code == 0
        (row,) = [line for line in result.stdout.splitlines() if served.uris[0] in line]
        assert row.split()[-3:] == ["on", "down", "alert"]
        assert "its TX LO is powered down, its ENSM is in alert, not in fdd" in result.stderr
        (radio,) = json.loads(call("probe", *served.uris, "--json").stdout)["radios"]
        assert (radio["state"]["tx_lo_on"], radio["state"]["ensm_mode"]) == (False, "alert")
        assert radio["hindrances"] == ["its TX LO is powered down", "its ENSM is in alert, not in fdd"]


@pytest.mark.parametrize("command", ["measure", "align"])
def test_another_program_can_send_after_a_command(command):
    """The TX LO used to stay powered down: whatever came next was heard by nobody, and told of no error."""
    with radios(2) as served:
        assert bench(served, command=command).exit_code == 0
        assert_as_found(served)


def test_a_scan_that_finds_nothing_says_so():
    result = call("probe")
    if result.exit_code:  # where a radio is plugged in, it is found
        assert "scan" in result.stderr


def test_the_loopback_is_whole_and_nothing_is_transmitted():
    with radios(1) as served:
        result = call("loopback-test", served.uris[0], "--rate", 2.5e6, "--seconds", 0.1, "--block", 8192, "--json")
        assert result.exit_code == 0, result.output
        value = json.loads(result.stdout)
        assert value["whole"] is True
        assert value["rates"][0]["samples"] > 0.1 * 2.5e6
        assert_as_found(served)


def test_align_learns_keeps_and_begins_there(tmp_path):
    kept = tmp_path / "calibration.toml"
    with radios(3) as served:
        result = bench(served, "--save", kept, "--json")
        assert result.exit_code == 0, result.output
        value = json.loads(result.stdout)
        assert value["tolerance_met"] is True
        assert value["rounds"] <= 8
        assert value["offset_rms_samples"] < 0.03
        assert value["offset_max_samples"] < 0.1
        first, second = value["radios"]
        assert first["state"] == second["state"] == "tracking"
        # Crystals of +-20 ppm with 1 ppm of wobble: the carriers are off by as much as the clocks.
        for row, ppm in ((first, 20), (second, -20)):
            assert row["drift_ppm"] == pytest.approx(ppm, abs=1.1)
            assert row["cfo_hz"] == pytest.approx(ppm * 2400, abs=1.1 * 2400)
        assert f"{1:034x}" in kept.read_text()

        result = bench(served, "--start", kept)
        assert result.exit_code == 0, result.output
        assert "all within" in result.stdout
        assert_as_found(served)

    with radios(2) as served:
        served.air.context(1).context.attributes["hw_serial"] = "another"
        before = kept.read_bytes()
        for option in ("--save", "--start"):
            result = bench(served, option, kept)
            assert result.exit_code == 2
            assert str(kept) in result.stderr
            assert "belongs to another radio" in result.stderr or "has no entry for another" in result.stderr
        assert kept.read_bytes() == before


def test_a_tolerance_that_is_not_met_is_status_1_with_the_reason():
    with radios(2, snr_db=-30) as served:
        result = bench(served, "--rounds", 2)
        assert result.exit_code == 1
        assert f"not aligned in 2 rounds: {served.uris[1]} is uncalibrated" in result.stdout


def test_echoes_that_the_tolerance_does_not_allow_are_told_with_the_option():
    with radios(2, channel="eva", fading="rayleigh", coherence_seconds=0.1) as served:
        result = bench(served, "--rounds", 8, "--tolerance", 0.01)
        assert result.exit_code == 1
        assert "samples off. --tolerance is 0.01; votes tolerate 5.25 here" in result.stdout


def test_track_logs_what_report_reads(tmp_path):
    log = tmp_path / "bench.jsonl"
    with radios(2) as served:
        result = bench(served, "--rounds", 8, "--log", log, "--json", command="track")
        assert result.exit_code == 0, result.output
        value = json.loads(result.stdout)
        assert (value["rounds"], value["tolerance_met"], value["gaps"]) == (8, True, 0)
        assert log.with_suffix(".png").stat().st_size > 10_000
        result = bench(served, "--rounds", 8, "--log", log, command="track")
        assert result.exit_code == 2
        assert "already exists" in result.stderr
    result = call("report", log)
    assert result.exit_code == 0
    assert "1 clients tracking after 2 rounds; offsets 0.0" in result.stdout


def test_track_records_what_replay_hears(tmp_path):
    folder = tmp_path / "rec"
    with radios(2) as served:
        result = bench(served, "--rounds", 5, "--record", folder, "--json", command="track")
        assert f"5 rounds recorded in {folder}" in result.stderr
        offsets = json.loads(result.stdout)["radios"]
        uri = served.uris[0]
    again = [replay(read(path)) for path in recordings([folder])]
    assert [one.heard.round for one in again] == list(range(5))
    assert {one.verdict for one in again} == {"equal"}
    assert again[-1].heard.kind == "payload"
    assert [row["offset_samples"] for row in offsets] == pytest.approx([again[-1].heard.offset_samples[0]])
    about = json.loads((folder / "000000-round-0.sigmf-meta").read_text())
    assert about["global"]["core:hw"] == f"the radio at {uri}"
    assert about["captures"][0]["core:frequency"] == 2.4e9


@pytest.mark.early
@pytest.mark.parametrize(("seconds", "rounds"), [(1, 28), pytest.param(10, 110, marks=pytest.mark.slow)])
def test_track_goes_on_while_a_radio_is_unplugged_and_it_comes_back(tmp_path, seconds, rounds):
    """Seconds of the air; a round lasts some 0.2 s at this rate."""
    log = tmp_path / "bench.jsonl"
    with radios(3, faults=[f"1.6 unplug 2 {seconds}"]) as served:
        result = bench(served, "--rounds", rounds, "--rate", 0.6e6, "--log", log, "--json", command="track")
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert (value["rounds"], value["all_tracking"]) == (rounds, True)
    played = [json.loads(line) for line in log.read_text().splitlines()]
    states = [line["states"] for line in played if "states" in line]
    gone = [n for n, (_, second) in enumerate(states) if second == "absent"]
    assert gone, states
    assert all(states[n][0] == "tracking" for n in gone)
    assert states[gone[0] - 1] == states[-1] == ["tracking", "tracking"]


def test_an_error_of_the_system_names_its_file(tmp_path):
    with radios(2) as served:
        result = bench(served, "--rounds", 1, "--log", tmp_path / "nowhere" / "bench.jsonl", command="track")
    assert result.exit_code == 2
    assert f"error: {tmp_path / 'nowhere' / 'bench.jsonl'}: No such file or directory" in result.stderr


def test_measure_shows_offsets_without_correction():
    """Two kinds of truth: streams that begin up to 2,000 samples apart, and delays of up to 20 us."""
    with radios(2) as served:
        result = bench(served, "--json", command="measure")
        assert result.exit_code == 0, result.output
        value = json.loads(result.stdout)
        assert value["measured"] is True
        (row,) = value["radios"]
        starts = served.air.settings.tx_start_samples
        assert row["offset_samples"] == pytest.approx(starts[1], abs=100)
        assert row["drift_ppm"] == pytest.approx(20, abs=2)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--rate", -1), "[air] sample_rate_hz = -1.0: must be greater than 0"),
        (("--rate", 1e5), "sample_rate_hz must be from 520833"),
        (("--tolerance", 0), "--tolerance must be"),
        (("--rounds", 0), "--rounds must be"),
        (("--clock", "sundial"), "[radios] clock = 'sundial': There are wall, lock-step"),
        (("--rx-gain", 99), "rx_gain_db must be"),
        (("--client", "ip:127.0.0.1:2", "--client", "ip:127.0.0.1:2"), "a radio of its own for each"),
        (("--frequency", 1e3), "rx_lo_hz must be from 70000000"),
        ((), f"no Pluto at {NOBODY}"),
    ],
)
def test_bad_input_is_status_2_and_says_what(more, says):
    for command in ("align", "track"):
        given = ("--frequency", 2.4e9, *more)
        result = call(command, "--server", NOBODY, "--client", "ip:127.0.0.1:3", *given)
        assert result.exit_code == 2
        assert says in result.stderr


def test_nothing_is_transmitted_without_a_frequency():
    with radios(2) as served:
        result = bench(served, frequency=None)
        assert result.exit_code == 2
        assert "nothing is transmitted until you name a frequency" in result.stderr
        assert served.air.context(0).settings.sample_rate_hz == 30_720_000  # it was not even touched


def test_a_file_that_cannot_be_read_is_left_alone(tmp_path):
    broken = tmp_path / "calibration.toml"
    broken.write_text('[[radio]]\nserial = "1"\n')
    with radios(2) as served:
        for option in ("--save", "--start"):
            result = bench(served, option, broken)
            assert result.exit_code == 2
            assert "is not a readable calibration file" in result.stderr
        assert bench(served, "--start", tmp_path / "none.toml").exit_code == 2
    assert broken.read_text() == '[[radio]]\nserial = "1"\n'


def config_file(folder, served, **changes):
    """Write a bench of these radios with another waveform, as `fl_app` takes it, too: a 64-point FFT at 1 Msps."""
    settings = load_settings(
        None,
        [
            *("air.name=pluto", f"clients.n={len(served.uris) - 1}", "air.sample_rate_hz=1e6", "air.fft_size=64"),
            *("air.cp_samples=16", "air.active_subcarriers=48", "air.dc_nulls=4", "radios.clock=lock-step"),
            *(f'radios.server="{served.uris[0]}"', f"radios.clients={list(served.uris[1:])!r}"),
            *("radios.frequency_hz=2.4e9", "radios.rx_gain_db=50", "radios.tx_gain_db=-10"),
        ],
    )
    path = folder / "bench.toml"
    path.write_text(settings.with_values(**changes).toml())
    return path


def test_a_config_alone_drives_probe_measure_align_and_track(tmp_path):
    with radios(3) as served:
        config = config_file(tmp_path, served)
        result = call("probe", config, "--json")
        assert result.exit_code == 0, result.output
        assert [radio["uri"] for radio in json.loads(result.stdout)["radios"]] == list(served.uris)
        for command in ("measure", "align", "track"):
            more = ("--rounds", 12, "--log", tmp_path / "log.jsonl") if command == "track" else ()
            result = call(command, config, "--json", *more)
            assert result.exit_code == 0, result.output
            value = json.loads(result.stdout)
            assert [row["state"] for row in value["radios"]] == ["tracking", "tracking"] or command == "measure"
            for row, ppm in zip(value["radios"], (20, -20), strict=True):
                # A sample that was booked at another rate would show another frequency for the same drift.
                assert row["cfo_hz"] == pytest.approx(ppm * 2400, abs=1.1 * 2400)
        assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])["sample_rate_hz"] == 1e6


def test_a_config_alone_drives_the_loopback_test_at_its_own_rate(tmp_path):
    with radios(1) as served:
        config = tmp_path / "bench.toml"
        config.write_text(f'[radios]\nserver = "{served.uris[0]}"\nsample_rate_hz = 1e6\n')
        result = call("loopback-test", config, "--seconds", 0.05, "--block", 8192, "--json")
        assert result.exit_code == 0, result.output
        (tested,) = json.loads(result.stdout)["radios"]
        assert (tested["uri"], tested["whole"]) == (served.uris[0], True)
        assert [rate["sample_rate_hz"] for rate in tested["rates"]] == [1e6]


def test_options_replace_what_the_config_says(tmp_path):
    with radios(2) as served:
        config = config_file(tmp_path, served)
        result = call("align", config, "--frequency", 1e3)
        assert result.exit_code == 2
        assert "rx_lo_hz must be from 70000000" in result.stderr
        result = call("align", config, "--server", NOBODY)
        assert result.exit_code == 2
        assert f"no Pluto at {NOBODY}" in result.stderr


def test_a_config_that_is_wrong_is_named_with_its_key(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[radios]\nserver = "a"\ntx_gian_db = -10\n')
    result = call("align", path)
    assert result.exit_code == 2
    assert f"{path}: [radios] tx_gian_db: unknown key; did you mean 'tx_gain_db'?" in result.stderr
    assert call("measure").exit_code == 2  # neither a config nor a server
