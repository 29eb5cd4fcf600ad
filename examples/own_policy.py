# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare your own selection policy with FAIR-k: the same data, clients, air and seed for both."""

import numpy as np
from torch import nn

import fl_app as oac


class AgeTimesMagnitude:
    """Select the k entries with the largest product of age and magnitude."""

    def __init__(self, k, rng):  # asks for two of the facts d, k, k_m, r and rng by their names
        self.k, self.rng = k, rng

    def next(self, g, age):
        score, order = (age + 1) * np.abs(g), self.rng.permutation(g.size)  # the order decides ties at random
        return order[np.argsort(-score[order])[: self.k]]


for policy in ("fair-k", AgeTimesMagnitude):
    run = oac.Experiment(
        model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 26)),
        data="letters",
        clients=10,
        local=oac.LocalSGD(lr=0.05),
        server=0.05,
        policy=policy,
        rho=0.1,
        air=oac.Fading(scheme="analog", noise_std=0.01),
        eval_every=30,
    )
    result = run.train(30)
    print(f"{result['policy']}: accuracy {result['test_accuracy']:.3f}, mean age {result['mean_aou']:.1f} rounds")
