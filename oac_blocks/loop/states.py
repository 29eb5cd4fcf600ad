# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the inputs and outputs of the calibration loop: settings, measurements, orders and the states of a client.

Offsets and corrections are in samples, as in ``docs/rounds.md``. An offset is the measured minus the nominal arrival
time; positive is late. A correction is absolute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.waveform.round_layout import KINDS, Kind

State = Literal["uncalibrated", "acquiring", "fine", "tracking"]
STATES: tuple[State, ...] = get_args(State)
Mode = Literal["payload", "acquire", "silent"]
Sent = Literal["payload", "sync", "acquire"]


@dataclass(frozen=True)
class LoopSettings:
    """Settings of the loop. Only ``turnaround_samples`` depends on the layout of a round."""

    turnaround_samples: float = 131_072.0  # samples from the trigger to the answer, over which a clock error adds up
    sample_rate_hz: float = 20e6
    walk_ppm: float = 0.1  # assumed standard deviation of a clock rate's random walk after one second
    trend_ppm_per_second: float = 0.1  # assumed standard deviation of a rate's trend, caused by temperature
    trend_seconds: float = 20.0  # seconds that a trend lasts
    tolerance_samples: float = 0.5  # largest sample offset at which a client may send payload
    gate_sigmas: float = 5.0  # an outlier deviates from the prediction by more standard deviations than this
    gate_samples: float = 0.5  # an outlier also deviates from the prediction by more samples than this
    largest_scatter_samples: float = 16.0  # largest scatter of the offsets by multipath: a quarter of the usual prefix
    least_snr_db: float = -15.0  # measurements below this SNR do not count, because the search may have found noise
    jump_rounds: int = 2  # outliers in a row that agree and count as a jump
    outlier_rounds: int = 4  # outliers in a row that do not agree and make the client uncalibrated
    patience_rounds: int = 5  # rounds in a row without an answer that make the client uncalibrated
    fine_rounds: int = 3  # attempts to come inside the tolerance before the loop accepts the scatter
    # A client that answers but is not heard is searched for this much earlier and later: 3/4 of a slot.
    sweep_step_samples: float = 6144.0
    sweep_reach_samples: float = 65_536.0  # largest distance of this search
    settled_rounds: int = 8  # a client that tracked for this many rounds starts again without a wait
    largest_wait_rounds: int = 64  # largest number of rounds between two requests to a client that does not answer
    power_control: bool = True
    target_power_db: float | None = None  # None is the power that the weakest tracking client reaches
    largest_gain_db: float = 0.0
    least_gain_db: float = -40.0
    power_rounds: int = 16  # rounds over which the power is averaged, so that the control does not follow fading
    gain_step_db: float = 1.0  # largest change of a gain from round to round

    def __post_init__(self) -> None:
        for name in ("turnaround_samples", "sample_rate_hz", "trend_seconds", "tolerance_samples", "gate_sigmas"):
            real(name, getattr(self, name), 0.0, open_low=True)
        for name in ("walk_ppm", "trend_ppm_per_second", "gate_samples", "gain_step_db"):
            real(name, getattr(self, name), 0.0)
        real("largest_scatter_samples", self.largest_scatter_samples, self.tolerance_samples)
        real("least_snr_db", self.least_snr_db)
        real("sweep_step_samples", self.sweep_step_samples, 1.0)
        real("sweep_reach_samples", self.sweep_reach_samples, 0.0)
        integer("jump_rounds", self.jump_rounds, 2)
        integer("outlier_rounds", self.outlier_rounds, self.jump_rounds)
        for name in ("patience_rounds", "fine_rounds", "settled_rounds", "largest_wait_rounds", "power_rounds"):
            integer(name, getattr(self, name), 1)
        if self.target_power_db is not None:
            real("target_power_db", self.target_power_db)
        real("largest_gain_db", self.largest_gain_db)
        real("least_gain_db", self.least_gain_db, high=self.largest_gain_db)


