# SPDX-License-Identifier: GPL-3.0-or-later
"""Error feedback: nothing that a client computes is lost, whatever is sent; votes stand for their best scale."""

import numpy as np
import pytest
import torch

import fl_app as oac
from fl_app.core.steps.server_step import ServerOptions
from oac_blocks.dsp.waveform.schemes import scheme_named

RATE = 2.0**-6


def product(outputs, targets):
    """A loss that is linear in the parameters: its gradients do not depend on the model."""
    return (outputs * targets).mean()


def from_zero():
    model = torch.nn.Linear(24, 1, bias=False)
    torch.nn.init.zeros_(model.weight)  # random weights would round the steps
    return model


@pytest.fixture
def experiment():
    """Make a run of one client whose gradients are small multiples of 1/4, so that float32 adds them up exactly."""
    rng = np.random.default_rng(5)
    x = rng.integers(-8, 9, (32, 24)).astype(np.float32)
    y = rng.choice(np.float32([-1, 1]), (32, 1))

    def make(policy, feedback=True, **options):
        settings = {
            "clients": 1,
            "k": 5,
            "air": oac.Ideal(scheme="analog"),
            "server": oac.ServerSGD(RATE),
            **options,
        }
        local = oac.LocalSGD(1, lr=0.0, batch_size=4, loss=product, error_feedback=feedback)
        data = oac.Data((x, y), (x, y))
        return oac.Experiment(from_zero, data, policy=policy, local=local, **settings)

    return make


def moved(run, rounds):
    """Return the sum of all that the server applied, and what the client still keeps."""
    first = run.server.w.copy()
    list(run.rounds(rounds))
    return (first - run.server.w) / np.float32(RATE), run.run.training.residuals.get(0)


@pytest.mark.parametrize("policy", ["top-k", "fair-k", "rand-k"])
def test_applied_and_kept_are_all_gradients_exactly(experiment, policy):
    everything, nothing = moved(experiment("dense"), 9)
    applied, kept = moved(experiment(policy), 9)
    np.testing.assert_array_equal(nothing, np.zeros(24))
    assert np.count_nonzero(kept) > 10
    np.testing.assert_array_equal(applied + kept, everything)


def test_without_feedback_stale_values_are_applied_and_the_rest_is_lost(experiment):
    everything, _ = moved(experiment("dense"), 9)
    applied, kept = moved(experiment("top-k", feedback=False), 9)
    assert kept is None
    assert np.count_nonzero(applied != everything) > 10


def test_what_is_kept_survives_from_one_series_of_rounds_to_the_next(experiment):
    whole, parts = experiment("top-k"), experiment("top-k")
    moved(whole, 6)
    for rounds in (1, 3, 2):
        moved(parts, rounds)
    np.testing.assert_array_equal(whole.server.w, parts.server.w)
    np.testing.assert_array_equal(whole.run.training.residuals[0], parts.run.training.residuals[0])


def test_a_vote_stands_for_the_mean_magnitude():
    """The squared rest is then |p|^2 - |p|_1^2 / k, the least of all scales."""
    rng, scheme = np.random.default_rng(1), scheme_named("onebit")
    entries = rng.standard_t(3, 1000).astype(np.float32)
    rest = entries - scheme.stands_for(scheme.payload_of(entries, rng), entries)
    least = np.sum(entries**2, dtype=np.float64) - np.abs(entries).sum(dtype=np.float64) ** 2 / entries.size
    assert np.sum(rest**2, dtype=np.float64) == pytest.approx(least, rel=1e-4)
    # An entry without a vote is kept whole, and the others stand for their own mean.
    votes = scheme.payload_of(entries, rng, abstain_below=0.5)
    voted = np.abs(entries) >= 0.5
    stands = scheme.stands_for(votes, entries)
    np.testing.assert_array_equal(stands[~voted], 0)
    np.testing.assert_allclose(np.abs(stands[voted]), np.abs(entries[voted]).mean(), rtol=1e-5)


@pytest.mark.parametrize("mode", ["analog", "energy"])
def test_amplitudes_stand_for_themselves(mode):
    rng, scheme = np.random.default_rng(2), scheme_named(mode)
    entries = rng.standard_normal(99).astype(np.float32)
    np.testing.assert_array_equal(scheme.stands_for(scheme.payload_of(entries, rng), entries), entries)
    np.testing.assert_array_equal(scheme.stands_for(0 * entries, 0 * entries), 0 * entries)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_the_server_applies_only_fresh_entries(optimizer):
    w, direction = np.zeros(6, np.float32), np.ones(6, np.float32)
    step = ServerOptions(optimizer, fresh_only=True).make(6)
    after = step.move(w, direction, np.array([1, 4]), 0.5)
    assert np.flatnonzero(after).tolist() == [1, 4]
    np.testing.assert_array_equal(direction, np.ones(6))  # the server's memory is not changed
