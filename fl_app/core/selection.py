# SPDX-License-Identifier: GPL-3.0-or-later
"""Select the k of the d gradient entries that go over the air in the next round: FAIR-k and its rivals.

The notation is the paper's: g is the server's gradient memory g_t, and age is the age of update. A policy takes the
age A_{t+1}, *after* round t: with A_t it would select the entries again that were just refreshed.

    policy = make_policy("fair-k", d, k, rng=rng)
    selected = np.arange(d)                      # S_0 is all ones
    age = update_age(np.zeros(d, np.int32), selected)
    selected = policy.next(g, age)               # S_1: k sorted indices

The policy breaks ties at random with its own generator: the order of the indices would refresh the model one layer
at a time. No policy sorts; a round costs O(d).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.catalog import POLICIES
from oac_blocks.dsp.checks import generator, integer
from oac_blocks.plugins import OWN, PluginError, call, is_factory

POLICY_NAMES = tuple(offer.name for offer in POLICIES.offers() if offer.origin == OWN)

Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]

MAGNITUDE_SHARE = 0.75  # k_M / k of FAIR-k and TopRand in the paper's experiments
CANDIDATE_RATIO = 1.5  # r / k of AgeTop-k in the paper's experiments


def update_age(age: NDArray[Any], selected: NDArray[Any]) -> NDArray[Any]:
    """Return A_{t+1} = (A_t + 1)(1 - S_t): each entry is one round older, and a sent entry has age 0.

    `selected` holds the indices where S_t = 1, or S_t itself as booleans. The result is a new array of age's type.
    """
    age, selected = np.asarray(age), np.asarray(selected)
    if age.ndim != 1 or age.dtype.kind not in "iu":
        raise ValueError(f"age must be a vector of integers, not {age.dtype} of shape {age.shape}")
    if age.size and age.max() == np.iinfo(age.dtype).max:
        raise ValueError(f"age {age.max()} cannot grow in {age.dtype}; use a wider integer type")
    if selected.dtype == np.bool_:
        if selected.shape != age.shape:
            raise ValueError(f"selected must have the shape of age, {age.shape}, not {selected.shape}")
    elif selected.size and (selected.dtype.kind not in "iu" or selected.min() < 0 or selected.max() >= age.size):
        raise ValueError(f"selected must hold indices in 0..{age.size - 1}, or {age.size} booleans")
    older = age + age.dtype.type(1)
    older[selected if selected.size else slice(0, 0)] = 0
    return older


def top_mask(values: NDArray[Any], count: int, rng: np.random.Generator) -> Mask:
    """Mark the `count` largest values; equal values at the threshold have equal chances."""
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
    """Mark the `count` oldest entries that are not taken; equal ages have equal chances.

    Ages are small integers, so that counting suffices and no sort is needed.
    """
    if count == 0:
        return np.zeros(age.size, np.bool_)
    if age.max() > age.size:
        age = np.unique(age, return_inverse=True)[1]  # same order as before, and counting stays O(d) for any age
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
    """Draw `count` different candidates; every subset has the same probability."""
    if count == candidates.size:
        return candidates
    return candidates[rng.choice(candidates.size, count, replace=False, shuffle=False)]


class Policy(ABC):
    """Select the k entries of the next round. `next` checks its input, and the subclass makes the choice.

    A policy need not be a subclass: any object with ``next(g, age)`` will do.

    Examples
    --------
    >>> class Smallest(oac.Policy):
    ...     name = "smallest"
    ...     def _choose(self, magnitude, age):
    ...         return np.argsort(np.argsort(magnitude)) < self.k
    >>> policy = Smallest(d=4, k=2, rng=np.random.default_rng(1))
    >>> policy.next(np.array([0.3, -0.1, 2.0, -0.2]), np.zeros(4, int))
    array([1, 3])
    """

    name: str

    def __init__(self, d: int, k: int, rng: np.random.Generator) -> None:
        self.d, self.k, self.rng = d, k, rng

    def next(self, g: NDArray[Any], age: NDArray[Any]) -> Indices:
        """Return S_{t+1} from g_t and A_{t+1}: exactly k different indices, sorted."""
        g, age = np.asarray(g), np.asarray(age)
        if g.shape != (self.d,) or g.dtype.kind != "f":
            raise ValueError(f"g must hold {self.d} floating-point values, not {g.dtype} of shape {g.shape}")
        if age.shape != (self.d,) or age.dtype.kind not in "iu":
            raise ValueError(f"age must hold {self.d} integers, not {age.dtype} of shape {age.shape}")
        if age.min() < 0:
            raise ValueError(f"age must not be negative, but its smallest entry is {age.min()}")
        magnitude = np.abs(g)
        if np.isnan(magnitude).any():
            raise ValueError(f"g has {np.count_nonzero(np.isnan(g))} NaN entries of {self.d}: they cannot be ordered")
        return np.flatnonzero(self._choose(magnitude, age)).astype(np.int64, copy=False)

    @abstractmethod
    def _choose(self, magnitude: NDArray[Any], age: NDArray[Any]) -> Mask:
        """Return the selection vector as booleans, of which exactly k are true."""

    def state(self) -> dict[str, Any]:
        """Return the state from which a resumed run goes on bit for bit, as plain values that JSON can hold."""
        return {"name": self.name, "d": self.d, "k": self.k, "rng": _plain(self.rng.bit_generator.state)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what `state()` returned. The policy must have been made with the same arguments."""
        for key in ("name", "d", "k"):
            if state[key] != getattr(self, key):
                raise ValueError(
                    f"state is of a policy with {key} = {state[key]!r}, but this one has {getattr(self, key)!r}"
                )
        kind, own = state["rng"]["bit_generator"], self.rng.bit_generator.state["bit_generator"]
        if kind != own:
            raise ValueError(f"state is of a {kind} generator, but this policy draws from {own}")
        self.rng.bit_generator.state = state["rng"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.d}, k={self.k})"


