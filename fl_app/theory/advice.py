# SPDX-License-Identifier: GPL-3.0-or-later
"""Recommend k_M/k and H for a config, from a short trial of it, and say why.

k_M/k: the ratio with the least accumulated noise, by the closed form of ``accumulation`` at the measured ratio of
gradient to noise per entry. It knows noise alone. H: the number of local steps with the least bound of Theorem 1, with
constants from a short trajectory.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from fl_app.air.make import make_air
from fl_app.config import ConfigError, Settings
from fl_app.runs.callbacks import CallbackList
from fl_app.runs.run import Run
from fl_app.theory.accumulation import Setting, noise_gain
from fl_app.theory.convergence import bound_terms
from fl_app.theory.measured import ExchangeMeter, MeasuredExchange
from fl_app.theory.observed import ObservedAir
from fl_app.theory.plan import mean_age_of, problem_of
from fl_app.theory.trajectory import estimate

RATIOS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
LOCAL_STEPS = (1, 2, 5, 10, 20)
_STUDENT_RMS = math.sqrt(3)  # RMS of a Student-t(3) variable, in which the theory of noise measures gradients


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
    observed, exchange = _try_out(settings, trial, on_round)
    signal, air, batches = (
        math.sqrt(power) for power in (observed.gradient_power, observed.air_noise_power, observed.batch_noise_power)
    )
    noise = math.hypot(air, batches)
    s = signal / (noise * _STUDENT_RMS) if noise else math.inf
    rho = exchange.k / exchange.d
    ratios = _ratios(settings, exchange, s, rho) if math.isfinite(s) and rho <= 0.5 else []
    best = min(ratios, key=lambda one: one["noise_gain"]) if ratios else None
    mean_age = mean_age_of(settings, exchange.d, exchange.p1) if rho <= 0.5 else exchange.mean_aou
    steps = _steps(settings, mean_age, air, samples) if settings.air.scheme.scaled else []
    chosen = min(steps, key=lambda one: one["bound"]) if steps else None
    return {
        "gradient_rms": signal,
        "air_noise_rms": air,
        "batch_noise_rms": batches,
        "s": s if math.isfinite(s) else None,
        "exchanged": exchange.p1,
        "entry_bias": exchange.entry_bias,
        "air_seconds_per_round": observed.air_seconds,
        "k_m_ratio": None if best is None else best["k_m_ratio"],
        "H": None if chosen is None else chosen["H"],
        "ratios": ratios,
        "steps": steps,
        "reasons": _reasons(settings, s, best, chosen, mean_age, observed.air_seconds),
    }


def _try_out(settings: Settings, trial: int, on_round: Callable[[], None]) -> tuple[ObservedAir, MeasuredExchange]:
    own = settings.with_values(run={"rounds": trial, "eval_every": trial, "workers": 0})
    air = make_air(own.air, own.clients.n, own.run.seed, own.radios, own.link.min_clients)
    observed, meter = ObservedAir(air), ExchangeMeter()
    run = Run(own, air=observed, callbacks=CallbackList([meter, lambda _run, _row: on_round()]))
    observed.server = run.server
    for _row in run.rounds(trial):
        pass
    return observed, meter.result()


def _ratios(settings: Settings, exchange: MeasuredExchange, s: float, rho: float) -> list[dict[str, Any]]:
    found = []
    for ratio in RATIOS:
        gain = noise_gain("fair-k", Setting(s, rho, ratio, settings.run.rounds))
        chosen = settings.with_values(selection={"policy": "fair-k", "k_m_ratio": ratio})
        age = mean_age_of(chosen, exchange.d, exchange.p1)
        found.append({"k_m_ratio": ratio, "noise_gain": gain.total, "coherent": gain.coherent, "mean_age": age})
    return found


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
        lines.append(
            "k_M/k: there is no noise, or more than half of the entries are sent, so the ratio does not matter"
        )
    else:
        lines.append(
            f"k_M/k = {best['k_m_ratio']:g}: with gradient entries of s = {s:.3g} times their noise it accumulates the "
            f"least noise over {settings.run.rounds} rounds, {best['noise_gain']:.3g} times that of sending all entries"
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
