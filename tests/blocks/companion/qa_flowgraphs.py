# SPDX-License-Identifier: GPL-3.0-or-later
"""Every flowgraph in grc_flows: complete, one place for the numerology, compiled, run, and its window looked at."""

import ast
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from oac_blocks.bench.flows.pluto import PlutoSettings
from oac_blocks.bench.flows.pluto_settings import COMPANION_DEFAULTS
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from tests.blocks.companion.companion_core import FLOWS, ROOT, call, compile_flows, load

RUN_SECONDS = 10
FILES = sorted(FLOWS.glob("*.grc"))
NEED_A_RADIO = ("oac_client_pluto", "oac_server_pluto")
NUMEROLOGY = ("sample_rate_hz", "fft_size", "cp_samples", "active_subcarriers", "dc_nulls")
SHORT_SYMBOLS = {"fft_size": 64, "cp_samples": 16, "active_subcarriers": 48, "dc_nulls": 4}


def flows(files):
    return pytest.mark.parametrize("file", files, ids=lambda file: file.stem)


every_flow = flows(FILES)


@every_flow
def test_flow_is_valid_and_every_block_is_known(file):
    """Neither grcc nor Companion tells of a block that it does not know, and grcc not of an open port."""
    flow = load(file)
    flow.validate()
    assert [str(error) for error in flow.iter_error_messages()] == []
    assert flow.is_valid()
    assert [block.name for block in flow.blocks if block.is_dummy_block] == []


def is_literal(value):
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return False
    return True


@every_flow
def test_the_numerology_stands_in_one_place(file):
    """A block names the variables; a number of its own would be forgotten when they change."""
    repeated = {
        f"{block['name']}.{name}": block["parameters"][name]
        for block in yaml.safe_load(file.read_text())["blocks"]
        for name in NUMEROLOGY
        if block["id"].startswith("oac_") and is_literal(block["parameters"].get(name, "absent"))
    }
    assert repeated == {}


def with_short_symbols(file, folder):
    """A copy of a flowgraph where the variables of the numerology, and nothing else, say 64 points."""
    flow = yaml.safe_load(file.read_text())
    for block in flow["blocks"]:
        if block["id"] == "variable" and block["name"] in SHORT_SYMBOLS:
            block["parameters"]["value"] = str(SHORT_SYMBOLS[block["name"]])
    copy = folder / file.name
    copy.write_text(yaml.safe_dump(flow))
    return copy


@flows([file for file in FILES if file.stem != "sync_link"])  # sync_link has no symbols
def test_flow_stays_valid_with_64_points(file, tmp_path):
    flow = load(with_short_symbols(file, tmp_path))
    flow.validate()
    assert [str(error) for error in flow.iter_error_messages()] == []
    assert flow.is_valid()
    used = {flow.evaluate(b.params["fft_size"].get_value()) for b in flow.blocks if "fft_size" in b.params}
    assert used == {64}


def evaluate_anew(flow):
    """Have Companion look at all variables. What depends on a variable that changes has its new value the next time."""
    for _ in range(2):
        flow.rewrite()
        flow.renew_namespace()


@pytest.mark.parametrize("name", NEED_A_RADIO)
def test_flow_on_a_radio_takes_its_numbers_from_a_config(name, tmp_path):
    config = tmp_path / "bench.toml"
    waveform = "".join(f"{key} = {value}\n" for key, value in SHORT_SYMBOLS.items())
    config.write_text(
        f"[air]\n{waveform}groups = 2\nscheme = 'energy'\n"
        "[radios]\nserver = 'ip:1.2.3.4'\nclients = ['ip:1.2.3.5', 'ip:1.2.3.6', 'ip:1.2.3.7']\n"
        "frequency_hz = 868e6\nsample_rate_hz = 1e6\ntx_gain_db = -3.0\nrx_gain_db = 20.0\n"
    )
    flow = load(FLOWS / f"{name}.grc")
    blocks = {block.name: block for block in flow.blocks}
    assert {key: flow.evaluate(key) for key in COMPANION_DEFAULTS} == COMPANION_DEFAULTS
    assert flow.evaluate("bench['scheme']") == "onebit"
    blocks["config"].params["value"].set_value(str(config))
    blocks["rx_gain_db"].params["value"].set_value("30")  # replaces that of the config
    evaluate_anew(flow)
    flow.validate()
    assert [str(error) for error in flow.iter_error_messages()] == []

    def used(key):
        """The values that blocks of ours, or of the radio, have for this parameter."""
        inside = [block for block in flow.blocks if block.key.startswith(("oac_", "iio_"))]
        return {flow.evaluate(block.params[key].get_value()) for block in inside if key in block.params}

    for key, value in {**SHORT_SYMBOLS, "sample_rate_hz": 1e6, "groups": 2, "clients": 3, "votes": 228 * 24}.items():
        assert used(key) == {value}, key
    assert used("scheme") == {"energy"}
    assert used("uri") == {"ip:1.2.3.4" if name == "oac_server_pluto" else "ip:1.2.3.5"}
    assert (used("frequency"), used("samplerate"), used("attenuation1")) == ({868_000_000}, {1_000_000}, {3.0})
    assert used("manual_gain1") == {30.0}


