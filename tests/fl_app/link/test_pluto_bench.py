# SPDX-License-Identifier: GPL-3.0-or-later
"""A bench as it stands in a laboratory: a Pluto for the server and for each client, a flowgraph for each Pluto, keys
between them, a server and clients that train. The Plutos are virtual, and all machines are this one."""

import numpy as np
import pytest

from fl_app.link.keys import make_keys
from oac_blocks.radio.virtual.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos
from tests.fl_app.link.test_faults import assert_whole
from tests.support.ports import free_ports

CLIENTS, ROUNDS, K = 2, 6, 2000
RATE_HZ = 1e6


@pytest.mark.slow
def test_votes_go_from_machine_to_machine_by_radio(site, link_settings, short_folder):
    keys = short_folder / "keys"
    make_keys(keys, CLIENTS)
    port = free_ports(6 + CLIENTS)
    address = f"tcp://127.0.0.1:{port}"
    here = site(
        link_settings(
            run={"rounds": ROUNDS, "eval_every": 1000, "checkpoint_every": 2},
            clients={"n": CLIENTS},
            selection={"k": K, "rho": None},
            air={"name": "gnuradio", "sample_rate_hz": RATE_HZ},
            link={"radio": address, "audit_votes": True},
        )
    )
    common = ("--clients", CLIENTS, "--frequency", 2.45e9, "--rate", RATE_HZ, "--port", port, "--keys", keys)
    with VirtualPlutos(spread(1 + CLIENTS, 1, ppm=10.0, snr_db=25.0), lock_step=True) as plutos:
        server = here.server()
        here.command("radio-server", "radio", "--uri", plutos.uris[0], *common)
        for client, uri in enumerate(plutos.uris[1:]):
            here.command(f"radio-{client}", "radio", "--uri", uri, "--client", client, *common)
            here.voter(client, radio=address)
        try:
            assert server.wait() == 0, "\n".join(command.text for command in here.commands)
        finally:
            here.close()
    assert_whole(here.run, ROUNDS)
    rows = here.run.rows()
    assert sum(row.absent_clients for row in rows[1:]) <= 1
    # Without fading the tones of two clients that agree cancel in at most a quarter of all pairs of QPSK symbols, and
    # of these votes every other one is wrong.
    assert np.mean([row.vote_error_rate for row in rows[1:]]) < 1 / 8
