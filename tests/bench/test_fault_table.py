# SPDX-License-Identifier: GPL-3.0-or-later
"""The same faults have the same outcome on both transports: one table, played on threads and in a flowgraph.

A burst is played until the rule for bursts (`oac_blocks.rounds.delivery`) accepts a round or gives up.
"""

import pytest

pytest.importorskip("gnuradio")
pytest.importorskip("oac_blocks.radio.pluto")
from tests.bench.fault_transports import OnFlowgraphs, OnThreads, Outcome

ALL = (0, 1, 2)
AT_ONCE, AGAIN = False, True  # was the burst's first round with payload the one that counts?


def accepted(heard, repeated):
    return Outcome("accept", heard, repeated)


# What happens; the fault's method (None: the radio is gone before the first round) and its clients; what becomes of
# the burst in which it happens, and of a burst when the server knows of it.
TABLE = [
    ("nothing", None, (), accepted(ALL, AT_ONCE), accepted(ALL, AT_ONCE)),
    ("votes come too late", "late_votes", (2,), accepted(ALL, AGAIN), accepted(ALL, AT_ONCE)),
    ("the trigger is not heard", "silent_trigger", (), accepted(ALL, AGAIN), accepted(ALL, AT_ONCE)),
    ("a client's stream breaks", "gap_at_a_client", (2,), accepted(ALL, AGAIN), accepted(ALL, AT_ONCE)),
    ("the server's stream breaks", "gap_at_the_server", (), accepted(ALL, AGAIN), accepted(ALL, AT_ONCE)),
    ("a client is restarted", "restart_a_client", (2,), accepted((0, 1), AT_ONCE), accepted(ALL, AT_ONCE)),
    ("the server is restarted", "restart_the_server", (), accepted(ALL, AT_ONCE), accepted(ALL, AT_ONCE)),
    ("a radio is gone before", None, (2,), accepted((0, 1), AT_ONCE), accepted((0, 1), AT_ONCE)),
    ("a radio goes in arming", "unplug_while_arming", (2,), accepted((0, 1), AGAIN), accepted((0, 1), AT_ONCE)),
    ("a radio goes in the burst", "unplug_in_the_burst", (2,), accepted((0, 1), AGAIN), accepted((0, 1), AT_ONCE)),
    ("two of three radios go", "unplug_while_arming", (1, 2), accepted((0,), AGAIN), accepted((0,), AT_ONCE)),
    ("all radios go", "unplug_while_arming", ALL, Outcome("give up", (), AGAIN), Outcome("give up", (), AGAIN)),
]


@pytest.mark.parametrize("transport", [OnThreads, OnFlowgraphs])
@pytest.mark.parametrize(("happens", "fault", "clients", "outcome", "after"), TABLE, ids=[row[0] for row in TABLE])
def test_outcome(transport, happens, fault, clients, outcome, after):
    with transport(absent=clients if fault is None else ()) as bench:
        if fault is not None:
            getattr(bench, fault)(*clients)
        assert bench.burst() == outcome, happens
        bench.align()
        assert bench.burst() == after, happens
