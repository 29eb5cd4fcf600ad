# SPDX-License-Identifier: GPL-3.0-or-later
"""The server against Algorithm 1 written out entry by entry."""

import numpy as np
import pytest

from fl_app.core.selection import make_policy
from fl_app.core.server import Server

D, K, ETA = 40, 9, 0.05


def make_server(mode="analog", policy="fair-k", **kwargs):
    w = np.random.default_rng(1).normal(size=D).astype(np.float32)
    return Server(w, make_policy(policy, D, K, rng=np.random.default_rng(2), **kwargs), ETA, mode)


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
    for gradient in np.random.default_rng(5).normal(size=(30, D)).astype(np.float32):
        naive.update(gradient, set(server.selected.tolist()))
        server.update(gradient[server.selected])
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
    server.update(np.full(D, 2.0, np.float32))
    before, fresh = server.w.copy(), server.selected.copy()
    server.update(np.zeros(K, np.float32))
    moved = before - server.w
    assert np.allclose(moved[fresh], 0)
    assert np.allclose(np.delete(moved, fresh), 2 * ETA)


def test_one_bit_applies_the_sign_and_keeps_the_soft_vote():
    server = make_server("onebit")
    votes = np.linspace(-3, 3, D, dtype=np.float32)
    before = server.w.copy()
    server.update(votes)
    np.testing.assert_allclose(before - server.w, ETA * np.sign(votes), atol=1e-6)
    np.testing.assert_array_equal(server.g, votes)


def test_skipped_round_keeps_the_model_and_ages_it():
    server = make_server()
    server.update(np.ones(D, np.float32))
    w, g, age, selected = server.w.copy(), server.g.copy(), server.age.copy(), server.selected.copy()
    server.skip()
    np.testing.assert_array_equal(server.w, w)
    np.testing.assert_array_equal(server.g, g)
    np.testing.assert_array_equal(server.age, age + 1)
    np.testing.assert_array_equal(server.selected, selected)


def test_round_robin_refreshes_every_entry_in_ceil_d_over_k_rounds():
    server, period = make_server(policy="round-robin"), -(-D // K)
    server.update(np.ones(D, np.float32))
    for _ in range(3 * period):
        server.update(np.ones(K, np.float32))
        assert server.age.max() < period
    assert server.times_sent.min() >= 1 + 3


@pytest.mark.parametrize("received", [np.ones(D - 1, np.float32), np.full(D, np.nan, np.float32)])
def test_what_cannot_be_received_is_refused(received):
    with pytest.raises(ValueError, match=f"received must hold {D} finite values"):
        make_server().update(received)


def test_arrays_restore_the_server():
    server, other = make_server(), make_server()
    for k in (D, K, K):
        server.update(np.arange(k, dtype=np.float32))
    other.load_arrays(server.arrays())
    other.policy.load_state(server.policy.state())
    for one in (server, other):
        one.update(np.arange(K, dtype=np.float32))
    for name, array in server.arrays().items():
        np.testing.assert_array_equal(other.arrays()[name], array)


def test_arrays_of_another_model_are_refused():
    arrays = make_server().arrays()
    with pytest.raises(ValueError, match="age must be int32"):
        make_server().load_arrays({**arrays, "age": np.zeros(D + 1, np.int32)})
