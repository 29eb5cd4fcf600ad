# SPDX-License-Identifier: GPL-3.0-or-later
"""Which k of the d gradient entries go over the air in the next round: FAIR-k and its rivals.

Notation as in the paper: g is the server's gradient memory g_t, age the age of update. The age given to a policy
is A_{t+1}, the one *after* round t: with A_t the entries that were just refreshed would be picked once more.

    policy = make_policy("fair-k", d, k, rng=rng)
    selected = np.arange(d)                      # S_0 is all ones
    age = update_age(np.zeros(d, np.int32), selected)
    selected = policy.next(g, age)               # S_1: k sorted indices

Among equals the choice is made at random from the policy's own generator: index order would refresh the model one
layer at a time. Nothing is sorted; a round costs O(d).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.names import canonical
from oac_blocks.dsp.checks import generator, integer

POLICY_NAMES = ("fair-k", "top-k", "age-top-k", "top-rand", "round-robin", "rand-k", "dense")

Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]

MAGNITUDE_SHARE = 0.75  # k_M / k of FAIR-k and TopRand in the paper's experiments
CANDIDATE_RATIO = 1.5  # r / k of AgeTop-k in the paper's experiments


def update_age(age: NDArray[Any], selected: NDArray[Any]) -> NDArray[Any]:
    """A_{t+1} = (A_t + 1)(1 - S_t): one round older, and zero where the entry was sent.

    `selected` holds the indices where S_t = 1, or S_t itself as booleans. Returns a new array of age's type.
    """
    age, selected = np.asarray(age), np.asarray(selected)
    if age.ndim != 1 or age.dtype.kind not in "iu":
        raise ValueError(f"age must be a vector of integers, not {age.dtype} of shape {age.shape}")
    if age.size and age.max() == np.iinfo(age.dtype).max:
        raise ValueError(f"age {age.max()} cannot grow in {age.dtype}; use a wider integer type")
    if selected.dtype == np.bool_:
        if selected.shape != age.shape:
            raise ValueError(f"selected has shape {selected.shape}, age has {age.shape}")
    elif selected.size and (selected.dtype.kind not in "iu" or selected.min() < 0 or selected.max() >= age.size):
        raise ValueError(f"selected must hold indices in 0..{age.size - 1}, or {age.size} booleans")
    older = age + age.dtype.type(1)
    older[selected if selected.size else slice(0, 0)] = 0
    return older


def top_mask(values: NDArray[Any], count: int, rng: np.random.Generator) -> Mask:
    """Mark the `count` largest values. Where the last places are contested by equals, each has the same chance."""
    if count == 0:
        return np.zeros(values.size, np.bool_)
    if count == values.size:
        return np.ones(values.size, np.bool_)
    threshold = np.partition(values, values.size - count)[values.size - count]
    marked = values > threshold
    tied = np.flatnonzero(values == threshold)
    places = count - np.count_nonzero(marked)
    marked[_draw(tied, places, rng)] = True
    return marked


def oldest_mask(age: NDArray[Any], count: int, rng: np.random.Generator, taken: Mask | None = None) -> Mask:
    """Mark the `count` oldest of those not taken yet, equals at random. Ages are small integers: counting suffices."""
    if count == 0:
        return np.zeros(age.size, np.bool_)
    if age.max() > age.size:
        age = np.unique(age, return_inverse=True)[1]  # same order, and counting stays O(d) for any age
    with_age = np.bincount(age)
    if taken is not None:
        with_age -= np.bincount(age[taken], minlength=with_age.size)
    at_least = np.cumsum(with_age[::-1])[::-1]
    threshold = np.flatnonzero(at_least >= count)[-1]
    marked, at_threshold = age > threshold, age == threshold
    if taken is not None:
        marked &= ~taken
        at_threshold &= ~taken
    places = count - (int(at_least[threshold]) - int(with_age[threshold]))
    marked[_draw(np.flatnonzero(at_threshold), places, rng)] = True
    return marked


def _draw(candidates: Indices, count: int, rng: np.random.Generator) -> Indices:
    """`count` different ones of the candidates, every subset equally likely."""
    if count == candidates.size:
        return candidates
    return candidates[rng.choice(candidates.size, count, replace=False, shuffle=False)]


class Policy(ABC):
    """Chooses the k entries of the next round. `next` checks its input, the subclass decides."""

    name: str

    def __init__(self, d: int, k: int, rng: np.random.Generator) -> None:
        self.d, self.k, self.rng = d, k, rng

    def next(self, g: NDArray[Any], age: NDArray[Any]) -> Indices:
        """S_{t+1} from g_t and A_{t+1}: exactly k indices, sorted, none twice."""
        g, age = np.asarray(g), np.asarray(age)
        if g.shape != (self.d,) or g.dtype.kind != "f":
            raise ValueError(f"g must hold {self.d} floating-point values, not {g.dtype} of shape {g.shape}")
        if age.shape != (self.d,) or age.dtype.kind not in "iu":
            raise ValueError(f"age must hold {self.d} integers, not {age.dtype} of shape {age.shape}")
        if age.min() < 0:
            raise ValueError(f"age must not be negative, and is {age.min()} somewhere")
        magnitude = np.abs(g)
        if np.isnan(magnitude).any():
            raise ValueError(f"g has {np.count_nonzero(np.isnan(g))} NaN entries of {self.d}: they cannot be ordered")
        return np.flatnonzero(self._choose(magnitude, age)).astype(np.int64, copy=False)

    @abstractmethod
    def _choose(self, magnitude: NDArray[Any], age: NDArray[Any]) -> Mask:
        """The selection vector as booleans, exactly k of them true."""

    def state(self) -> dict[str, Any]:
        """What a resumed run needs to go on bit for bit; plain numbers, strings and lists, so JSON takes it."""
        return {"name": self.name, "d": self.d, "k": self.k, "rng": _plain(self.rng.bit_generator.state)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state()` was taken. The policy must have been made with the same arguments."""
        for key in ("name", "d", "k"):
            if state[key] != getattr(self, key):
                raise ValueError(
                    f"state is of a policy with {key} = {state[key]!r}, this one has {getattr(self, key)!r}"
                )
        kind, own = state["rng"]["bit_generator"], self.rng.bit_generator.state["bit_generator"]
        if kind != own:
            raise ValueError(f"state is of a {kind} generator, this policy draws from {own}")
        self.rng.bit_generator.state = state["rng"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.d}, k={self.k})"


