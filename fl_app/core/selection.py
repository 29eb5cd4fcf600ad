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

from fl_app.core.ages import COMPILED_FROM, Ages
from fl_app.core.catalog import POLICIES
from fl_app.core.pools.arrays import ArrayPool, Indices, Mask
from fl_app.core.pools.pool import Pool
from oac_blocks.dsp.checks import generator, integer
from oac_blocks.plugins import OWN, PluginError, call, is_factory

POLICY_NAMES = tuple(offer.name for offer in POLICIES.offers() if offer.origin == OWN)

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
        self._check(g, age)
        pool = ArrayPool(g, age, self.rng)
        return pool.indices(self._choose(pool.magnitude, age))

    def pick(self, g: NDArray[Any], ages: Ages) -> Indices:
        """Return what `next` returns, for ages as the server keeps them."""
        return self.next(g, ages.array())

    def _check(self, g: Any, age: Any) -> None:
        """Raise ValueError unless g holds d floating-point values, and age d integers."""
        if g.shape != (self.d,) or g.dtype.kind != "f":
            raise ValueError(f"g must hold {self.d} floating-point values, not {g.dtype} of shape {g.shape}")
        if age.shape != (self.d,) or age.dtype.kind not in "iu":
            raise ValueError(f"age must hold {self.d} integers, not {age.dtype} of shape {age.shape}")

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


class PoolPolicy(Policy):
    """Select entries by asking a pool for the largest, the oldest or random ones.

    Pools differ in how they compute: small models take numpy, large ones compiled loops, tensors torch. A subclass that
    has `next` or `_choose` of its own is asked by these.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "next" in cls.__dict__ or "_choose" in cls.__dict__:
            cls.pick = Policy.pick  # type: ignore[method-assign]
        if "_choose" in cls.__dict__ and "next" not in cls.__dict__:
            cls.next = Policy.next  # type: ignore[method-assign]

    @abstractmethod
    def _take(self, pool: Pool) -> Any:
        """Return the mask of the k entries."""

    def next(self, g: Any, age: Any) -> Any:
        """Return S_{t+1} from g_t and A_{t+1}: exactly k different indices, sorted. Tensors give a tensor."""
        if type(g).__module__ == "torch":
            from fl_app.core.pools.tensors import TensorPool

            pool: Pool = TensorPool(g, age, self.rng, self.d)
            return pool.indices(self._take(pool))
        g, age = np.asarray(g), np.asarray(age)
        self._check(g, age)
        if self.d >= COMPILED_FROM and g.dtype.isnative and age.dtype.isnative and g.itemsize <= 8:
            from fl_app.core.pools.bits import BitPool

            pool = BitPool(g, age, self.rng)
        else:
            pool = ArrayPool(g, age, self.rng)
        return pool.indices(self._take(pool))

    def pick(self, g: NDArray[Any], ages: Ages) -> Indices:
        if self.d < COMPILED_FROM:
            return super().pick(g, ages)
        from fl_app.core.pools.bits import BitPool

        pool = BitPool(g, ages, self.rng)
        return pool.indices(self._take(pool))

    def _choose(self, magnitude: NDArray[Any], age: NDArray[Any]) -> Mask:
        return np.asarray(self._take(ArrayPool(magnitude, age, self.rng)))


class FairK(PoolPolicy):
    """Select the k_M entries of largest magnitude, then the k - k_M oldest of the others."""

    name = "fair-k"

    def __init__(self, d: int, k: int, rng: np.random.Generator, k_m: int) -> None:
        super().__init__(d, k, rng)
        self.k_m = integer("k_m", k_m, 0, k)

    def _take(self, pool: Pool) -> Any:
        by_magnitude = pool.largest(self.k_m)
        return by_magnitude | pool.oldest(self.k - self.k_m, pool.others(by_magnitude))


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


class TopRand(PoolPolicy):
    """Select the k_M entries of largest magnitude, then k - k_M of the others at random."""

    name = "top-rand"

    def __init__(self, d: int, k: int, rng: np.random.Generator, k_m: int) -> None:
        super().__init__(d, k, rng)
        self.k_m = integer("k_m", k_m, 0, k)

    def _take(self, pool: Pool) -> Any:
        by_magnitude = pool.largest(self.k_m)
        return by_magnitude | pool.random(self.k - self.k_m, pool.others(by_magnitude))


class AgeTopK(PoolPolicy):
    """Select the k oldest of the r entries of largest magnitude."""

    name = "age-top-k"

    def __init__(self, d: int, k: int, rng: np.random.Generator, r: int) -> None:
        super().__init__(d, k, rng)
        self.r = integer("r", r, k, d)

    def _take(self, pool: Pool) -> Any:
        return pool.oldest(self.k, pool.largest(self.r))


class RandK(PoolPolicy):
    """Select k of the d entries at random, all with equal probability."""

    name = "rand-k"

    def _take(self, pool: Pool) -> Any:
        return pool.random(self.k, pool.everything())


class Dense(PoolPolicy):
    """Select all d entries in every round."""

    name = "dense"

    def _take(self, pool: Pool) -> Any:
        return pool.everything()


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
