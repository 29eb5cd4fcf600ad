# SPDX-License-Identifier: GPL-3.0-or-later
"""The server against Algorithm 1 written out entry by entry."""

import numpy as np
import pytest

from fl_app.core.selection import make_policy
from fl_app.core.server import Server
from fl_app.core.steps.schedules import RateSchedule
from fl_app.core.steps.server_step import SERVER_STEPS, ServerOptions

D, K, ETA = 40, 9, 0.05
CONSTANT = RateSchedule(ETA, rounds=40)


def make_server(mode="analog", policy="fair-k", schedule=CONSTANT, optimizer="sgd", **kwargs):
    w = np.random.default_rng(1).normal(size=D).astype(np.float32)
    chosen = make_policy(policy, D, K, rng=np.random.default_rng(2), **kwargs)
    return Server(w, chosen, schedule, mode, ServerOptions(optimizer).make(D))


class NaiveServer:
    """Algorithm 1 with the age after the round, one entry at a time in plain Python."""

    def __init__(self, w, mode):
        self.w, self.mode = [float(value) for value in w], mode
        self.g, self.age = [0.0] * D, [0] * D

    def update(self, gradient, selected):
        for entry in range(D):
            if entry in selected:
                self.g[entry] = float(gradient[entry])
            step = self.g[entry]
            if self.mode == "onebit":
                step = 1 if step > 0 else -1
            self.w[entry] -= ETA * step
            self.age[entry] = 0 if entry in selected else self.age[entry] + 1

    def largest(self, count):
        return set(sorted(range(D), key=lambda entry: -abs(self.g[entry]))[:count])


@pytest.mark.parametrize("mode", ["analog", "onebit"])
@pytest.mark.parametrize("k_m", [0, 4, K])
def test_rounds_follow_algorithm_1(mode, k_m):
    server = make_server(mode, k_m=k_m)
    naive = NaiveServer(server.w, mode)
    for t, gradient in enumerate(np.random.default_rng(5).normal(size=(30, D)).astype(np.float32)):
        naive.update(gradient, set(server.selected.tolist()))
        server.update(gradient[server.selected], t)
        np.testing.assert_array_equal(server.g, np.array(naive.g, np.float32))
        np.testing.assert_allclose(server.w, naive.w, rtol=0, atol=1e-4)
        assert server.age.tolist() == naive.age
        # Which of equally old entries come next is the policy's coin; that they are the oldest is not.
        chosen = set(server.selected.tolist())
        assert len(chosen) == K
        assert naive.largest(k_m) <= chosen
        oldest_left_out = max(naive.age[entry] for entry in range(D) if entry not in chosen)
        assert all(naive.age[entry] >= oldest_left_out for entry in chosen - naive.largest(k_m))


def test_first_round_sends_everything():
    server = make_server()
    assert server.selected.tolist() == list(range(D))
    assert not server.age.any()
    assert not server.g.any()


def test_older_values_are_still_applied():
    server = make_server()
    server.update(np.full(D, 2.0, np.float32), 0)
    before, fresh = server.w.copy(), server.selected.copy()
    server.update(np.zeros(K, np.float32), 1)
    moved = before - server.w
    assert np.allclose(moved[fresh], 0)
    assert np.allclose(np.delete(moved, fresh), 2 * ETA)


def test_one_bit_applies_the_sign_and_keeps_the_soft_vote():
    server = make_server("onebit")
    votes = np.linspace(-3, 3, D, dtype=np.float32)
    before = server.w.copy()
    server.update(votes, 0)
    np.testing.assert_allclose(before - server.w, ETA * np.sign(votes), atol=1e-6)
    np.testing.assert_array_equal(server.g, votes)


def test_skipped_round_keeps_the_model_and_ages_it():
    server = make_server()
    server.update(np.ones(D, np.float32), 0)
    w, g, age, selected = server.w.copy(), server.g.copy(), server.age.copy(), server.selected.copy()
    server.skip()
    np.testing.assert_array_equal(server.w, w)
    np.testing.assert_array_equal(server.g, g)
    np.testing.assert_array_equal(server.age, age + 1)
    np.testing.assert_array_equal(server.selected, selected)


def test_round_robin_refreshes_every_entry_in_ceil_d_over_k_rounds():
    server, period = make_server(policy="round-robin"), -(-D // K)
    server.update(np.ones(D, np.float32), 0)
    for t in range(3 * period):
        server.update(np.ones(K, np.float32), 1 + t)
        assert server.age.max() < period
    assert server.times_sent.min() >= 1 + 3


@pytest.mark.parametrize("received", [np.ones(D - 1, np.float32), np.full(D, np.nan, np.float32)])
def test_what_cannot_be_received_is_refused(received):
    with pytest.raises(ValueError, match=f"received must hold {D} finite values"):
        make_server().update(received, 0)


def test_one_bit_steps_keep_the_bits_of_two_roundings():
    """The rate times -1, 0 or 1 is exact, so that one rounding and two give the same; runs of before are repeated."""
    server = make_server("onebit")
    for t in range(3):
        before = server.w.copy()
        server.update(np.random.default_rng(t).normal(size=server.selected.size).astype(np.float32), t)
        assert server.w.tobytes() == (before - np.float32(ETA) * np.sign(server.g)).tobytes()


def test_rate_of_an_update_is_that_of_its_round():
    server = make_server("onebit", schedule=RateSchedule(0.5, rounds=8, name="exponential", factor=0.5))
    before = server.w.copy()
    server.update(np.ones(D, np.float32), 3)
    np.testing.assert_allclose(before - server.w, 0.5**4, rtol=1e-5)
    assert server.rate == 0.5**4


@pytest.mark.parametrize("mode", ["analog", "onebit"])
@pytest.mark.parametrize("optimizer", SERVER_STEPS)
def test_arrays_restore_the_server(mode, optimizer):
    rates = RateSchedule(ETA, rounds=9, name="cosine", warmup=2)
    server, other = (make_server(mode, schedule=rates, optimizer=optimizer) for _ in range(2))
    rng = np.random.default_rng(4)
    for t, k in enumerate((D, K, K)):
        server.update(rng.normal(size=k).astype(np.float32), t)
    other.load_arrays({name: array.copy() for name, array in server.arrays().items()})
    other.policy.load_state(server.policy.state())
    for t in range(3, 6):
        received = rng.normal(size=K).astype(np.float32)
        for one in (server, other):
            one.update(received, t)
    assert other.arrays().keys() == server.arrays().keys()
    for name, array in server.arrays().items():
        assert other.arrays()[name].tobytes() == array.tobytes()


def test_checkpoints_of_before_the_optimizers_still_load():
    arrays = make_server().arrays()
    assert arrays.keys() == {"w", "g", "age", "selected", "times_sent"}
    make_server().load_arrays(arrays)


def test_arrays_of_another_optimizer_are_refused_and_change_nothing():
    server = make_server(optimizer="momentum")
    before = server.w.copy()
    other = make_server(optimizer="adam")
    other.update(np.ones(D, np.float32), 0)
    with pytest.raises(
        ValueError, match=r"optimizer has the arrays \['velocity'\], not \['mean', 'powers', 'square'\]"
    ):
        server.load_arrays(other.arrays())
    assert server.w.tobytes() == before.tobytes()


def test_arrays_of_another_model_are_refused():
    arrays = make_server().arrays()
    with pytest.raises(ValueError, match="age must be int32"):
        make_server().load_arrays({**arrays, "age": np.zeros(D + 1, np.int32)})