@pytest.fixture(scope="module")
def compiled_with_short_symbols(tmp_path_factory):
    """``compiled_with_short_symbols(name)`` is the program of a flowgraph whose variables say 64 points."""
    folder = tmp_path_factory.mktemp("short_symbols")
    files = [FLOWS / f"{name}.grc" for name in ("fsk_mv_link", "oac_loopback")]
    compile_flows([with_short_symbols(file, folder) for file in files], folder)
    return lambda name: folder / f"{name}.py"


def run_watcher(name, *arguments, home):
    """What a script beside this one prints about a running flow; without a screen, since it looks at no picture."""
    watcher = Path(__file__).with_name(f"{name}.py")
    ran = call("env", "QT_QPA_PLATFORM=offscreen", sys.executable, watcher, *arguments, home=home)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for text in (":error:", "Traceback"):
        assert text not in ran.stdout + ran.stderr, ran.stdout + ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def shares_of_soft_votes(snr_db, bins, widest):
    """How soft votes are distributed: half of them have a tone of energy 1 for them, half against, both in noise."""
    rng, n = np.random.default_rng(1), 400_000
    noise = np.sqrt(10 ** (-snr_db / 10) / 2) * (rng.normal(size=(2, n)) + 1j * rng.normal(size=(2, n)))
    energy = np.abs(noise + np.array([[1], [0]])) ** 2
    soft = (energy[0] - energy[1]) * rng.choice([-1, 1], n)
    return np.histogram(soft, bins, (-widest, widest))[0] / n


@pytest.mark.parametrize("points", [256, 64])
def test_the_plot_of_soft_votes_follows_the_slider(points, compiled, compiled_with_short_symbols, tmp_path):
    """A second after the slider has moved from 20 to 0 dB, 50 bursts, the plot shows 0 dB and nothing older."""
    program = (compiled if points == 256 else compiled_with_short_symbols)("fsk_mv_link")
    levels = (20, 0) if points == 256 else (5,)
    seen = run_watcher("watch_fsk_mv_link", program, 50, *levels, home=tmp_path)
    assert seen["fft_size"] == points
    for level, shares in zip(levels, seen["shown"], strict=True):
        expected = shares_of_soft_votes(level, len(shares), seen["widest"])
        # 25 bursts of 960 votes are shown: five standard errors of a share, and that of a bin in which none is expected
        assert np.abs(shares - expected).max() < 5 * np.sqrt(expected.max() / (25 * 960)), level


def test_the_loopback_runs_with_64_points(compiled_with_short_symbols, tmp_path):
    """Two clients that agree, 20 dB, Rayleigh: 1 / (2 * 100 + 2) of the votes are wrong in the mean, 0.005."""
    (rate,) = run_watcher("watch_loopback", compiled_with_short_symbols("oac_loopback"), 12, "on", home=tmp_path)
    assert rate < 0.03


def test_every_window_fits_a_screen_of_1200_by_800(compiled, tmp_path):
    programs = [compiled(file.stem) for file in FILES if file.stem not in NEED_A_RADIO]
    hidden = run_watcher("watch_windows", *programs, home=tmp_path)
    assert hidden == {program.stem: [0, 0] for program in programs}


AXES = {"qtgui_vector_sink_f": ("x_axis_label", "y_axis_label"), "qtgui_time_sink_x": ("ylabel",)}


@every_flow
def test_axes_have_names(file):
    """The time sink writes "Time" and a unit below its plot: it may show samples of a known rate alone."""
    for block in yaml.safe_load(file.read_text())["blocks"]:
        for name in AXES.get(block["id"], ()):
            assert block["parameters"][name].strip("'\"") not in ("", "x-Axis", "y-Axis"), (block["name"], name)
        if block["id"] == "qtgui_time_sink_x":
            assert block["parameters"]["srate"] == "samp_rate", block["name"]
        assert block["id"] != "qtgui_histogram_sink_x", "it adds up all PDUs since the start, see Recent Histogram"


