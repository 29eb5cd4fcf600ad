# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheme that somebody adds: one module, and it trains through the simulated airs and over the link."""

from dataclasses import asdict

import numpy as np
import pytest

from fl_app.air import AirSettings, make_air
from fl_app.core.server import Server
from fl_app.core.steps.schedules import RateSchedule
from fl_app.core.steps.server_step import ServerOptions
from fl_app.link.downlink import Replica, change_of, whole_model
from fl_app.link.wire import Message
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.train import train
from fl_app.selection import make_policy
from oac_blocks.dsp.waveform.schemes import register_scheme
from oac_blocks.dsp.waveform.schemes.registry import SCHEMES
from tests.fl_app.schemes.ternary import Ternary


@pytest.fixture(autouse=True)
def _registered():
    scheme = register_scheme(Ternary())
    yield
    SCHEMES.unregister(scheme.name)


airs = pytest.mark.parametrize("air", ["ideal", "fading", "waveform"])


@airs
def test_it_trains(air, tiny, tmp_path):
    settings = tiny(air={"name": air, "mode": "ternary"}, run={"rounds": 3})
    folder = RunFolder.create(settings, tmp_path / "run")
    result = train(settings, folder, lambda _row: None, lambda: False)
    assert result["mode"] == "ternary"
    rows = folder.rows()
    assert all(0 < row.votes_compared < row.k for row in rows)
    assert rows[-1].vote_error_rate < 0.2


@airs
def test_votes_of_all_clients_decide(air):
    votes = np.where(np.arange(300) % 3 == 0, 0, np.where(np.arange(300) % 2, 1, -1)).astype(np.int8)
    settings = AirSettings(name=air, mode="ternary", snr_db=40.0, fading="none")
    received = make_air(settings, 3, 1).uplink(np.stack([votes] * 3), np.arange(3), 0).received
    assert np.array_equal(np.sign(received)[votes != 0], votes[votes != 0])


def test_a_client_follows_its_downlink():
    d, k = 40, 10
    policy, options = make_policy("fair-k", d, k, rng=np.random.default_rng(1)), ServerOptions()
    server = Server(np.ones(d, np.float32), policy, RateSchedule(0.1, rounds=4), "ternary", options.make(d))
    body = {"mode": "ternary", **asdict(options)}
    replica = Replica.from_message(Message("model", -1, 0, 1, body, whole_model(server)), d)
    rng = np.random.default_rng(2)
    for t in range(4):
        sent = server.selected
        server.update(rng.integers(-3, 4, sent.size).astype(np.float32), t)
        replica.apply(Message("work", -1, 0, 1, {"eta": server.rate}, change_of(server, sent)))
        np.testing.assert_array_equal(replica.w, server.w)
