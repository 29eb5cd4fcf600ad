# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep CURVE keys in a folder: a pair for the server, one for each client, and the list of admitted clients.

    keys/server.pub   server.key   client-0.key   client-1.key ...   clients.toml

The server needs server.key and clients.toml; client 3 needs client-3.key and server.pub, nothing else. Files with a
secret have mode 0600, and are refused if others can read them.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq
from zmq.utils import z85

from oac_blocks.errors import OacError

SECRET_MODE = 0o600
ADMITTED = "clients.toml"
PUBLIC = "server.pub"


class KeysError(OacError, RuntimeError):
    """A key cannot be read or written; the message says which file, and what to do."""


@dataclass(frozen=True)
class Pair:
    """Hold a public key and its secret key."""

    public: str
    secret: str

    def __repr__(self) -> str:
        return f"Pair({self.public})"  # a secret must not appear in a log


@dataclass(frozen=True)
class ServerKeys:
    """Hold the server's pair, and the public keys of the admitted clients."""

    pair: Pair
    admitted: dict[str, int]  # public key -> client's number


@dataclass(frozen=True)
class ClientKeys:
    """Hold a client's pair, and the server's public key."""

    pair: Pair
    server: str


def make_keys(folder: Path, n_clients: int) -> list[Path]:
    """Write new pairs for a server and its clients, and return the files; existing files are never overwritten."""
    names = ["server.key", PUBLIC, ADMITTED, *(f"client-{number}.key" for number in range(n_clients))]
    there = [name for name in names if (folder / name).exists()]
    if there:
        raise KeysError(f"{folder / there[0]} exists already; choose another folder, or remove it first")
    server, clients = _new_pair(), [_new_pair() for _ in range(n_clients)]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(folder / "server.key", _pair_text(server), SECRET_MODE)
        _write(folder / PUBLIC, f'public = "{server.public}"\n', 0o644)
        lines = [f'"{number}" = "{pair.public}"\n' for number, pair in enumerate(clients)]
        _write(
            folder / ADMITTED, "# client = public key. Without its line a client is not admitted.\n" + "".join(lines)
        )
        for number, pair in enumerate(clients):
            _write(folder / f"client-{number}.key", _pair_text(pair), SECRET_MODE)
    except OSError as error:
        raise KeysError(f"cannot write the keys to {folder}: {error.strerror}") from None
    return [folder / name for name in names]


def server_keys(folder: Path) -> ServerKeys:
    """Read the server's keys from a folder; raise KeysError for a file that is missing, damaged or open to others."""
    admitted: dict[str, int] = {}
    path = folder / ADMITTED
    for number, public in _read(path).items():
        if not number.isdecimal() or not _is_key(public):
            raise KeysError(f'{path}: a line must be "NUMBER" = "PUBLIC KEY", not {number} = {public!r}')
        if public in admitted:
            raise KeysError(f"{path}: clients {admitted[public]} and {number} have the same key")
        admitted[public] = int(number)
    return ServerKeys(_read_pair(folder / "server.key"), admitted)


def client_keys(folder: Path, number: int) -> ClientKeys:
    """Read the keys of client `number` from a folder; raise KeysError for a file that is missing or open to others."""
    public: Any = _read(folder / PUBLIC).get("public")
    if not _is_key(public):
        raise KeysError(f"{folder / PUBLIC} does not hold a public key")
    return ClientKeys(_read_pair(folder / f"client-{number}.key"), public)


def _new_pair() -> Pair:
    public, secret = zmq.curve_keypair()
    return Pair(public.decode(), secret.decode())


def _pair_text(pair: Pair) -> str:
    return f'public = "{pair.public}"\nsecret = "{pair.secret}"\n'


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    # The file is created with its mode, so that others cannot read it at any moment.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as stream:
        stream.write(text)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KeysError(f"cannot read {path}: {error.strerror}; `fl_app keys` makes the keys") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KeysError(f"{path} is not a file of keys: {error}") from None


def _read_pair(path: Path) -> Pair:
    fields = _read(path)
    if path.stat().st_mode & 0o077:
        raise KeysError(f"{path} can be read by others; `chmod 600 {path}` first")
    public: Any = fields.get("public")
    secret: Any = fields.get("secret")
    if not _is_key(public) or not _is_key(secret) or zmq.curve_public(secret.encode()).decode() != public:
        raise KeysError(f"{path} does not hold a pair of keys")
    return Pair(public, secret)


def _is_key(value: Any) -> bool:
    if not isinstance(value, str) or len(value) != 40:
        return False
    try:
        return len(z85.decode(value.encode("ascii"))) == 32
    except (ValueError, KeyError, UnicodeEncodeError):
        return False
