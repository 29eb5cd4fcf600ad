# SPDX-License-Identifier: GPL-3.0-or-later
"""Define what the paper's experiments train at each scale: smoke proves the path, cpu answers, paper is the paper's.

CIFAR-100 and EMNIST take part at the scale ``paper`` only. At ``cpu``, FashionMNIST and the letters stand in for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from fl_app.config import Settings, load_settings


class Scale(StrEnum):
    """Name how much is computed."""

    SMOKE = "smoke"
    CPU = "cpu"
    PAPER = "paper"


@dataclass(frozen=True)
class TrialSettings:
    """Describe one setting of the simulations that policies are compared in.

    Attributes
    ----------
    title
        What it is, for people.
    config
        Config that it begins from.
    changes
        Changes of the config, as --set takes them.
    """

    title: str
    config: str
    changes: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        """Return the title as the name of a folder."""
        return re.sub(r"[^a-z0-9.]+", "-", self.title.lower()).strip("-.")

    def settings(self, extra: tuple[str, ...] = ()) -> Settings:
        """Return the settings, with further changes."""
        return load_settings(self.config, [*self.changes, *extra])


SEEDS = {Scale.SMOKE: (1,), Scale.CPU: (1, 2, 3), Scale.PAPER: (1, 2, 3)}

_SMOKE = (
    *("data.name=letters", "data.limit=60", "data.test_limit=50", "model.args={width = 4}"),
    *("run.rounds=3", "run.eval_every=2", "clients.n=2", "clients.H=1", "clients.batch_size=5"),
)
# A sixty-fourth of ResNet-18's entries, with noise as large against the gradient, per entry, as at full size:
# docs/results/paper.md has both ratios.
_CPU = (
    *("model.args={width = 8}", "air.noise_std=0.86", "server.lr=0.1", "data.test_limit=2000"),
    *("run.rounds=200", "run.eval_every=10", "run.checkpoint_every=10", "clients.batch_size=10"),
)
_DIRICHLET = ("data.partition=dirichlet", "data.alpha=0.3")


def simulations(scale: Scale) -> list[TrialSettings]:
    """Return the settings of Fig. 4: data sets, i.i.d. and Dirichlet 0.3."""
    if scale is Scale.SMOKE:
        return [TrialSettings("letters, Dirichlet 0.3", "cifar10-small", (*_SMOKE, *_DIRICHLET))]
    parts = (("i.i.d.", ("data.partition=iid",)), ("Dirichlet 0.3", _DIRICHLET))
    if scale is Scale.CPU:
        return [
            TrialSettings("CIFAR-10, Dirichlet 0.3", "cifar10-small", (*_CPU, *_DIRICHLET)),
            TrialSettings("CIFAR-10, i.i.d.", "cifar10-small", (*_CPU, "data.partition=iid")),
            TrialSettings(
                "FashionMNIST, Dirichlet 0.3", "cifar10-small", (*_CPU, *_DIRICHLET, "data.name=fashion-mnist")
            ),
        ]
    return [
        TrialSettings(f"{title}, {name}", "cifar10-noniid", (f"data.name={data}", *changes))
        for title, data in (("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100"))
        for name, changes in parts
    ]


def uneven_simulation(scale: Scale) -> TrialSettings:
    """Return the setting of Fig. 5 to 7: CIFAR-10 with Dirichlet 0.3, or what stands in for it."""
    return next(trial for trial in simulations(scale) if "Dirichlet" in trial.title)


def prototype(scale: Scale) -> TrialSettings:
    """Return the setting of Fig. 9: two clients, one bit, the waveform air."""
    if scale is Scale.SMOKE:
        small = ("data.limit=60", "data.test_limit=50", "run.rounds=3", "run.eval_every=2", "clients.H=1")
        return TrialSettings("letters, N = 2, one bit", "prototype", ("data.name=letters", *small))
    if scale is Scale.CPU:
        return TrialSettings("letters, N = 2, one bit", "prototype", ("data.name=letters", "run.rounds=160"))
    return TrialSettings("EMNIST letters, N = 2, one bit", "prototype")


def table_settings(scale: Scale) -> list[tuple[str, float, TrialSettings]]:
    """Return the rows of Table I: name of the data set, Dirichlet parameter, setting."""
    base = uneven_simulation(scale)
    alphas = (0.1, 1.0) if scale is Scale.SMOKE else (0.1, 0.3, 0.5, 1.0)
    sets = {
        Scale.SMOKE: (("letters", "letters"),),
        Scale.CPU: (("CIFAR-10", "cifar10"), ("FashionMNIST", "fashion-mnist")),
        Scale.PAPER: (("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100")),
    }[scale]
    return [
        (
            title,
            alpha,
            TrialSettings(
                f"{title}, Dirichlet {alpha:g}",
                base.config,
                (*base.changes, f"data.name={name}", f"data.alpha={alpha}"),
            ),
        )
        for title, name in sets
        for alpha in alphas
    ]
