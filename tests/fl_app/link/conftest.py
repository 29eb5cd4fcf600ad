# SPDX-License-Identifier: GPL-3.0-or-later
"""Small runs over the link."""

import pytest

from tests.fl_app.link.desk_room import N, Room
from tests.fl_app.link.processes import Site

# Short, so that faults are noticed soon; a round's deadline is long unless a test is about it.
LINK = {
    "heartbeat_seconds": 0.2,
    "silent_seconds": 30.0,
    "join_seconds": 60.0,
    "round_seconds": 60.0,
    "patience_seconds": 90.0,
}


@pytest.fixture
def link_settings(tiny):
    """The tiny run, with [link] for tests: link_settings(link={"min_clients": 2}, run={"rounds": 8})."""

    def make(link=None, **sections):
        return tiny(link={**LINK, **(link or {})}, **sections)

    return make


@pytest.fixture
def site(tmp_path, short_folder):
    """Makes sites."""
    sites = []

    def make(settings, endpoint=None):
        folder = tmp_path / f"site{len(sites)}"
        folder.mkdir()
        sites.append(Site(folder, settings, endpoint or f"ipc://{short_folder}/{len(sites)}"))
        return sites[-1]

    yield make
    for one in sites:
        one.close()


@pytest.fixture
def room():
    """A desk with N clients at it, and every message in our hands."""
    room = Room()
    for client in range(N):
        room.connect(client)
    room.tick()
    return room