class FairK(Policy):
    """Select the k_M entries of largest magnitude, then the k - k_M oldest of the others."""

    name = "fair-k"

    def __init__(self, d: int, k: int, rng: np.random.Generator, k_m: int) -> None:
        super().__init__(d, k, rng)
        self.k_m = integer("k_m", k_m, 0, k)

    def _choose(self, magnitude: NDArray[Any], age: NDArray[Any]) -> Mask:
        by_magnitude = top_mask(magnitude, self.k_m, self.rng)
        if self.k_m == self.k:
            return by_magnitude
        return by_magnitude | oldest_mask(age, self.k - self.k_m, self.rng, taken=by_magnitude)


class TopK(FairK):
    """Select the k entries of largest magnitude (Remark 1: FAIR-k with k_M = k)."""

    name = "top-k"

    def __init__(self, d: int, k: int, rng: np.random.Generator) -> None:
        super().__init__(d, k, rng, k_m=k)


class RoundRobin(FairK):
    """Select the k oldest entries (Remark 1: FAIR-k with k_M = 0); each has its turn within ceil(d/k) rounds."""

    name = "round-robin"

    def __init__(self, d: int, k: int, rng: np.random.Generator) -> None:
        super().__init__(d, k, rng, k_m=0)


class TopRand(Policy):
    """Select the k_M entries of largest magnitude, then k - k_M of the others at random."""

    name = "top-rand"

    def __init__(self, d: int, k: int, rng: np.random.Generator, k_m: int) -> None:
        super().__init__(d, k, rng)
        self.k_m = integer("k_m", k_m, 0, k)

    def _choose(self, magnitude: NDArray[Any], _age: NDArray[Any]) -> Mask:
        mask = top_mask(magnitude, self.k_m, self.rng)
        mask[_draw(np.flatnonzero(~mask), self.k - self.k_m, self.rng)] = True
        return mask


class AgeTopK(Policy):
    """Select the k oldest of the r entries of largest magnitude."""

    name = "age-top-k"

    def __init__(self, d: int, k: int, rng: np.random.Generator, r: int) -> None:
        super().__init__(d, k, rng)
        self.r = integer("r", r, k, d)

    def _choose(self, magnitude: NDArray[Any], age: NDArray[Any]) -> Mask:
        candidates = np.flatnonzero(top_mask(magnitude, self.r, self.rng))
        mask = np.zeros(self.d, np.bool_)
        mask[candidates[oldest_mask(age[candidates], self.k, self.rng)]] = True
        return mask


class RandK(Policy):
    """Select k of the d entries at random, all with equal probability."""

    name = "rand-k"

    def _choose(self, _magnitude: NDArray[Any], _age: NDArray[Any]) -> Mask:
        mask = np.zeros(self.d, np.bool_)
        mask[_draw(np.arange(self.d), self.k, self.rng)] = True
        return mask


class Dense(Policy):
    """Select all d entries in every round."""

    name = "dense"

    def _choose(self, _magnitude: NDArray[Any], _age: NDArray[Any]) -> Mask:
        return np.ones(self.d, np.bool_)


