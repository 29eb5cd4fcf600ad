# SPDX-License-Identifier: GPL-3.0-or-later
"""Predict the next character of Moby-Dick over the air: a GRU, votes through the simulated waveform."""

import fl_app as oac

run = oac.Experiment(
    model="gru",
    model_args={"width": 32},
    data="text",
    clients=5,
    local=oac.LocalSGD(steps=4, lr=0.5, batch_size=16),
    server=0.003,
    rho=0.2,
    air=oac.Waveform(snr_db=20),
    eval_every=10,
    settings={"data": {"limit": 4000, "test_limit": 200}},
)
for row in run.rounds(40):
    if row.is_tested:
        print(f"round {row.round}: {row.test_figures['bits_per_character']:.2f} bits per character")
