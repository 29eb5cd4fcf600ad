# SPDX-License-Identifier: GPL-3.0-or-later
"""Train your own network on your own data, through the simulated waveform."""

import numpy as np
from torch import nn

import fl_app as oac

rng = np.random.default_rng(1)
codes = rng.choice([-1.0, 1.0], (8, 32))  # eight codewords of 32 chips


def received(samples):
    """Draw codewords in noise: the network learns to tell which one was sent."""
    sent = rng.integers(0, len(codes), samples)
    return codes[sent] + rng.normal(0, 1.2, (samples, 32)), sent


def my_net(classes):  # asks for a fact about the data by its name; any function or class that builds a module will do
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, classes))


run = oac.Experiment(
    model=my_net,
    data=oac.Data(received(3000), received(1000)),
    partition=oac.Dirichlet(0.3),
    clients=10,
    local=oac.LocalSGD(steps=5, lr=0.05, batch_size=50),
    server=0.003,
    rho=0.1,
    air=oac.Waveform(scheme="fsk-mv", snr_db=20),
    seed=1,
)
for row in run.rounds(40):
    print(f"round {row.round}: accuracy {row.test_accuracy:.3f}, mean age {row.mean_aou:.1f} rounds")