class ForeignPolicy(Policy):
    """Make a policy of an object that has ``next(g, age)`` alone, and check what it returns.

    Its ``next`` returns indices, or d booleans. The number of entries may differ from k, and from round to round. Where
    the object has ``state`` and ``load_state``, a resumed run restores its state.
    """

    def __init__(self, d: int, k: int, rng: np.random.Generator, chooser: Any, name: str) -> None:
        super().__init__(d, k, rng)
        self.chooser, self.name = chooser, name

    def next(self, g: NDArray[Any], age: NDArray[Any]) -> Indices:
        chosen = np.asarray(self.chooser.next(g.copy(), age.copy()))  # copies: the object may change its arguments
        if chosen.dtype == np.bool_ and chosen.shape == (self.d,):
            chosen = np.flatnonzero(chosen)
        fault = ""
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            fault = f"{chosen.dtype} of shape {chosen.shape}"
        elif chosen.size == 0:
            fault = "no index"
        elif chosen.min() < 0 or chosen.max() >= self.d:
            fault = f"indices from {chosen.min()} to {chosen.max()}"
        elif np.unique(chosen).size < chosen.size:
            fault = "an index twice"
        if fault:
            raise PluginError(
                f"the policy {self.name} must return different indices in 0..{self.d - 1}, or {self.d} booleans, "
                f"not {fault}"
            )
        return np.sort(chosen).astype(np.int64)

    def _choose(self, magnitude: NDArray[Any], age: NDArray[Any]) -> Mask:
        raise NotImplementedError("next() asks the object itself")

    def state(self) -> dict[str, Any]:
        own = self.chooser.state() if hasattr(self.chooser, "state") else None
        return {**super().state(), "own": own}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        if hasattr(self.chooser, "load_state"):
            self.chooser.load_state(state["own"])


def canonical_name(name: str) -> str:
    """Return the policy's registered name, or an import string as it is; case, hyphens and blanks do not matter."""
    return POLICIES.canonical(name)


def make_policy(
    name: Any,
    d: int,
    k: int,
    k_m: int | None = None,
    r: int | None = None,
    rng: np.random.Generator | None = None,
    args: Mapping[str, Any] | None = None,
) -> Policy:
    """Make a policy by name, by import string, or of an object that has ``next(g, age)``.

    A policy that does not use k_m or r ignores it, so that one configuration serves all policies.

    Parameters
    ----------
    name
        One of POLICY_NAMES, in any case, with or without hyphens; a name that an installed package offers; an import
        string; a class or function, which gets those of d, k, k_m, r and rng that it has parameters for; or an object.
    d
        Number of entries of the model.
    k
        Number of entries per round, 1..d. The policy "dense" ignores it and sends all d.
    k_m
        Number of entries that fair-k and top-rand select by magnitude, 0..k (default 0.75 k, rounded).
    r
        Number of candidates of age-top-k, k..d (default 1.5 k, rounded, at most d).
    rng
        Generator for ties and random choices (default: a generator with seed 0).
    args
        Further arguments of the policy, as [selection.args] has them.

    Examples
    --------
    >>> policy = oac.make_policy("fair-k", d=6, k=2, k_m=1)
    >>> policy.next(np.array([0.1, -9.0, 0.2, 0.3, 0.4, 0.5]), np.array([1, 0, 7, 1, 1, 1]))
    array([1, 2])
    """
    d = integer("d", d, 1)
    rng = np.random.default_rng(0) if rng is None else generator("rng", rng)
    name = canonical_name(name) if isinstance(name, str) else name
    k = d if name == "dense" else integer("k", k, 1, d)
    k_m = round(MAGNITUDE_SHARE * k) if k_m is None else k_m
    r = min(d, round(CANDIDATE_RATIO * k)) if r is None else r
    title, made = name if isinstance(name, str) else getattr(name, "__name__", type(name).__name__), name
    if isinstance(name, str):
        try:
            made = POLICIES.load(name)
        except PluginError as error:
            raise PluginError(f"[selection] policy = {error}") from None
    if is_factory(made, "next"):
        facts = {"d": d, "k": k, "k_m": k_m, "r": r, "rng": rng}
        made = call(made, f"[selection] policy = {title!r}", args or {}, facts)
    if isinstance(made, Policy):
        if made.d != d:
            raise PluginError(f"[selection] policy = {title!r} is made for d = {made.d}, but the model has {d}")
        return made
    if not callable(getattr(made, "next", None)):
        raise PluginError(f"[selection] policy = {title!r}: {type(made).__name__} has no method next(g, age)")
    return ForeignPolicy(d, k, rng, made, title)


def _plain(value: Any) -> Any:
    """Return a bit generator's state without numpy types; Philox and MT19937, for example, keep arrays in it."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value
