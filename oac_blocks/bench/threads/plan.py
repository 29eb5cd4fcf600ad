# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bench is set to, and what a round on it came to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import numpy.typing as npt

from oac_blocks.bench.config import Clock as Clock
from oac_blocks.bench.settings import AMPLITUDE, CRYSTAL_PPM, RADIO_RATE_HZ, TRIGGER_AMPLITUDE, max_cfo_rad
from oac_blocks.dsp.channel.fading import PROFILES
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.receive.client_stream import Status
from oac_blocks.dsp.receive.server_stream import usual_early_samples
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import Kind, RoundLayout
from oac_blocks.dsp.waveform.schemes import Scheme, scheme_named
from oac_blocks.errors import OacError
from oac_blocks.loop.closed_loop import Arrivals, ClientView, LoopSettings, Plan
from oac_blocks.radio.base import StreamConfig

CLOCKS: tuple[Clock, ...] = get_args(Clock)
Floats = npt.NDArray[np.float64]
_BLOCK_SECONDS = 16e-3  # length of a block, in seconds, that a busy machine can still keep up with
_LONGEST_ECHO_SECONDS = max(PROFILES["etu"].delays_seconds)  # 5 us: echoes of a town
_SIGMAS_IN_PREFIX = 4.0  # offsets of this many standard deviations still lie inside the prefix


class BenchError(OacError, RuntimeError):
    """The bench cannot go on, in a sentence."""


