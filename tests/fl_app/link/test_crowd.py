# SPDX-License-Identifier: GPL-3.0-or-later
"""Many clients at once."""

import pytest

from tests.support.runs import assert_every_round_once

PROCESSES = 4  # a thread and some file handles for each client: too many for one process


@pytest.mark.parametrize(("n", "rounds"), [(8, 4), pytest.param(200, 50, marks=pytest.mark.slow)])
def test_many_clients_join_and_finish(site, link_settings, n, rounds):
    settings = link_settings(
        run={"rounds": rounds, "eval_every": 1000, "checkpoint_every": 10},
        clients={"n": n},
        air={"name": "ideal"},
        link={"heartbeat_seconds": 2.0},
    )
    here = site(settings)
    server = here.server()
    for first in range(PROCESSES):
        numbers = list(range(first, n, PROCESSES))
        code = f"from fl_app.link.crowd import run_crowd; print(run_crowd({here.endpoint!r}, {numbers}))"
        here.python(f"crowd-{first}", code)
    assert server.wait() == 0, server.text
    assert [command.wait() for command in here.commands] == [0] * (1 + PROCESSES)
    assert sum(command.text.count("the run is finished") for command in here.commands) == n
    assert_every_round_once(here.run, rounds)
    rows = here.run.rows()
    assert [row.absent_clients for row in rows] == [0] * rounds
    print(f"{n} clients: {sorted(row.seconds for row in rows[2:])[len(rows) // 2 - 1]:.3f} s a round")