@dataclass(frozen=True)
class Guess:
    """Knowledge from an earlier calibration. The search begins with it; only measurements confirm it."""

    correction_samples: float = 0.0
    gain_db: float = 0.0

    def __post_init__(self) -> None:
        real("correction_samples", self.correction_samples)
        real("gain_db", self.gain_db)


@dataclass(frozen=True)
class Arrivals:
    """The server's measurements in a round; arrays have one element per client, NaN for a client that was not heard."""

    round: int
    kind: Kind
    trigger_sample: float
    offset_samples: npt.NDArray[np.float64]
    sigma_samples: npt.NDArray[np.float64]  # standard deviation of the offset by its bound
    power_db: npt.NDArray[np.float64]
    cfo_rad: npt.NDArray[np.float64]  # remaining offset in rad/sample after the client's own correction
    snr_db: npt.NDArray[np.float64]
    # Position after the answer's first sample at which the offset was measured. With a clock error the offset differs
    # along the answer. If the array is empty, offsets count as measured at the first sample.
    place_samples: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        integer("round", self.round, 0)
        require(self.kind in KINDS, "kind", repr(self.kind), f"one of {', '.join(KINDS)}")
        object.__setattr__(self, "trigger_sample", float(self.trigger_sample))
        require(
            not math.isinf(self.trigger_sample), "trigger_sample", self.trigger_sample, "a number of samples, or NaN"
        )
        shape = np.shape(self.offset_samples)
        if not np.size(self.place_samples):
            object.__setattr__(self, "place_samples", np.zeros(shape))
        for name in ("offset_samples", "sigma_samples", "power_db", "cfo_rad", "snr_db", "place_samples"):
            values = np.asarray(getattr(self, name), np.float64)
            require(values.ndim == 1, name, f"shape {values.shape}", "one number for each client")
            require(values.shape == shape, name, f"shape {values.shape}", f"of shape {shape}, as offset_samples")
            object.__setattr__(self, name, values)


@dataclass(frozen=True)
class Answer:
    """A client's status "answered": what it sent, with which correction, and its measurement of the trigger."""

    client: int
    round: int
    epoch: int
    sent: Sent
    correction_samples: float
    trigger_sample: float = math.nan
    cfo_rad: float = math.nan
    snr_db: float = math.nan  # SNR of the trigger per sample

    def __post_init__(self) -> None:
        for name in ("client", "round", "epoch"):
            integer(name, getattr(self, name), 0)
        require(self.sent in get_args(Sent), "sent", repr(self.sent), f"one of {', '.join(get_args(Sent))}")
        real("correction_samples", self.correction_samples)
        for name, limit in (("trigger_sample", 1e18), ("cfo_rad", 10.0), ("snr_db", 300.0)):
            value = getattr(self, name)
            if value == value:  # NaN means that the value is unknown
                real(name, value, -limit, limit)


@dataclass(frozen=True)
class Order:
    """The loop's order to one client for the coming round."""

    client: int
    round: int
    epoch: int
    mode: Mode
    correction_samples: float
    gain_db: float
    drift_ppm: float = 0.0  # rate error of the client's clock, by which the client stretches its answer


@dataclass(frozen=True)
class Plan:
    """The coming round: its kind and the orders to all clients."""

    round: int
    kind: Kind
    orders: tuple[Order, ...]


@dataclass(frozen=True)
class ClientView:
    """A client's state in the loop, for displays and logs. Values that were not measured yet are NaN."""

    client: int
    state: State
    reason: str  # reason for this state, or the last remarkable event
    epoch: int
    offset_samples: float  # last measured sample offset
    # Standard deviation of the coming round's offset: the tracker's prediction and the client's timing of its trigger.
    sigma_samples: float
    scatter_samples: float  # scatter of the measurements beyond their bound, caused by multipath
    correction_samples: float  # correction for the coming round
    drift_ppm: float
    cfo_rad: float
    power_db: float
    gain_db: float
    rounds_in_state: int


@dataclass(frozen=True)
class Change:
    """A change of a client's state; ``before`` and ``after`` are equal if only the reason is new."""

    round: int
    client: int
    before: State
    after: State
    reason: str