@dataclass(frozen=True)
class BenchSettings:
    """``clock`` "wall": the server's streams go on between rounds. "lock-step": they wait, as the radios' time does."""

    clients: int = 2
    num: Numerology = field(default_factory=lambda: Numerology(sample_rate_hz=RADIO_RATE_HZ))
    votes: int = 768  # of a payload round that has none: its length
    repeats: int = 1
    scheme: Scheme = field(default_factory=lambda: scheme_named("onebit"))  # scheme of the payload
    groups: int = 2
    clock: Clock = "lock-step"
    answer_samples: int = 65_536
    slot_samples: int = 8192
    max_cfo_rad: float = 0.175
    stream: StreamConfig = field(default_factory=lambda: StreamConfig(4096, 8, 4, 2))
    amplitude: float = AMPLITUDE
    trigger_amplitude: float = TRIGGER_AMPLITUDE
    pause_blocks: int = 4  # blocks from the end of a round to the next trigger
    reopens: bool = True  # both streams after a gap: a queue that ran empty once would soon do so again
    retry_seconds: float = 1.0  # before a radio that is gone is looked for again
    stall_seconds: float = 60.0  # a radio that moves nothing for so long is gone

    def __post_init__(self) -> None:
        require(self.clock in CLOCKS, "clock", repr(self.clock), f"one of {', '.join(CLOCKS)}")
        integer("votes", self.votes, 1)
        integer("pause_blocks", self.pause_blocks, 1)
        real("amplitude", self.amplitude, 0.0, 1.0, open_low=True)
        real("trigger_amplitude", self.trigger_amplitude, 0.0, 1.0, open_low=True)
        real("retry_seconds", self.retry_seconds, 0.0, 3600.0, open_low=True)
        real("stall_seconds", self.stall_seconds, 0.0, 3600.0, open_low=True)
        least = self.stream.primed_blocks * self.stream.block_samples
        require(self.answer_samples > least, "answer_samples", self.answer_samples, f"more than the {least} sent ahead")
        layout = self.layout
        fits = layout.answer_samples > 0 and len_of_trigger() <= self.stream.block_samples
        require(fits, "block_samples", self.stream.block_samples, f"at least {len_of_trigger()}, a trigger")

    @property
    def layout(self) -> RoundLayout:
        times = (self.answer_samples, self.slot_samples)
        return RoundLayout(self.num, self.clients, self.repeats, self.groups, *times, scheme=self.scheme)

    @property
    def turnaround_samples(self) -> int:
        """What is sent ahead delays every answer, and is known."""
        return self.answer_samples - self.stream.primed_blocks * self.stream.block_samples

    def most_blocks(self, votes: int) -> int:
        """From a trigger to the end of its round: after so many nobody will hear it."""
        stream, layout = self.stream, self.layout
        samples = self.answer_samples + max(layout.frame(votes).samples, layout.acquisition_samples)
        waiting = 2 * stream.primed_blocks + stream.kernel_buffers + stream.queued_blocks
        return 4 + waiting - (-samples // stream.block_samples)


def len_of_trigger() -> int:
    from oac_blocks.dsp.waveform.trigger import trigger

    return len(trigger())


def settings_for(
    clients: int,
    num: Numerology,
    clock: Clock,
    frequency_hz: float,
    *,
    votes: int = 768,
    repeats: int = 1,
    groups: int = 2,
    crystal_ppm: float = CRYSTAL_PPM,
    scheme: Scheme | None = None,
) -> BenchSettings:
    """Blocks as long as the clock wants them, and as much frequency offset as crystals may have at this carrier."""
    require(clock in CLOCKS, "clock", repr(clock), f"one of {', '.join(CLOCKS)}")
    cfo = max_cfo_rad(frequency_hz, num.sample_rate_hz, crystal_ppm)
    scheme = scheme_named("onebit") if scheme is None else scheme
    common = {"votes": votes, "repeats": repeats, "scheme": scheme, "groups": groups, "max_cfo_rad": cfo}
    if clock == "lock-step":
        # The air does not wait for a radio that is gone: in a second of the host many rounds may pass.
        return BenchSettings(clients, num, clock=clock, retry_seconds=0.1, **common)  # type: ignore[arg-type]
    block = 1 << max(10, round(math.log2(_BLOCK_SECONDS * num.sample_rate_hz) - 0.3))
    # A look at the flags is a round trip, in each direction. It is soon enough before the round ends.
    stream = StreamConfig(block, kernel_buffers=16, primed_blocks=12, queued_blocks=4, blocks_per_poll=4)
    return BenchSettings(
        clients,
        num,
        clock=clock,
        # Room for corrections of as much as the kernel's buffers may hold, either way.
        answer_samples=(stream.primed_blocks + 1 + stream.kernel_buffers) * block,
        slot_samples=4 * block,  # a busy machine takes its time between the opening of one stream and of the other
        stream=stream,
        stall_seconds=10.0,
        **common,  # type: ignore[arg-type]
    )


def bearable_offset_samples(num: Numerology) -> float:
    """Return the offset (RMS, in samples) that costs no votes: the default tolerance of a training run.

    The server's FFT window begins ``early`` samples inside the prefix. A path that arrives with the offset x is seen
    whole, without interference, for -early <= x <= cp - early; beyond, the interference grows as 2 x / N. The echoes of
    a client come up to 5 us behind its first path. So an offset is free up to

        min(early, cp - early - 5 us * rate)

    and RMS offsets of a quarter of it are free up to four standard deviations. That is 5.25 samples with the usual
    prefix (64, early 21) up to 4.4 Msps. Where the prefix is shorter than the echoes, it is half a sample.
    """
    early = usual_early_samples(num)
    late = num.cp_samples - early - _LONGEST_ECHO_SECONDS * num.sample_rate_hz
    return max(LoopSettings().tolerance_samples, min(early, late) / _SIGMAS_IN_PREFIX)


@dataclass(frozen=True, eq=False)
class RoundOutcome:
    """``soft_votes`` is None in a round without payload, and in one that nobody's votes or no samples came through."""

    plan: Plan
    arrivals: Arrivals
    answers: tuple[Status | None, ...]  # each client's answer; None if it did not answer
    views: tuple[ClientView, ...]  # after the round
    absent: tuple[str, ...]  # of each client: why its radio is not there, or nothing
    soft_votes: npt.NDArray[np.float32] | None = None
    snr_db: float = math.nan  # SNR of the payload in dB
    trigger_at: int = 0  # sample of the server's transmit stream, since it was opened last

    @property
    def round(self) -> int:
        return self.plan.round

    @property
    def kind(self) -> Kind:
        return self.plan.kind

    @property
    def voters(self) -> tuple[int, ...]:
        """Clients whose votes were sent."""
        return tuple(n for n, one in enumerate(self.answers) if one is not None and one.sent == "payload")

    @property
    def able(self) -> tuple[int, ...]:
        """Clients that were to send votes when the round began: they were tracking."""
        return tuple(order.client for order in self.plan.orders if order.mode == "payload")

    @property
    def offset_samples(self) -> Floats:
        """Measured offsets of the clients that answered. NaN for the others: what is heard of them is noise."""
        answered = [one is not None for one in self.answers]
        return np.where(answered, self.arrivals.offset_samples, np.nan)

    @property
    def heard(self) -> tuple[int, ...]:
        """Clients whose votes were sent, and that the server has heard: a radio may go away during a burst."""
        return tuple(n for n in self.voters if math.isfinite(self.offset_samples[n]))

    @property
    def states(self) -> list[str]:
        return ["absent" if gone else view.state for view, gone in zip(self.views, self.absent, strict=True)]

    @property
    def all_tracking(self) -> bool:
        return all(state == "tracking" for state in self.states)

    def heard_cfo_rad(self) -> Floats:
        """The server's frequency as each client hears it, in rad/sample; NaN for one that did not answer."""
        return _column([None if one is None else one.cfo_rad for one in self.answers])

    def log_line(self) -> tuple[int, str, float, list[str], dict[str, Floats]]:
        """What ``calibration.log`` writes of a round; the truth is not known here."""
        views, arrivals = self.views, self.arrivals
        columns = {
            "offset_samples": self.offset_samples,
            "sigma_samples": arrivals.sigma_samples,
            "residual_samples": np.full(len(views), np.nan),
            "correction_samples": np.array([view.correction_samples for view in views]),
            "doubt_samples": np.array([view.sigma_samples for view in views]),
            "client_sample": _column([None if one is None else one.trigger_sample for one in self.answers]),
            "drift_ppm": np.array([view.drift_ppm for view in views]),
            "power_db": arrivals.power_db,
            "gain_db": np.array([view.gain_db for view in views]),
        }
        return self.round, self.kind, arrivals.trigger_sample, self.states, columns


def _column(values: Sequence[float | None]) -> Floats:
    return np.array([math.nan if value is None else value for value in values], np.float64)
