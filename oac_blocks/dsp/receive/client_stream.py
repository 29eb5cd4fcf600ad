# SPDX-License-Identifier: GPL-3.0-or-later
"""Process a client's two streams sample by sample: find triggers in one and put answers into the other.

All decisions depend only on the samples, the orders and the payloads, not on how the stream is divided into chunks.
docs/rounds.md describes the contract with the server.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.bounds import cfo_crlb
from oac_blocks.dsp.checks import MAX_PPM, integer, real, require
from oac_blocks.dsp.receive.detection import Detection
from oac_blocks.dsp.receive.trigger_search import TriggerSearch
from oac_blocks.dsp.waveform.answer import payload_answer, sequence_answer
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.trigger import trigger

Samples = npt.NDArray[np.complex64]
Mode = Literal["payload", "acquire", "silent"]
Event = Literal["armed", "answered", "abstained", "gap"]
Sent = Literal["payload", "sync", "acquire"]
MODES: tuple[Mode, ...] = get_args(Mode)
MAX_WAITING_PAYLOADS = 8
MOST_VOTES = 1 << 24
_CFO_SHARE = 0.25  # weight of the newest trigger in the running frequency estimate
_CFO_SIGMAS = 6.0  # standard deviations; a trigger that deviates more restarts the running frequency estimate


@dataclass(frozen=True)
class AnswerOrder:
    """The server's instruction for a client's answer in one round."""

    round: int
    epoch: int
    mode: Mode
    correction_samples: float = 0.0
    gain_db: float = 0.0
    drift_ppm: float = 0.0  # rate error of this client's clock
    run: int = 0  # number of the server's run; a restarted server counts its rounds from 0 again

    def __post_init__(self) -> None:
        integer("round", self.round, 0)
        integer("epoch", self.epoch, 0)
        require(self.mode in MODES, "mode", repr(self.mode), f"one of {', '.join(MODES)}")
        real("correction_samples", self.correction_samples, -1e9, 1e9)
        real("gain_db", self.gain_db, -120.0, 40.0)
        real("drift_ppm", self.drift_ppm, -MAX_PPM, MAX_PPM)
        integer("run", self.run, 0)


@dataclass(frozen=True)
class Status:
    """An event of a client; times are in samples of the client. Fields that do not apply to the event are None."""

    event: Event
    round: int
    epoch: int
    votes: int | None = None  # number of votes for which the client is armed
    sent: Sent | None = None
    reason: str | None = None
    correction_samples: float | None = None
    answer_sample: float | None = None
    trigger_sample: float | None = None
    cfo_rad: float | None = None
    snr_db: float | None = None
    run: int | None = None  # run of the order for which the client is armed; None if the server names no run


class ClientStream:
    """Convert n received samples to n samples to transmit with ``push``, and report the events in between.

    ``votes`` is the length of an answer that consists of sync symbols alone. ``amplitude`` scales all transmitted
    samples; at 1 a subcarrier has energy 1. An order is valid for one answer. With ``wait_for_orders=False`` every
    trigger is answered without correction until orders arrive. ``first_epoch`` distinguishes this start from an earlier
    one.
    """

    def __init__(
        self,
        client: int,
        layout: RoundLayout,
        search: TriggerSearch,
        *,
        turnaround_samples: int,
        votes: int,
        amplitude: float = 1.0,
        wait_for_orders: bool = True,
        correct_cfo: bool = True,
        seed: int = 1,
        first_epoch: int = 0,
    ) -> None:
        self.client = integer("client", client, 0, layout.clients - 1)
        self._layout, self._search = layout, search
        self.set_turnaround_samples(turnaround_samples)
        self._wait_for_orders = bool(wait_for_orders)
        self._first_epoch = integer("first_epoch", first_epoch, 0, 1 << 62)
        self._seed = integer("seed", seed, 0)
        self.set_votes(votes)
        self.set_amplitude(amplitude)
        self.set_correct_cfo(correct_cfo)
        self.reset()

    def reset(self) -> None:
        """Begin again at sample 0 and the first epoch."""
        self.epoch = self._first_epoch
        self.triggers = 0
        self._position = 0  # index of the next received and transmitted sample
        self._run = 0
        self._answered_round = -1
        self._cfo_rad: float | None = None
        self._search.reset()
        self._forget()

    def _forget(self) -> None:
        """Discard all detections, orders and bursts in progress, because the streams begin again here."""
        self._is_free = not self._wait_for_orders
        self._order = self._next_order_of_its_own() if self._is_free else None
        self._payloads: dict[int, npt.NDArray[Any]] = {}  # votes or entries that wait for their round, by round number
        self._ballot = (-1, 0)  # a round, and the number of votes that the other clients send in it
        self._armed_round = -1
        self._triggers: deque[Detection] = deque()  # triggers that are not answered yet
        self._burst, self._burst_at = np.empty(0, np.complex64), self._position

    @property
    def cfo_rad(self) -> float:
        """Return the frequency offset over the last triggers, by which all transmitted samples are rotated."""
        return self._cfo_rad or 0.0

    @property
    def calibrated(self) -> bool:
        """Return whether the client may send its payload."""
        return self._order is not None and self._order.mode == "payload"

    def set_turnaround_samples(self, turnaround_samples: int) -> None:
        """Set the samples from a trigger to its answer, before the correction."""
        least = self._search.latency_samples
        self._turnaround = integer("turnaround_samples", turnaround_samples, least, 1 << 30)

    def set_votes(self, votes: int) -> None:
        """Set the length of an answer that consists of sync symbols alone."""
        self._votes = integer("votes", votes, 1)

    def set_amplitude(self, amplitude: float) -> None:
        """Set the amplitude of a subcarrier, from the next answer on."""
        self._amplitude = real("amplitude", amplitude, 0.0, 1e3)

    def set_correct_cfo(self, correct_cfo: bool) -> None:
        """Set whether answers are shifted to the server's frequency."""
        self._correct_cfo = bool(correct_cfo)

    def order(self, order: AnswerOrder) -> list[Status]:
        """Take an order; raise ValueError if it is for another epoch or for a round that is over."""
        require(order.epoch == self.epoch, "epoch of an order", order.epoch, f"the present one, {self.epoch}")
        # A new run means that the server restarted, so its rounds are unrelated to those before.
        if order.run != self._run:
            self._run, self._answered_round, self._armed_round = order.run, -1, -1
            self._payloads.clear()
            self._ballot = (-1, 0)
        coming = order.round > self._answered_round
        require(coming, "round of an order", order.round, f"after the last answer's, {self._answered_round}")
        self._order, self._is_free = order, False
        self._drop_payloads_before(order.round)
        return self._arm()

    def ballot(self, round_: int, votes: int, takes_part: bool, run: int | None = None) -> list[Status]:
        """Announce a round with this many votes.

        A client that does not take part abstains. A client that takes part but has no payload in time sends sync
        symbols, so that it is still measured.

        Raises
        ------
        ValueError
            If the round is over or belongs to another run.
        """
        self._check_run(run)
        self._ballot = (integer("round of a ballot", round_, 0), integer("votes", votes, 1, MOST_VOTES))
        return [] if takes_part else self.payload(round_, self._nothing(votes), run)

    def _check_run(self, run: int | None) -> None:
        """Raise ValueError for a payload or ballot of another run: its round may still lie ahead in this run."""
        require(run is None or run == self._run, "run", run, f"the present one, {self._run}")

    def payload(self, round_: int | None, votes: npt.NDArray[Any], run: int | None = None) -> list[Status]:
        """Take the payload of a round, by default the coming one; raise ValueError if the round or payload is invalid.

        The layout's scheme decides what a payload is: int8 votes, or float32 entries in units of a vote's energy.
        """
        self._check_run(run)
        number = self._coming_round() if round_ is None else integer("round of a payload", round_, 0)
        over = f"after the last answer's, {self._answered_round}"
        require(number > self._answered_round, "round of a payload", number, over)
        scheme = self._layout.scheme
        sound = votes.dtype == scheme.dtype and votes.ndim == 1 and len(votes) > 0
        require(sound, "votes", f"{votes.dtype} of shape {votes.shape}", f"a vector of {scheme.dtype}")
        votes = scheme.check(votes)
        room = number in self._payloads or len(self._payloads) < MAX_WAITING_PAYLOADS
        require(room, "round of a payload", number, f"one of at most {MAX_WAITING_PAYLOADS} that wait")
        self._payloads[number] = votes
        if self._is_free and self._order is not None:
            self._order = dataclasses.replace(self._order, round=min(self._payloads))
        return self._arm()

    def _arm(self) -> list[Status]:
        order = self._order
        if order is None or order.round == self._armed_round:
            return []
        votes = self._payloads.get(order.round) if order.mode == "payload" else None
        if order.mode == "payload" and votes is None:
            return []
        self._armed_round = order.round
        count = None if votes is None else len(votes)
        return [Status("armed", order.round, self.epoch, count, run=order.run or None)]

    def _next_order_of_its_own(self) -> AnswerOrder:
        return AnswerOrder(self._answered_round + 1, self.epoch, "payload")

    def _drop_payloads_before(self, number: int) -> None:
        self._payloads = {of: votes for of, votes in self._payloads.items() if of >= number}

    def gap(self, reason: str) -> Status:
        """Handle lost samples in either stream: the offset between the two streams has changed."""
        self.epoch += 1
        self._search.skip_to(self._position)  # the frequency offset of the server has not changed
        self._forget()
        return Status("gap", self._coming_round(), self.epoch, reason=reason)

    def announce(self) -> Status:
        """Report that these streams have begun; for the server this is equivalent to a gap."""
        return Status("gap", self._coming_round(), self.epoch, reason="started")

    def push(self, samples: Samples, out: Samples | None = None) -> tuple[Samples, list[Status]]:
        """Return n samples to transmit and the events so far; samples are written to ``out`` if it is given."""
        first, end = self._position, self._position + len(samples)
        self._position = end
        out = np.empty_like(samples) if out is None else out
        out[:] = 0
        self._lay(out, first)
        for found in self._search.push(samples):
            self.triggers += 1
            self._queue(found)
        happened: list[Status] = []
        while self._triggers and self._begin_samples(self._triggers[0]) < end:
            happened.append(self._answer(self._triggers.popleft(), first))
            self._lay(out, first)
        return out, happened

    def _queue(self, heard: Detection) -> None:
        """Queue a trigger; of several triggers before the first answer is due, only the strongest counts."""
        # A later trigger may not be known yet when the answer begins; this must not depend on the chunks of the stream.
        known_by = self._search.latency_samples
        if self._triggers and heard.time_samples < self._begin_samples(self._triggers[-1]) - known_by:
            if heard.snr > self._triggers[-1].snr:
                self._triggers[-1] = heard
        else:
            self._triggers.append(heard)

    def _begin_samples(self, heard: Detection) -> float:
        """Return the sample at which the answer to this trigger begins."""
        order = self._order
        if order is None:
            return heard.time_samples + self._turnaround
        slot = self._layout.sequence_start_samples(self.client) if order.mode == "acquire" else 0
        # Measured by the server's clock, the slot begins at the same time for all clients.
        stretch = 1 + 1e-6 * order.drift_ppm
        return heard.time_samples + self._turnaround + order.correction_samples + slot * stretch

    def _answer(self, heard: Detection, first: int) -> Status:
        """Begin the answer to this trigger, or report why there is none."""
        self._follow_frequency(heard)
        begin, number, order = self._begin_samples(heard), self._coming_round(), self._order
        whole = round(begin)
        status = Status(
            "abstained",
            number,
            self.epoch,
            correction_samples=order.correction_samples if order else 0.0,
            answer_sample=begin,
            trigger_sample=heard.time_samples,
            cfo_rad=heard.cfo_rad_per_sample,
            snr_db=10 * math.log10(max(heard.snr, 1e-30)),
        )
        reason = self._reason_to_abstain(whole, first)
        if order is None or reason is not None:
            return dataclasses.replace(status, reason=reason)
        sent, burst = self._make_burst(order, number, begin - whole)
        self._burst = burst * np.float32(self._amplitude * 10 ** (order.gain_db / 20))
        self._burst_at = whole
        self._answered_round = number
        self._drop_payloads_before(number + 1)
        if self._is_free:
            self._order = self._next_order_of_its_own()
        return dataclasses.replace(status, event="answered", sent=sent)

    def _make_burst(self, order: AnswerOrder, number: int, fraction_samples: float) -> tuple[Sent, Samples]:
        cfo = self.cfo_rad if self._correct_cfo else 0.0
        if order.mode == "acquire":
            return "acquire", sequence_answer(self.client, self._layout, fraction_samples, cfo)
        sent: Sent = "sync"
        votes = self._nothing(self._ballot[1] if self._ballot[0] == number else self._votes)
        if number in self._payloads:
            sent, votes = "payload", self._payloads[number]
        rng = np.random.default_rng((self._seed, self.client, number))
        return sent, payload_answer(votes, self.client, self._layout, rng, fraction_samples, cfo, order.drift_ppm)

    def _nothing(self, votes: int) -> npt.NDArray[Any]:
        """Return a payload of this length without energy."""
        return np.zeros(votes, self._layout.scheme.dtype)

    def _coming_round(self) -> int:
        """Return the round of the present order, or the round after the last answer."""
        after = self._answered_round + 1
        return after if self._order is None else max(after, self._order.round)

    def _reason_to_abstain(self, whole: int, first: int) -> str | None:
        if self._order is None:
            return "not calibrated: there is no order for this epoch"
        if self._order.round <= self._answered_round:
            return f"round {self._order.round} is already answered, and there is no order for the next one"
        if self._order.mode == "silent":
            return "the order says to stay silent"
        if whole < first:
            return f"too late by {first - whole} samples: correction and turnaround leave no time to find the trigger"
        if whole < self._burst_at + len(self._burst):
            return "the last answer is still being sent"
        return None

    def _lay(self, out: Samples, first: int) -> None:
        """Write the part of the burst that falls on these samples."""
        at = self._burst_at - first
        part = self._burst[max(-at, 0) : max(len(out) - at, 0)]
        out[max(at, 0) : max(at, 0) + len(part)] = part

    def _follow_frequency(self, heard: Detection) -> None:
        cfo = heard.cfo_rad_per_sample
        sigma = math.sqrt(cfo_crlb(len(trigger()), max(heard.snr, 1e-9)))
        if self._cfo_rad is None or abs(cfo - self._cfo_rad) > _CFO_SIGMAS * sigma:
            self._cfo_rad = cfo
        else:
            self._cfo_rad += _CFO_SHARE * (cfo - self._cfo_rad)
