# SPDX-License-Identifier: GPL-3.0-or-later
"""Process the server's receive stream round by round: find its own trigger, then the clients' answers to it.

The server receives its own trigger, counts ``answer_samples`` from there, and takes the payload's frame or the slots of
an acquire round. The stream is cut at the nearest sample, and the fraction is added to the offsets. No other trigger
can come before the end of a round, so the search pauses meanwhile, which saves time. The received samples alone decide
where it pauses and resumes, so the result does not depend on the chunks of the stream.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp import bounds
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.receive import acquisition, burst_snr
from oac_blocks.dsp.receive.capture import Capture, StreamTail
from oac_blocks.dsp.receive.detection import DEFAULT_FALSE_ALARM, Detection, bank_up_to
from oac_blocks.dsp.receive.open_round import ExpectedRound, OpenRound
from oac_blocks.dsp.receive.shared_burst import estimate_burst
from oac_blocks.dsp.receive.tracking import SearchMark
from oac_blocks.dsp.receive.trigger_search import DEFAULT_MIN_SNR_DB, TriggerSearch
from oac_blocks.dsp.waveform import frame, ofdm
from oac_blocks.dsp.waveform.frame import FrameLayout
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import KINDS, Kind, RoundLayout
from oac_blocks.dsp.waveform.trigger import trigger

MOST_VOTES = 1 << 26
_SPAN_ROWS = 16
# Largest sample component; beyond it energies overflow float32, and no radio delivers such samples.
_LARGEST_SAMPLE = 1e15

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeardRound:
    """One trigger and the answers to it.

    Vectors have one element for each client, NaN for a client that was not detected. In a payload round,
    ``offset_samples`` is the sample offset in the middle of the frame's sync symbols, because a clock error moves a
    client during the frame. ``cfo_rad`` comes from the phases of these symbols and is unique up to half a turn between
    two of them (1.7e-4 rad/sample for 21,880 votes in four groups). An acquire round is too short to measure it and
    gives NaN. ``place_samples`` is the time after ``answer_samples`` at which the offset was measured: the middle of
    the frame's sync symbols, or the client's slot. With a clock error, offsets differ between these times.
    """

    round: int
    kind: Kind
    trigger_sample: float
    trigger_snr_db: float  # SNR per sample
    offset_samples: Floats
    sigma_samples: Floats
    power_db: Floats
    cfo_rad: Floats
    snr_db: Floats
    place_samples: Floats
    soft_votes: npt.NDArray[np.float32] | None = None  # soft votes of a payload round
    energies: npt.NDArray[np.float32] | None = None  # energies for and against each vote, (2, votes)
    # Mean SNR of the detected clients, all paths included, over the noise beside the band.
    mean_snr_db: float = math.nan
    # Mean energy of a subcarrier of the sync symbols minus the noise: the sum over all clients that transmit.
    sync_energy: float = math.nan
    capture: Capture | None = None  # the samples of the round, if the receiver keeps them


def usual_early_samples(num: Numerology) -> int:
    """Return the default position of the FFT window inside the prefix: a third, the rest is for multipath."""
    return num.cp_samples // 3


class ServerStream:
    """Take the server's stream in chunks of any size (``push``) and return the rounds that they complete.

    Call ``expect`` to say which round the next trigger begins. Without it, rounds are numbered consecutively, each a
    payload of ``votes``.

    Parameters
    ----------
    layout : RoundLayout
    votes : int
        Number of votes in a round that ``expect`` does not describe.
    early_samples : int, optional
        How far the FFT window is inside the prefix, a third of it by default. A client may be early by this many
        samples, or late by the rest of the prefix minus its multipath spread.
    false_alarm_per_sample, min_snr_db, tracking, lost_after_samples, span_rows
        Settings of the ``TriggerSearch``.
    false_alarm_per_client : float
        Probability that a silent client is detected in a round of white noise.
    max_cfo_rad : float
        Largest frequency offset to search for, in rad/sample. The server's own trigger has no frequency offset, so the
        default suffices; the search always covers at least 0.025.
    patience_samples : int
        Timeout in samples: if the trigger does not arrive this long after ``expect``, the round ends with no client
        detected. 0 waits without limit. The timeout counts samples instead of seconds, so that a slow machine loses no
        round.
    """

    def __init__(
        self,
        layout: RoundLayout,
        votes: int = 21_880,
        *,
        early_samples: int | None = None,
        false_alarm_per_sample: float = DEFAULT_FALSE_ALARM,
        min_snr_db: float = DEFAULT_MIN_SNR_DB,
        false_alarm_per_client: float = acquisition.DEFAULT_FALSE_ALARM,
        max_cfo_rad: float = 0.0,
        tracking: bool = True,
        lost_after_samples: int = 20_000_000,
        span_rows: int = _SPAN_ROWS,
        patience_samples: int = 0,
    ) -> None:
        self._patience = integer("patience_samples", patience_samples, 0)
        self._max_cfo_rad = max_cfo_rad
        self.search = TriggerSearch(
            false_alarm_per_sample,
            min_snr_db,
            tracking=tracking,
            lost_after_samples=lost_after_samples,
            cfo_bank_rad=bank_up_to(max_cfo_rad),
            span_rows=span_rows,
        )
        self.layout = layout
        self.set_votes(votes)
        self.set_early_samples(usual_early_samples(layout.num) if early_samples is None else early_samples)
        self.set_false_alarm_per_client(false_alarm_per_client)
        # Samples that are already searched when a trigger is found, and that may belong to the answers.
        self._kept = max(0, self.search.latency_samples + acquisition.MARGIN_SAMPLES + 2 - layout.answer_samples)
        self._tail: StreamTail | None = None
        self.reset()

    def keep_captures(self) -> None:
        """Give each round that is heard to its end its samples, as ``HeardRound.capture``.

        To be called before the first sample.
        """
        self._tail = StreamTail(self.search.span_samples, self.search.latency_samples)
        self._tail.restart(self.search.mark())

    def settings(self) -> dict[str, Any]:
        """Return the settings by the names of the constructor, but for layout, votes and patience."""
        own = {"early_samples": self._early, "false_alarm_per_client": self._false_alarm}
        return {**own, "max_cfo_rad": self._max_cfo_rad, **self.search.settings()}

    @property
    def bad_samples(self) -> int:
        """Return how many samples were NaN, infinite or very large, and were replaced with zeros."""
        return self._bad_samples

    @property
    def ignored_triggers(self) -> int:
        """Return how many triggers arrived before the round of another trigger was over."""
        return self._ignored

    def set_votes(self, votes: int) -> None:
        """Set the votes of rounds that ``expect`` does not describe, from the next trigger on."""
        self._votes = integer("votes", votes, 1, MOST_VOTES)

    def set_early_samples(self, early_samples: int) -> None:
        """Set how far the FFT window is inside the prefix, in samples."""
        self._early = integer("early_samples", early_samples, 0, self.layout.num.cp_samples)

    def set_false_alarm_per_client(self, probability: float) -> None:
        """Set the probability that a silent client is detected in a round of white noise."""
        self._false_alarm = real("false_alarm_per_client", probability, 1e-15, 0.5)

    def reset(self) -> None:
        """Forget the stream and the expectation: the next sample and the next round have the number 0."""
        self.search.reset()
        if self._tail is not None:
            self._tail.restart(self.search.mark())
        self._position = 0  # index of the next sample
        # Last samples before the next one, kept during the search for a trigger.
        self._history = np.empty(0, np.complex64)
        self._open: OpenRound | None = None
        self._busy_until = 0  # end of the last round
        self._expected: tuple[int, Kind, int | None] | None = None
        self._due = math.inf  # sample at which the expected round counts as missed
        self._next_round = 0
        self._bad_samples = 0
        self._ignored = 0

    def expect(self, round: int, kind: str = "payload", votes: int | None = None) -> None:
        """Set the round that the next trigger begins; a later call replaces an earlier one."""
        number = integer("round", round, 0)
        require(kind in KINDS, "kind", repr(kind), f"one of {', '.join(KINDS)}")
        if votes is not None:
            votes = integer("votes", votes, 1, MOST_VOTES)
        self._expected = number, "acquire" if kind == "acquire" else "payload", votes
        self._due = self._position + self._patience if self._patience else math.inf

    def gap(self, at: int | None = None) -> list[HeardRound]:
        """Handle a break in the stream, which continues at this sample (by default the next one).

        A round in progress is given up and returned with no client detected, so that the caller does not wait for it.
        """
        broken, self._open = self._open, None
        left = self._due - self._position
        self._position = self._busy_until = self._position if at is None else integer("at", at, 0)
        self._due = self._position + left
        self._history = self._history[:0]
        self.search.skip_to(self._position)
        if self._tail is not None:
            self._tail.restart(self.search.mark())
        return [] if broken is None else [self._heard(broken, np.full((5, self.layout.clients), np.nan))]

    def resume(self, mark: SearchMark) -> None:
        """Continue at the first sample of a capture, which is the next one to be pushed."""
        self.gap(mark.sample)
        self.search.resume(mark)

    def push(self, samples: npt.NDArray[np.complex64]) -> list[HeardRound]:
        """Return the rounds that these samples complete, in order of time."""
        samples = np.asarray(samples)
        require(samples.ndim == 1, "samples", f"shape {samples.shape}", "one-dimensional")
        require(samples.dtype == np.complex64, "samples", samples.dtype, "complex64")
        samples = self._sound(samples)
        heard: list[HeardRound] = []
        while len(samples):
            if self._open is not None:
                some = samples[: self._open.stop - self._position]
                self._open.take(some, self._position)
                if self._tail is not None:
                    self._tail.take(some)
                self._position += len(some)
                if self._position == self._open.stop:
                    # The round is closed afterwards: if it cannot be finished, it stays open for the next gap.
                    heard.append(self._finish(self._open))
                    self._open = None
                    if self._tail is not None:
                        self._tail.restart(self.search.mark())
            else:
                # The search proceeds span by span, so that it stops at the same sample for any chunks of the stream.
                some = samples[: int(min(self.search.wanted_samples, max(1, self._due - self._position)))]
                heard += self._look_at(some)
                if self._open is None and self._position >= self._due:
                    heard.append(self._missed())
            samples = samples[len(some) :]
        return heard

    def _sound(self, samples: npt.NDArray[np.complex64]) -> npt.NDArray[np.complex64]:
        parts = np.ascontiguousarray(samples).view(np.float32)
        # Comparisons with NaN are false, so two quick passes find all bad samples.
        if not len(parts) or (parts.max() < _LARGEST_SAMPLE and parts.min() > -_LARGEST_SAMPLE):
            return samples
        pairs = parts.reshape(-1, 2)
        bad = ~np.all(np.abs(pairs) < _LARGEST_SAMPLE, axis=1)
        self._bad_samples += int(np.count_nonzero(bad))
        return np.where(bad, np.complex64(0), samples)

    def _look_at(self, samples: npt.NDArray[np.complex64]) -> list[HeardRound]:
        """Search one span or a part of it."""
        found = deque(self.search.push(samples))
        self._position += len(samples)
        if self._tail is not None:
            self._tail.take(samples)
        if self._kept:
            self._history = np.concatenate((self._history, samples))[-self._kept :]
        heard: list[HeardRound] = []
        while found:
            detection = found.popleft()
            if detection.time_samples < self._busy_until:
                self._ignored += 1
                continue
            opened = OpenRound(self._next_expected(), detection, self.layout, self._busy_until)
            opened.take(self._history, self._position - len(self._history))
            self._busy_until = opened.stop
            self._open = opened
            if opened.stop <= self._position:
                heard.append(self._finish(opened))
                self._open = None
            else:
                self.search.skip_to(opened.stop)
                self._history = self._history[:0]
        if self._tail is not None and self._open is None:
            self._tail.note(self.search.mark())
        return heard

    def _next_expected(self) -> ExpectedRound:
        number, kind, votes = self._expected or (self._next_round, "payload", None)
        self._expected, self._due = None, math.inf
        self._next_round = number + 1
        return ExpectedRound(number, kind, self._votes if votes is None else votes)

    def _missed(self) -> HeardRound:
        """Return the expected round as one without a trigger."""
        missed, nothing = self._next_expected(), np.full(self.layout.clients, np.nan)
        return HeardRound(missed.round, missed.kind, math.nan, math.nan, *(nothing,) * 6)

    def _finish(self, done: OpenRound) -> HeardRound:
        heard = self._acquired(done) if done.frame is None else self._payload(done, done.frame)
        if self._tail is None:
            return heard
        capture = self._tail.cut(heard.trigger_sample, done.earliest)
        return replace(heard, capture=replace(capture, settings=self.settings()))

    def _acquired(self, done: OpenRound) -> HeardRound:
        answer_at = acquisition.MARGIN_SAMPLES + done.fraction
        # The record is cut at the sample nearest to the trigger, so the fraction is at most half a sample.
        found = acquisition.acquire(done.samples, self.layout, answer_at, false_alarm=self._false_alarm)
        unknown = np.full(self.layout.clients, np.nan)
        sigma = np.sqrt(found.sigma_samples**2 + _trigger_variance(done.detection))
        return self._heard(done, np.stack((found.offset_samples, sigma, found.power_db, unknown, found.snr_db)))

    def _payload(self, done: OpenRound, layout: FrameLayout) -> HeardRound:
        num, clients, votes = self.layout.num, self.layout.clients, done.expected.votes
        grid = ofdm.demodulate(frame.payload_of(done.samples, layout), num, self._early)
        energies = self.layout.scheme.energies(grid, votes, num, repeats=self.layout.repeats)
        soft_votes = energies[0] - energies[1]
        syncs, starts = frame.syncs_of(done.samples, layout), layout.sync_starts_samples()
        found = estimate_burst(syncs, starts, clients, num, self._early, self._false_alarm)
        columns = np.stack(
            (
                found.delay_samples - done.fraction,
                np.sqrt(found.sigma_samples**2 + _trigger_variance(done.detection)),
                _decibels(found.power),
                found.cfo_rad,
                _decibels(found.snr),
            )
        )
        heard = int(np.count_nonzero(np.isfinite(found.power)))
        if not heard:
            return self._heard(done, columns, soft_votes, energies)
        power = burst_snr.measure(done.samples, layout, self._early)
        mean_snr_db = burst_snr.snr_db([power], heard)
        received = self._heard(done, columns, soft_votes, energies, math.nan if mean_snr_db is None else mean_snr_db)
        return replace(received, sync_energy=power.sync - power.noise)

    def _heard(
        self,
        done: OpenRound,
        columns: Floats,
        soft_votes: npt.NDArray[np.float32] | None = None,
        energies: npt.NDArray[np.float32] | None = None,
        mean_snr_db: float = math.nan,
    ) -> HeardRound:
        """Return the round; ``columns`` (5, N) are the offsets and the fields after them."""
        expected, detection = done.expected, done.detection
        about = (expected.round, expected.kind, detection.time_samples, _db(detection.snr))
        place = np.where(np.isfinite(columns[0]), self._places(done), np.nan)
        offset, sigma, power_db, cfo_rad, snr_db = columns
        return HeardRound(*about, offset, sigma, power_db, cfo_rad, snr_db, place, soft_votes, energies, mean_snr_db)

    def _places(self, done: OpenRound) -> Floats:
        """Return where each client is measured: the first sample of its symbol, or the mean over all symbols."""
        clients = self.layout.clients
        if done.frame is None:
            return np.array([self.layout.sequence_start_samples(client) for client in range(clients)], np.float64)
        return np.full(clients, done.frame.sync_starts_samples().mean())


@lru_cache(maxsize=1)
def _unit_trigger_variance() -> float:
    return bounds.joint_crlb(trigger(), 1.0)[0]


def _trigger_variance(detection: Detection) -> float:
    """Return the variance of the trigger's arrival time, from which the offsets of all clients count."""
    return _unit_trigger_variance() / max(detection.snr, 1e-30)


def _db(ratio: float) -> float:
    return 10 * math.log10(max(ratio, 1e-30))


def _decibels(ratio: Floats) -> Floats:
    return 10 * np.log10(np.maximum(ratio, 1e-30))
