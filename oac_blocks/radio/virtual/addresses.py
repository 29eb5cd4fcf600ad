# SPDX-License-Identifier: GPL-3.0-or-later
"""Where virtual radios listen: a loopback address for each of them, all at IIOD's own port, or ports of one address.

libiio forgets the port when it clones a context, so that radios which share an address would be taken for one another.
"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Sequence

STANDARD_PORT = 30_431
Address = tuple[str, int]
_LOOPBACK = "127.0.0.1"
_BACKLOG = 64
_MOST_TRIES = 64  # random addresses that are tried; there are millions


def listen(address: Address) -> socket.socket:
    """Listen at an address. Raise OSError with a sentence that names it if that fails."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        host, port = address
        reason = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror
        raise OSError(error.errno, f"cannot listen at {host}:{port}: {reason}") from None
    return listener


def listen_for_all(radios: int, host: str | None, base_port: int | None) -> list[socket.socket]:
    """Listen at one address or port for each radio.

    Parameters
    ----------
    radios
        How many.
    host
        The one address of all. None: 127.0.0.1 with a ``base_port``, and otherwise a loopback address for each.
    base_port
        Port of the first radio at ``host``; the others follow, and 0 takes free ones. Without a host, None stands for
        127.0.0.1, 127.0.0.2 and so on at port 30431, and 0 for free loopback addresses at that port. Where a system has
        no loopback address but 127.0.0.1, ports are taken instead.
    """
    if host is not None or base_port:
        return _at_ports(radios, host or _LOOPBACK, STANDARD_PORT if base_port is None else base_port)
    try:
        if base_port is None:
            return _all([(f"127.0.0.{1 + radio}", STANDARD_PORT) for radio in range(radios)])
        return _at_free_addresses(radios)
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return _at_ports(radios, _LOOPBACK, STANDARD_PORT if base_port is None else 0)
        if error.errno == errno.EADDRINUSE and base_port is None:
            hint = (
                "Another oac-virtual-pluto may run: stop it, or take free addresses with --base-port 0, "
                "or ports of 127.0.0.1 with --base-port 30500"
            )
            raise OSError(error.errno, f"{error.strerror}. {hint}") from None
        raise


def uri(address: Address) -> str:
    host, port = address
    return f"ip:{host}" if port == STANDARD_PORT else f"ip:{host}:{port}"


def _at_ports(radios: int, host: str, base_port: int) -> list[socket.socket]:
    return _all([(host, base_port + radio if base_port else 0) for radio in range(radios)])


def _all(addresses: Sequence[Address]) -> list[socket.socket]:
    listeners: list[socket.socket] = []
    try:
        for address in addresses:
            listeners.append(listen(address))
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _at_free_addresses(radios: int) -> list[socket.socket]:
    """Listen at random addresses. The first process at an address has it, so that many may do so at once."""
    draw = random.SystemRandom()
    listeners: list[socket.socket] = []
    for _ in range(radios + _MOST_TRIES):
        if len(listeners) == radios:
            break
        octets = draw.randrange(1, 255), draw.randrange(256), draw.randrange(1, 255)
        try:
            listeners.append(listen(("127.{}.{}.{}".format(*octets), STANDARD_PORT)))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                for listener in listeners:
                    listener.close()
                raise
    if len(listeners) < radios:  # another program has this port at all addresses
        for listener in listeners:
            listener.close()
        return _at_ports(radios, _LOOPBACK, 0)
    return listeners
