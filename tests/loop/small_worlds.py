# SPDX-License-Identifier: GPL-3.0-or-later
"""Small worlds in which the loop is tried."""

import dataclasses

import numpy as np

from oac_blocks.loop.closed_loop import Arrivals, Loop, LoopSettings
from tests.loop.worlds import INTERVAL, SAMPLE_RATE_HZ, SIGMA, TURNAROUND, NumberClient, World

SETTINGS = LoopSettings(turnaround_samples=TURNAROUND, sample_rate_hz=SAMPLE_RATE_HZ)


def world(*clients, settings=SETTINGS, **more):
    clients = [dataclasses.replace(client) for client in clients] or [NumberClient(100.0), NumberClient(-700.5)]
    return World(clients, Loop(len(clients), settings, **more))


def tracking(*clients, **more):
    """A world in which all clients have been tracking for a while."""
    it = world(*clients, **more)
    it.run(30)
    assert set(it.states()) == {"tracking"}
    return it


def arrivals(round_, kind, clients, offset=np.nan):
    values = np.full(clients, offset)
    return Arrivals(round_, kind, INTERVAL * round_, values, np.full(clients, SIGMA), values, values, values + 20)


def last_reason(it, client=0):
    return [change.reason for change in it.loop.changes if change.client == client][-1]
