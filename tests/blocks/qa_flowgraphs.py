# SPDX-License-Identifier: GPL-3.0-or-later
"""Every flowgraph in grc_flows: complete, compiled, run for ten seconds, opened by the real Companion."""

import json
import re
import sys
from pathlib import Path

import pytest

from oac_blocks.dsp.rounds import RoundLayout
from oac_blocks.flows.pluto import PlutoSettings
from tests.blocks.companion import FLOWS, ROOT, call, load

RUN_SECONDS = 10
FILES = sorted(FLOWS.glob("*.grc"))
NEED_A_RADIO = ("oac_client_pluto", "oac_server_pluto")


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
    for option in ("uri", "frequency-hz", "sample-rate-hz", "rx-gain-db", "tx-attenuation-db", "clients", "votes"):
        assert re.search(rf"^  --{option}\b", text, re.MULTILINE), option


@pytest.mark.parametrize("clients", [2, 33, 64])
def test_the_servers_deadline_is_longer_than_the_longest_round(clients):
    """33 clients have nine slots of 524,288 samples: four seconds at 2.5 Msps, from the trigger on."""
    flow = load(FLOWS / "oac_server_pluto.grc")
    blocks = {block.name: block for block in flow.blocks}
    blocks["clients"].params["value"].set_value(str(clients))
    flow.rewrite()
    flow.renew_namespace()
    value = {name: flow.evaluate(name) for name in ("deadline", "slot", "answer_after", "sample_rate_hz", "votes")}
    assert blocks["control"].params["deadline_seconds"].get_value() == "deadline"
    settings = {"clients": clients, "votes": value["votes"], "sample_rate_hz": value["sample_rate_hz"]}
    assert value["deadline"] == PlutoSettings("any", 1e9, **settings).deadline_seconds
    slots = -(-clients // RoundLayout().clients_per_slot)
    assert value["deadline"] > (value["answer_after"] + slots * value["slot"]) / value["sample_rate_hz"]
    blocks["deadline_seconds"].params["value"].set_value("0.5")
    flow.rewrite()
    flow.renew_namespace()
    assert flow.evaluate("deadline") == 0.5


@pytest.mark.slow
def test_votes_break_without_calibration_and_heal_with_it(compiled, tmp_path):
    """Farther off than the prefix allows, symbols run into each other: several times as many votes are wrong."""
    program = compiled("oac_loopback")
    watcher = Path(__file__).with_name("watch_loopback.py")
    ran = call("xvfb-run", "-a", sys.executable, watcher, program, home=tmp_path, seconds=200)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    before, broken, healed = json.loads(ran.stdout.splitlines()[-1])
    assert max(before, healed) < 0.02
    assert broken > 4 * max(before, healed)


@pytest.mark.slow
@every_flow
def test_companion_opens_and_draws_it(file, tmp_path):
    script = ROOT / "docs" / "figures" / "flowgraphs.py"
    drawn = call(sys.executable, script, file.stem, "--only", "canvas", "--to", tmp_path, home=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    picture = Path(tmp_path / f"{file.stem}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_every_flow_has_its_line_and_its_pictures():
    text = (FLOWS / "README.md").read_text()
    for file in FILES:
        assert f"`{file.name}`" in text
        assert f"../docs/images/{file.stem}.png" in text
        if file.stem not in NEED_A_RADIO:
            assert f"../docs/images/{file.stem}_running.png" in text
    for picture in re.findall(r"\.\./docs/images/(\w+\.png)", text):
        assert (ROOT / "docs" / "images" / picture).is_file()