class FairK(Policy):
    """The k_M largest in magnitude, then the k - k_M oldest of the rest."""

    name = "fair-k"

    def __init__(self, d: int, k: int, rng: np.random.Generator, k_m: int) -> None:
        super().__init__(d, k, rng)
        self.k_m = k_m

    def _choose(self, magnitude: NDArray[Any], age: NDArray[Any]) -> Mask:
        by_magnitude = top_mask(magnitude, self.k_m, self.rng)
        if self.k_m == self.k:
            return by_magnitude
        return by_magnitude | oldest_mask(age, self.k - self.k_m, self.rng, taken=by_magnitude)


class TopK(FairK):
    """The k largest in magnitude (Remark 1: FAIR-k with k_M = k)."""

    name = "top-k"

    def __init__(self, d: int, k: int, rng: np.random.Generator) -> None:
        super().__init__(d, k, rng, k_m=k)


class RoundRobin(FairK):
    """The k oldest (Remark 1: FAIR-k with k_M = 0); every entry has its turn within ceil(d/k) rounds."""

    name = "round-robin"

    def __init__(self, d: int, k: int, rng: np.random.Generator) -> None:
        super().__init__(d, k, rng, k_m=0)


class TopRand(Policy):
    """The k_M largest in magnitude, then k - k_M of the rest, all equally likely."""

    name = "top-rand"

    def __init__(self, d: int, k: int, rng: np.random.Generator, k_m: int) -> None:
        super().__init__(d, k, rng)
        self.k_m = k_m

    def _choose(self, magnitude: NDArray[Any], _age: NDArray[Any]) -> Mask:
        mask = top_mask(magnitude, self.k_m, self.rng)
        mask[_draw(np.flatnonzero(~mask), self.k - self.k_m, self.rng)] = True
        return mask


class AgeTopK(Policy):
    """The r largest in magnitude, and of these the k oldest."""

    name = "age-top-k"

    def __init__(self, d: int, k: int, rng: np.random.Generator, r: int) -> None:
        super().__init__(d, k, rng)
        self.r = r

    def _choose(self, magnitude: NDArray[Any], age: NDArray[Any]) -> Mask:
        candidates = np.flatnonzero(top_mask(magnitude, self.r, self.rng))
        mask = np.zeros(self.d, np.bool_)
        mask[candidates[oldest_mask(age[candidates], self.k, self.rng)]] = True
        return mask


class RandK(Policy):
    """k of the d entries, all equally likely."""

    name = "rand-k"

    def _choose(self, _magnitude: NDArray[Any], _age: NDArray[Any]) -> Mask:
        mask = np.zeros(self.d, np.bool_)
        mask[_draw(np.arange(self.d), self.k, self.rng)] = True
        return mask


class Dense(Policy):
    """All d entries in every round."""

    name = "dense"

    def _choose(self, _magnitude: NDArray[Any], _age: NDArray[Any]) -> Mask:
        return np.ones(self.d, np.bool_)


def canonical_name(name: str) -> str:
    """The policy's name as listed in POLICY_NAMES, from any spelling with other case, hyphens, blanks."""
    return canonical("policy", name, POLICY_NAMES)


def make_policy(
    name: str,
    d: int,
    k: int,
    k_m: int | None = None,
    r: int | None = None,
    rng: np.random.Generator | None = None,
) -> Policy:
    """Make a policy by name.

    d: entries of the model; k: entries per round, 1..d (dense sends all d whatever k is);
    k_m: how many go by magnitude, 0..k, for fair-k and top-rand (default 0.75 k, rounded);
    r: candidates of age-top-k, k..d (default 1.5 k, rounded, at most d);
    rng: where ties and random picks are drawn from (default: a generator of seed 0).
    A policy that has no use for k_m or r ignores it, so that all can be made from one configuration.
    """
    name = canonical_name(name)
    d = integer("d", d, 1)
    k = d if name == "dense" else integer("k", k, 1, d)
    rng = np.random.default_rng(0) if rng is None else generator("rng", rng)
    if name in ("fair-k", "top-rand"):
        k_m = round(MAGNITUDE_SHARE * k) if k_m is None else integer("k_m", k_m, 0, k)
        return FairK(d, k, rng, k_m) if name == "fair-k" else TopRand(d, k, rng, k_m)
    if name == "age-top-k":
        r = min(d, round(CANDIDATE_RATIO * k)) if r is None else integer("r", r, k, d)
        return AgeTopK(d, k, rng, r)
    plain: dict[str, type[TopK] | type[RoundRobin] | type[RandK] | type[Dense]]
    plain = {"top-k": TopK, "round-robin": RoundRobin, "rand-k": RandK, "dense": Dense}
    return plain[name](d, k, rng)


def _plain(value: Any) -> Any:
    """A bit generator's state without numpy types: some of them (Philox, MT19937) keep arrays."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value
