# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the server's part of Algorithm 1: the gradient memory g, the model w, the age A and the selection S.

The state is plain arrays, without torch and without radio. One call of `update` is lines 6 to 10 of Algorithm 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.ages import Ages
from fl_app.core.selection import Policy
from fl_app.core.steps.schedules import RateSchedule
from fl_app.core.steps.server_step import STEP_PREFIX, ServerStep
from oac_blocks.dsp.waveform.schemes import Scheme, scheme_named


class Server:
    """Hold w_t, g_{t-1}, A_t and S_t between two rounds.

    Parameters
    ----------
    w
        The first weights.
    policy
        Selects the entries of the next round.
    schedule
        Gives the global learning rate of each round.
    scheme
        Says which direction the model moves against, given g.
    step
        Moves the model against that direction, and holds what its optimizer remembers.
    """

    def __init__(
        self,
        w: NDArray[np.float32],
        policy: Policy,
        schedule: RateSchedule,
        scheme: Scheme | str,
        step: ServerStep,
    ) -> None:
        if w.ndim != 1 or w.size != policy.d:
            raise ValueError(f"w must have the policy's {policy.d} entries, not shape {w.shape}")
        d = w.size
        self.policy, self.schedule, self.step = policy, schedule, step
        self.scheme = scheme_named(scheme) if isinstance(scheme, str) else scheme
        self.w: NDArray[np.float32] = w.astype(np.float32)
        self.g: NDArray[np.float32] = np.zeros(d, np.float32)
        self.ages = Ages.zeros(d)
        self.selected: NDArray[np.int64] = np.arange(d)  # S_0 is all ones
        self.times_sent: NDArray[np.int32] = np.zeros(d, np.int32)
        self.updates = 0  # rounds with an update since this object was made; a skipped round does not count
        self.rate = 0.0  # learning rate of the last update

    @property
    def d(self) -> int:
        return int(self.w.size)

    @property
    def age(self) -> NDArray[np.int32]:
        """A_t as an array of its own; `ages` has its mean and maximum at no cost."""
        return self.ages.array()

    def update(self, received: NDArray[np.float32], t: int) -> None:
        """Take the values that the air delivered for the selected entries in round t, and go on to the next round."""
        if received.shape != self.selected.shape or not np.isfinite(received).all():
            raise ValueError(f"received must hold {self.selected.size} finite values, not shape {received.shape}")
        # g_t is fresh where S_t = 1. Elsewhere the older value stays, and the step applies it once more, except with
        # error feedback.
        self.g[self.selected] = received
        self.rate = self.schedule.rate(t)
        self.w = self.step.move(self.w, self.scheme.direction(self.g), self.selected, self.rate)
        # The policy takes A_{t+1}: with A_t it would select the entries again that were just refreshed.
        self.ages.update(self.selected)
        self.times_sent[self.selected] += 1
        self.selected = self.policy.pick(self.g, self.ages)
        self.updates += 1

    def receive(self, received: NDArray[np.float32] | None, t: int) -> bool:
        """Update with the delivered values; skip the round if they are None or not finite. Return if they were used."""
        if received is None or not np.isfinite(received).all():
            self.skip()
            return False
        self.update(received, t)
        return True

    def skip(self) -> None:
        """Go on after a round without an update: model and selection stay, and each entry is a round older."""
        self.ages.skip()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a checkpoint keeps, besides the policy's state."""
        return {
            "w": self.w,
            "g": self.g,
            "age": self.age,
            "selected": self.selected,
            "times_sent": self.times_sent,
            **{STEP_PREFIX + name: array for name, array in self.step.arrays().items()},
        }

    def load_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restore the state that `arrays` returned; nothing changes if an array is missing or does not fit."""
        for name, array in self.arrays().items():
            if name.startswith(STEP_PREFIX):
                continue  # the step checks its own
            given = arrays[name]
            if given.dtype != array.dtype or (name != "selected" and given.shape != array.shape):
                raise ValueError(
                    f"{name} must be {array.dtype} of shape {array.shape}, not {given.dtype} {given.shape}"
                )
        self.step.load_arrays(
            {name.removeprefix(STEP_PREFIX): array for name, array in arrays.items() if name.startswith(STEP_PREFIX)}
        )
        self.w, self.g, self.ages = arrays["w"].copy(), arrays["g"].copy(), Ages(arrays["age"])
        self.selected, self.times_sent = arrays["selected"].copy(), arrays["times_sent"].copy()
