# SPDX-License-Identifier: GPL-3.0-or-later
"""Server, clients and radios find one another by the same config."""

import pytest
from typer.testing import CliRunner

from fl_app.cli.app import app
from fl_app.cli.link_commands import radio_address
from fl_app.config import load_settings
from fl_app.link.address import reachable

RADIOS = (
    "air.name=pluto",
    'radios.server="ip:a"',
    'radios.clients=["ip:b", "ip:c"]',
    "radios.frequency_hz=2.4e9",
)


def call(*words):
    return CliRunner().invoke(app, list(words))


def test_votes_go_to_the_flowgraph_of_fl_app_radio_where_radios_have_one():
    assert radio_address(load_settings(None, [])) is None
    assert radio_address(load_settings(None, RADIOS)) is None  # threads: the server drives all radios
    flowgraphs = load_settings(None, [*RADIOS, "radios.transport=flowgraphs"])
    assert radio_address(flowgraphs) == "tcp://127.0.0.1:7790"
    assert radio_address(flowgraphs.with_values(link={"radio": "ipc:///tmp/air"})) == "ipc:///tmp/air"


@pytest.mark.parametrize(
    ("bind", "endpoint"),
    [
        ("tcp://0.0.0.0:7780", "tcp://127.0.0.1:7780"),
        ("tcp://*:7780", "tcp://127.0.0.1:7780"),
        ("tcp://192.168.1.2:7780", "tcp://192.168.1.2:7780"),
        ("ipc:///tmp/server", "ipc:///tmp/server"),
    ],
)
def test_a_client_reaches_a_server_that_listens_everywhere(bind, endpoint):
    assert reachable(bind) == endpoint


def test_a_client_without_a_server_says_what_to_give():
    result = call("client", "--id", "0")
    assert result.exit_code == 2
    assert "say --server tcp://HOST:PORT, or a CONFIG" in result.stderr
    result = call("client", "quickstart", "--config", "quickstart", "--id", "0")
    assert "CONFIG and --config say the same thing" in result.stderr


def test_radios_with_a_flowgraph_each_are_not_for_train(tmp_path):
    path = tmp_path / "bench.toml"
    path.write_text(load_settings(None, [*RADIOS, "radios.transport=flowgraphs", "data.limit=100"]).toml())
    result = call("train", str(path), "--out", str(tmp_path / "run"))
    assert result.exit_code == 2
    assert "run `fl_app up CONFIG`" in result.stderr
    assert not (tmp_path / "run").exists()
