# SPDX-License-Identifier: GPL-3.0-or-later
"""Put your own channel and your own scheme into the loop.

A channel is an object with ``uplink(payload, clients, t)``: it takes what the clients send, one row each, and returns
what the server receives. A scheme says how gradient entries become subcarriers and back; here it is the majority vote
with one change, that a client abstains where its own gradient is below its median.
"""

import numpy as np
from torch import nn

import fl_app as oac


class Shadowing:
    """Lose clients behind obstacles: in each round a client is heard with probability 0.7, and noise is added."""

    scheme = "analog"  # the payload holds gradient entries, and the server wants their mean

    def __init__(self, seed):  # asks for one of the facts settings, n_clients, seed, scheme, radios and min_clients
        self.seed = seed

    def uplink(self, payload, clients, t):
        rng = np.random.default_rng((self.seed, t))  # by seed and round: a resumed run draws the same
        heard = rng.random(len(clients)) < 0.7
        heard[rng.integers(len(clients))] = True
        received = payload[heard].mean(axis=0) + rng.normal(0, 0.01, payload.shape[1])
        return oac.Uplink(received, clients[heard], symbols=0, air_seconds=0.0)


class LargeHalf(oac.MajorityVote):
    """Vote on the larger half of the entries alone: small gradients are mostly noise."""

    name = "large-half"

    def payload_of(self, entries, coins, abstain_below=0.0):
        return super().payload_of(entries, coins, max(abstain_below, float(np.median(np.abs(entries)))))


airs = {
    "own channel": (Shadowing, 0.05),
    "own scheme": (oac.Waveform(scheme=LargeHalf, snr_db=10), 0.002),
    "majority vote": (oac.Waveform(scheme="fsk-mv", snr_db=10), 0.002),
}
for name, (air, server_lr) in airs.items():
    run = oac.Experiment(
        model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 26)),
        data="letters",
        clients=10,
        local=oac.LocalSGD(lr=0.05),
        server=server_lr,
        rho=0.2,
        air=air,
        eval_every=20,
    )
    result = run.train(20)
    errors = result["vote_error_rate"]
    told = "" if errors is None else f", wrong majorities {100 * errors:.0f} %"
    print(f"{name}: accuracy {result['test_accuracy']:.3f}, absent {result['absent_clients']}{told}")
