# SPDX-License-Identifier: GPL-3.0-or-later
"""Send the votes through GNU Radio: a flowgraph with clients, a server and the air between them, without a screen.

The experiment is that of own_model.py but for one word: ``air``. GNU Radio must be installed.
"""

import numpy as np
from torch import nn

import fl_app as oac

rng = np.random.default_rng(1)
codes = rng.choice([-1.0, 1.0], (8, 32))


def received(samples):
    sent = rng.integers(0, len(codes), samples)
    return codes[sent] + rng.normal(0, 1.2, (samples, 32)), sent


data = oac.Data(received(1000), received(500))
for air in (oac.Waveform(snr_db=20), oac.Loopback(snr_db=20)):
    run = oac.Experiment(
        model=lambda: nn.Linear(32, 8),
        data=data,
        partition=oac.Iid(),
        clients=3,
        local=oac.LocalSGD(lr=0.05),
        server=0.02,
        rho=0.5,
        air=air,
    )
    result = run.train(8)
    print(f"{air.name}: accuracy {result['test_accuracy']:.3f}, SNR at the server {result['snr_db']:.1f} dB")
