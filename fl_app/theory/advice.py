# SPDX-License-Identifier: GPL-3.0-or-later
"""Recommend k_M/k and H for a config, from a short trial of it, and say why.

k_M/k: the ratio with the least bound of the memory's error, from noise that adds up and from old values, as the policy
adaptive-k measures and computes it (``fl_app.core.adaptive``). H: the number of local steps with the least bound of
Theorem 1, with constants from a short trajectory.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from fl_app.air.make import make_air
from fl_app.config import ConfigError, Settings
from fl_app.core.adaptive import RATIOS, AdaptiveK, Repeats, mean_age_of_turns, noise_gains
from fl_app.runs.callbacks import CallbackList
from fl_app.runs.run import Run
from fl_app.theory.convergence import bound_terms
from fl_app.theory.measured import ExchangeMeter, MeasuredExchange
from fl_app.theory.observed import ObservedAir
from fl_app.theory.plan import mean_age_of, problem_of
from fl_app.theory.trajectory import estimate

LOCAL_STEPS = (1, 2, 5, 10, 20)


def advise(
    settings: Settings, trial: int = 10, samples: int = 100, on_round: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Return recommendations with their reasons, as JSON values.

    Parameters
    ----------
    settings : Settings
        The config to advise on; its air must give payloads to the server's process, as simulated airs do.
    trial : int
        Rounds of the trial, at least 4.
    samples : int
        Samples of each client for a gradient, at most.
    on_round : callable
        Called after each round of the trial.
    """
    if trial < 4:
        raise ConfigError(f"--trial must be at least 4 rounds, got {trial}")
    observed, exchange, repeats = _try_out(settings, trial, on_round)
    signal, air, batches = (
        math.sqrt(power) for power in (observed.gradient_power, observed.air_noise_power, observed.batch_noise_power)
    )
    rho = exchange.k / exchange.d
    ratios = _ratios(repeats, rho) if rho <= 0.5 else []
    best = min(ratios, key=lambda one: one["error"]) if ratios else None
    mean_age = mean_age_of(settings, exchange.d, exchange.p1) if rho <= 0.5 else exchange.mean_aou
    steps = _steps(settings, mean_age, air, samples) if settings.air.scheme.scaled else []
    chosen = min(steps, key=lambda one: one["bound"]) if steps else None
    return {
        "gradient_rms": signal,
        "air_noise_rms": air,
        "batch_noise_rms": batches,
        "s": repeats.s,
        "exchanged": exchange.p1,
        "entry_bias": exchange.entry_bias,
        "air_seconds_per_round": observed.air_seconds,
        "k_m_ratio": None if best is None else best["k_m_ratio"],
        "H": None if chosen is None else chosen["H"],
        "ratios": ratios,
        "steps": steps,
        "reasons": _reasons(settings, repeats.s, best, chosen, mean_age, observed.air_seconds),
    }


def _try_out(
    settings: Settings, trial: int, on_round: Callable[[], None]
) -> tuple[ObservedAir, MeasuredExchange, Repeats]:
    own = settings.with_values(
        run={"rounds": trial, "eval_every": trial, "workers": 0}, selection={"policy": AdaptiveK.name}
    )
    air = make_air(own.air, own.clients.n, own.run.seed, own.radios, own.link.min_clients)
    observed, meter = ObservedAir(air), ExchangeMeter()
    run = Run(own, air=observed, callbacks=CallbackList([meter, lambda _run, _row: on_round()]))
    observed.server = run.server
    for _row in run.rounds(trial):
        pass
    policy = run.server.policy
    assert isinstance(policy, AdaptiveK)
    return observed, meter.result(), policy.repeats


def _ratios(repeats: Repeats, rho: float) -> list[dict[str, Any]]:
    columns = zip(RATIOS, noise_gains(repeats.s, rho), repeats.captured, repeats.errors(rho), strict=True)
    return [
        {
            "k_m_ratio": ratio,
            "noise_gain": gain,
            "captured": float(captured),
            "mean_age": mean_age_of_turns(ratio, rho),
            "error": float(error),
        }
        for ratio, gain, captured, error in columns
    ]


def _steps(settings: Settings, mean_age: float, air_noise: float, samples: int) -> list[dict[str, Any]]:
    constants = estimate(settings, rounds=2, samples=samples)
    problem = problem_of(settings, constants, mean_age, noise_std=air_noise * settings.clients.n)
    found = []
    for h in LOCAL_STEPS:
        terms = bound_terms(dataclasses.replace(problem, local_steps=h))
        largest = max(terms, key=lambda name: terms[name])
        found.append({"H": h, "bound": sum(terms.values()), "dominates": largest})
    return found


def _reasons(
    settings: Settings,
    s: float,
    best: dict[str, Any] | None,
    chosen: dict[str, Any] | None,
    mean_age: float,
    air_seconds: float,
) -> list[str]:
    """Return the reasons in sentences."""
    lines = []
    if best is None:
        lines.append("k_M/k: more than half of the entries are sent, so the ratio hardly matters")
    else:
        lines.append(
            f"k_M/k = {best['k_m_ratio']:g}: with gradient entries of s = {s:.3g} times their noise, noise adds up to "
            f"{best['noise_gain']:.3g} times that of sending all entries; {100 * best['captured']:.0f} % of the "
            f"gradient's power stay fresh, and the mean age is {best['mean_age']:.3g} rounds"
        )
    lines.append(f"the mean age of an entry is {mean_age:.2f} rounds with the config's own k_M/k")
    if chosen is None:
        lines.append(f"H: Theorem 1 is about gradients, not about the signs that {settings.air.mode} carries")
    else:
        lines.append(
            f"H = {chosen['H']}: the bound of Theorem 1 is least there, and its largest term is {chosen['dominates']}"
        )
    lines.append(f"a round takes {1e3 * air_seconds:.3g} ms on the air")
    return lines