@every_flow
def test_flow_compiles(file, compiled):
    assert compiled(file.stem).is_file()


@pytest.mark.slow
@flows([file for file in FILES if file.stem not in NEED_A_RADIO])
def test_flow_runs_without_an_error(file, compiled, tmp_path):
    """A flow whose block raised still ends with 0; what it logged tells."""
    program = compiled(file.stem)
    ran = call("xvfb-run", "-a", "timeout", RUN_SECONDS, sys.executable, program, home=tmp_path)
    assert ran.returncode == 124, f"it ended by itself\n{ran.stdout}\n{ran.stderr}"
    for text in (":error:", "Traceback", "counted, not logged"):
        assert text not in ran.stdout + ran.stderr, ran.stdout + ran.stderr


@pytest.mark.parametrize("name", NEED_A_RADIO)
def test_flows_on_a_radio_transmit_nowhere_until_a_frequency_is_named(name, compiled, tmp_path):
    program = compiled(name)
    for arguments in ([], ["--frequency-hz", "10e6"]):
        ran = call(sys.executable, program, *arguments, home=tmp_path)
        assert ran.returncode == 1
        assert "frequency-hz must be one that you may transmit on" in ran.stderr
        assert "Traceback" not in ran.stderr
    # With one it asks for the radio, which is not there.
    ran = call(sys.executable, program, "--frequency-hz", "2.45e9", "--uri", "ip:127.0.0.1:1", home=tmp_path)
    assert "Unable to create context" in ran.stderr


@pytest.mark.parametrize("name", NEED_A_RADIO)
def test_flows_on_a_radio_have_options_for_all_that_differs_from_desk_to_desk(name, compiled, tmp_path):
    text = call(sys.executable, compiled(name), "--help", home=tmp_path).stdout
    for option in (
        "uri",
        "frequency-hz",
        "sample-rate-hz",
        "rx-gain-db",
        "tx-attenuation-db",
        "clients",
        "votes",
        "config",
    ):
        assert re.search(rf"^  --{option}\b", text, re.MULTILINE), option


@pytest.mark.parametrize("clients", [2, 33, 64])
def test_the_servers_deadline_is_longer_than_the_longest_round(clients):
    """33 clients have nine slots of 524,288 samples: four seconds at 2.5 Msps, from the trigger on."""
    flow = load(FLOWS / "oac_server_pluto.grc")
    blocks = {block.name: block for block in flow.blocks}
    blocks["clients"].params["value"].set_value(str(clients))
    evaluate_anew(flow)
    value = {name: flow.evaluate(name) for name in ("deadline", "slot", "answer_after", "sample_rate_hz", "votes")}
    assert blocks["control"].params["deadline_seconds"].get_value() == "deadline"
    settings = {"clients": clients, "votes": value["votes"], "sample_rate_hz": value["sample_rate_hz"]}
    assert value["deadline"] == PlutoSettings("ip:any", 1e9, **settings).deadline_seconds
    slots = -(-clients // RoundLayout().clients_per_slot)
    assert value["deadline"] > (value["answer_after"] + slots * value["slot"]) / value["sample_rate_hz"]
    blocks["deadline_seconds"].params["value"].set_value("0.5")
    evaluate_anew(flow)
    assert flow.evaluate("deadline") == 0.5


@pytest.mark.slow
def test_votes_break_without_calibration_and_heal_with_it(compiled, tmp_path):
    """Farther off than the prefix allows, symbols run into each other: several times as many votes are wrong."""
    program = compiled("oac_loopback")
    before, broken, healed = run_watcher("watch_loopback", program, 25, "on", "off", "on", home=tmp_path)
    assert max(before, healed) < 0.02
    assert broken > 4 * max(before, healed)


def test_every_flow_has_its_line_and_its_pictures():
    text = (FLOWS / "README.md").read_text()
    for file in FILES:
        assert f"`{file.name}`" in text
        assert f"../docs/images/{file.stem}.png" in text
        if file.stem not in NEED_A_RADIO:
            assert f"../docs/images/{file.stem}_running.png" in text
    for picture in re.findall(r"\.\./docs/images/(\w+\.png)", text):
        assert (ROOT / "docs" / "images" / picture).is_file()
