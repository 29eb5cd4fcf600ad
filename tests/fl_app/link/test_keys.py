# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys: who can read them, what they admit, and where they are needed."""

import pytest
from typer.testing import CliRunner

from fl_app.cli.app import app
from fl_app.config import ConfigError
from fl_app.link.address import is_local, on_loopback
from fl_app.link.keys import KeysError, client_keys, make_keys, server_keys


def test_pairs_fit_and_secrets_are_for_their_owner_alone(tmp_path):
    paths = make_keys(tmp_path / "keys", 2)
    modes = {path.name: path.stat().st_mode & 0o777 for path in paths}
    assert modes == {
        "server.key": 0o600,
        "client-0.key": 0o600,
        "client-1.key": 0o600,
        "server.pub": modes["server.pub"],
        "clients.toml": modes["clients.toml"],
    }
    server = server_keys(tmp_path / "keys")
    for number in range(2):
        client = client_keys(tmp_path / "keys", number)
        assert client.server == server.pair.public
        assert server.admitted[client.pair.public] == number
        assert client.pair.secret not in repr(client)
    public = (tmp_path / "keys" / "server.pub").read_text() + (tmp_path / "keys" / "clients.toml").read_text()
    assert server.pair.secret not in public
    assert server.pair.secret not in repr(server)


def test_nothing_is_overwritten(tmp_path):
    make_keys(tmp_path, 1)
    before = (tmp_path / "server.key").read_text()
    with pytest.raises(KeysError, match=r"server\.key exists already"):
        make_keys(tmp_path, 3)
    assert (tmp_path / "server.key").read_text() == before


@pytest.mark.parametrize(
    ("name", "spoil", "why"),
    [
        ("server.key", lambda path: path.chmod(0o640), "can be read by others; `chmod 600"),
        ("server.key", lambda path: path.write_text("nonsense"), "is not a file of keys"),
        ("server.key", lambda path: path.write_text('public = "x"\nsecret = "y"\n'), "does not hold a pair"),
        ("server.key", lambda path: path.unlink(), "cannot read .*`fl_app keys` makes"),
        ("clients.toml", lambda path: path.write_text('"one" = "key"\n'), "a line must be"),
        ("clients.toml", lambda path: path.write_text(f'"1" = "{"é" * 40}"\n'), "a line must be"),
        (
            "clients.toml",
            lambda path: path.write_text(path.read_text().replace('"1"', '"2"') + path.read_text().splitlines()[2]),
            "have the same key",
        ),
    ],
)
def test_bad_key_files(tmp_path, name, spoil, why):
    make_keys(tmp_path, 2)
    spoil(tmp_path / name)
    with pytest.raises(KeysError, match=why):
        server_keys(tmp_path)


def test_pair_that_does_not_fit(tmp_path):
    make_keys(tmp_path / "a", 1)
    make_keys(tmp_path / "b", 1)
    own, other = ((tmp_path / name / "client-0.key").read_text().splitlines() for name in "ab")
    (tmp_path / "a" / "client-0.key").write_text(f"{own[0]}\n{other[1]}\n")
    with pytest.raises(KeysError, match="does not hold a pair of keys"):
        client_keys(tmp_path / "a", 0)


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("tcp://127.0.0.1:7780", True),
        ("tcp://127.8.9.1:1", True),
        ("tcp://[::1]:7780", True),
        ("tcp://localhost:*", True),
        ("ipc:///tmp/x", True),
        ("tcp://0.0.0.0:7780", False),
        ("tcp://*:7780", False),
        ("tcp://[::]:7780", False),
        ("tcp://192.168.1.2:7780", False),
        ("tcp://example.org:7780", False),
        ("tcp://localhost.example.org:7780", False),
    ],
)
def test_what_stays_on_this_machine(endpoint, local):
    assert is_local(endpoint) is local
    if endpoint.startswith("tcp"):
        assert is_local(on_loopback(endpoint))


@pytest.mark.parametrize(
    "endpoint", ["", "7780", "tcp://", "tcp://host", "udp://127.0.0.1:1", "http://x:1", "tcp://:80"]
)
def test_what_is_no_endpoint(endpoint):
    with pytest.raises(ConfigError, match="is not an endpoint"):
        is_local(endpoint)


def test_command(tmp_path):
    result = CliRunner().invoke(app, ["keys", str(tmp_path / "keys"), "--clients", "2"])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == [
        "client-0.key",
        "client-1.key",
        "clients.toml",
        "server.key",
        "server.pub",
    ]
    again = CliRunner().invoke(app, ["keys", str(tmp_path / "keys"), "--clients", "2"])
    assert again.exit_code == 1
    assert "error:" in again.stderr


@pytest.mark.parametrize("command", ["server", "client", "keys", "up"])
def test_help_has_an_example(command):
    assert f"Example: fl_app {command}" in CliRunner().invoke(app, [command, "--help"]).stdout
