# SPDX-License-Identifier: GPL-3.0-or-later
"""A bench: a server and clients, each on a radio of its own, and the calibration loop between them.

    with Bench(open_server, [open_client, open_another], settings) as bench:
        outcome = bench.play(votes)                 # one round, of payload or of acquisition
        outcome.soft_votes, outcome.arrivals, bench.loop.clients

On the lock-step clock nothing depends on how threads are scheduled, as long as no radio is opened again:

- a client tells of an answer before it hands the samples of that answer to its radio. So when the server hears the end
  of a round, it has heard of all answers;
- the server lays a trigger only when all clients have their orders, and orders count for the coming trigger alone;
- between rounds the server's streams stand still, and so does the time of all.

On the wall clock they go on between rounds, with silence.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from oac_blocks.bench.threads.node import ClientNode, Opener
from oac_blocks.bench.threads.plan import BenchError, BenchSettings, RoundOutcome
from oac_blocks.dsp.checks import require
from oac_blocks.dsp.receive.client_stream import Status
from oac_blocks.dsp.receive.server_stream import HeardRound, ServerStream
from oac_blocks.dsp.receive.vote_units import energies_per_voter
from oac_blocks.dsp.waveform.trigger import trigger
from oac_blocks.loop.closed_loop import Answer, Arrivals, Loop, LoopSettings, Plan
from oac_blocks.radio.base import Radio, RadioError
from oac_blocks.record.recorder import Recorder
from oac_blocks.rounds.engine import EngineSettings, RoundEngine
from oac_blocks.rounds.events import Action, Armed, Broke, Ended, Event, Expect, Miss, Planned, Woken

__all__ = ["Bench", "BenchError", "BenchSettings", "Opener", "RoundOutcome", "loop_settings"]

Votes = npt.NDArray[Any]
_SPAN_ROWS = 4
_POLL_SECONDS = 0.2


def loop_settings(settings: BenchSettings, tolerance_samples: float = 0.5) -> LoopSettings:
    """What the loop must know of the bench."""
    return LoopSettings(
        turnaround_samples=float(settings.answer_samples),
        sample_rate_hz=settings.num.sample_rate_hz,
        tolerance_samples=tolerance_samples,
        sweep_step_samples=0.75 * settings.slot_samples,
        sweep_reach_samples=8.0 * settings.slot_samples,
    )


class Bench:
    """Opens all radios when it is entered: RadioError if one is not there. Clients are numbered in their order.

    A ``recorder`` gets every round that the server hears to its end; whoever made it closes it.
    """

    def __init__(
        self,
        server: Opener,
        clients: Sequence[Opener],
        settings: BenchSettings,
        loop: Loop | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        count = settings.clients
        require(len(clients) == count, "clients", f"{len(clients)} radios", f"the {count} of the settings")
        self.settings = settings
        self.loop = Loop(count, loop_settings(settings)) if loop is None else loop
        self.gaps = 0  # gaps in the server's receive stream so far
        self.nodes: list[ClientNode] = []
        self._openers = [server, *clients]
        self._radio: Radio | None = None
        self._server = ServerStream(settings.layout, settings.votes, span_rows=_SPAN_ROWS)
        self._recorder = recorder
        if recorder is not None:
            self._server.keep_captures()
        self._engine = RoundEngine(EngineSettings(count))  # counts time in blocks of the server's stream
        self._blocks = 0  # number of blocks that the server has received
        self._under_way: _UnderWay | None = None
        self._place = 0  # sample of the transmit stream at which the server's next block begins
        self._trigger_sample = 0.0  # sample of the receive stream at which the last trigger was heard
        self._changed = threading.Condition()
        self._wanted: tuple[Votes | None] | None = None  # what the coming round is to carry; None: no round is wanted
        self._outcome: RoundOutcome | None = None
        self._failed: str = ""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="bench server", daemon=True)

    def __enter__(self) -> Self:
        radios: list[Radio] = []
        try:
            for open_ in self._openers:
                radios.append(open_())
        except BaseException:
            for radio in radios:
                radio.close()
            raise
        self._radio = radios[0]
        pairs = zip(radios[1:], self._openers[1:], strict=True)
        self.nodes = [ClientNode(n, radio, open_, self.settings) for n, (radio, open_) in enumerate(pairs)]
        for node in self.nodes:
            node.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """All radios fall silent and are let go. May be called twice."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        radio, self._radio = self._radio, None
        if radio is None:
            return
        radio.stop()
        for node in self.nodes:
            node.stop()
        self._thread.join()
        for node in self.nodes:
            node.join()
        radio.close()

    def play(self, votes: Votes | None = None) -> RoundOutcome:
        """The next round. A payload round carries ``votes`` (clients, k), or sync symbols alone; others leave them.

        With the scheme ``energy`` they are entries in units of a vote's energy.

        BenchError when the server's radio is gone.
        """
        if votes is not None:
            kind = self.settings.scheme.dtype
            good = votes.dtype == kind and votes.ndim == 2 and votes.shape[0] == self.settings.clients
            require(
                good and votes.shape[1] > 0,
                "votes",
                f"{votes.dtype} of shape {votes.shape}",
                f"{kind} of shape ({self.settings.clients}, k)",
            )
        with self._changed:
            self._wanted, self._outcome = (votes,), None
            self._changed.notify_all()
            while not (self._outcome or self._failed):
                require(not self._stopping and self._radio is not None, "bench", "closed", "open")
                self._changed.wait(_POLL_SECONDS)
            return self._result()

    def _result(self) -> RoundOutcome:
        if self._outcome is None:
            raise BenchError(self._failed)
        return self._outcome

    # The server's thread.

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:  # whatever it is, who waits for a round must hear of it
            if not self._stopping:
                with self._changed:
                    self._failed = f"the server's radio is gone, and the bench ends: {error}"
                    if not isinstance(error, RadioError):
                        self._failed = f"the bench ends: {type(error).__name__}: {error}"
                    self._changed.notify_all()

    def _serve(self) -> None:
        self._start()
        pause = self.settings.pause_blocks
        while not self._stopping:
            if self._under_way is None and not self._wait_for_wish():
                return
            heard, reopened = self._listen()
            self._blocks += 1
            out = np.zeros(self.settings.stream.block_samples, np.complex64)
            if self._under_way is None:
                pause = max(0, pause - 1)
                if pause == 0 and not reopened and self._begin():
                    out[: len(trigger())] = self.settings.trigger_amplitude * trigger()
            elif self._collect(self._under_way, heard):
                self._under_way, pause = None, self.settings.pause_blocks
            if not reopened:
                self._server_radio().transmit(out, self.settings.stall_seconds)
                self._place += len(out)

    def _wait_for_wish(self) -> bool:
        """False when the bench is closed."""
        with self._changed:
            while self.settings.clock == "lock-step" and self._wanted is None and not self._stopping:
                self._changed.wait(_POLL_SECONDS)
            return not self._stopping

    def _listen(self) -> tuple[list[HeardRound], bool]:
        """One block of the server's; whether its streams had to be opened anew."""
        radio = self._server_radio()
        block = radio.receive(self.settings.stall_seconds)
        if not block.gaps:
            return self._server.push(block.samples), False
        self.gaps += 1
        heard = self._server.gap()
        if not self.settings.reopens:
            return heard + self._server.push(block.samples), False
        radio.stop()
        self._start()
        return heard, True

    def _server_radio(self) -> Radio:
        if self._radio is None:
            raise RadioError("closed")
        return self._radio

    def _start(self) -> None:
        stream = self.settings.stream
        self._server_radio().start(stream)
        self._place = stream.primed_blocks * stream.block_samples

    def _begin(self) -> bool:
        """Plan a round if one is wanted, and arm all clients; return whether its trigger is to be sent now."""
        with self._changed:
            wanted, self._wanted = self._wanted, None
        if wanted is None:
            return False
        (votes,) = wanted
        self._take_gaps()
        plan = self.loop.plan()
        count = self.settings.votes if votes is None else votes.shape[1]
        blocks = self.settings.most_blocks(count)
        self._engine.settings = dataclasses.replace(self._engine.settings, deadline_seconds=float(blocks + 1))
        actions = self._tell(Planned(plan.round, plan.kind))
        for order, node in zip(plan.orders, self.nodes, strict=True):
            own = None if votes is None or order.mode != "payload" else votes[node.number]
            if node.order(order, own):
                actions += self._tell(Armed(node.number, plan.round, None if own is None else len(own)))
            else:
                actions += self._tell(Broke(node.number))
        # An order is taken or refused at once, so that all clients are ready here and the engine fires.
        [expected] = [action for action in actions if isinstance(action, Expect)]
        self._server.expect(expected.round, expected.kind, count)
        self._under_way = _UnderWay(plan, self._place)
        return True

    def _tell(self, event: Event) -> list[Action]:
        return self._engine.take(event, float(self._blocks))

    def _collect(self, under_way: _UnderWay, heard: list[HeardRound]) -> bool:
        """Finish the round if the server has heard its end, or if the engine gives it up; return whether it did."""
        of_this = [one for one in heard if one.round == under_way.plan.round]
        actions = self._tell(Ended(under_way.plan.round) if of_this else Woken())
        if not of_this and not any(isinstance(action, Miss) for action in actions):
            return False
        self._finish(under_way, of_this[0] if of_this else None)
        return True

    def _take_gaps(self) -> None:
        for node in self.nodes:
            for status in node.take():
                if status.event == "gap":
                    self.loop.gap(node.number, status.epoch, status.reason or "")

    def _finish(self, under_way: _UnderWay, heard: HeardRound | None) -> None:
        plan = under_way.plan
        answers: list[Status | None] = [None] * len(self.nodes)
        for node in self.nodes:
            for status in node.take():
                if status.event == "gap":
                    self.loop.gap(node.number, status.epoch, status.reason or "")
                elif status.event == "answered" and status.round == plan.round:
                    answers[node.number] = status
                    self.loop.answered(_answer(node.number, status))
                elif status.event == "abstained":
                    correction = status.correction_samples or 0.0
                    self.loop.abstained(node.number, status.round, status.epoch, correction)
        arrivals = self._arrivals(plan, heard)
        self.loop.measured(arrivals)
        outcome = RoundOutcome(
            plan,
            arrivals,
            tuple(answers),
            self.loop.clients,
            tuple(node.absent for node in self.nodes),
            trigger_at=under_way.trigger_at,
        )
        if heard is not None and self._recorder is not None:
            self._recorder.round(heard, self.settings.layout, outcome.voters)
        if heard is not None and heard.soft_votes is not None and outcome.voters:
            energies = energies_per_voter(heard, outcome.voters)
            outcome = dataclasses.replace(outcome, soft_votes=energies[0] - energies[1], snr_db=heard.mean_snr_db)
        with self._changed:
            self._outcome = outcome
            self._changed.notify_all()

    def _arrivals(self, plan: Plan, heard: HeardRound | None) -> Arrivals:
        if heard is None:
            nothing = np.full(len(self.nodes), np.nan)
            return Arrivals(plan.round, plan.kind, self._trigger_sample, *[nothing] * 5)
        self._trigger_sample = heard.trigger_sample
        return Arrivals(
            plan.round,
            plan.kind,
            heard.trigger_sample,
            heard.offset_samples,
            heard.sigma_samples,
            heard.power_db,
            heard.cfo_rad,
            heard.snr_db,
            heard.place_samples,
        )


@dataclasses.dataclass
class _UnderWay:
    """A round from its trigger to its end."""

    plan: Plan
    trigger_at: int


def _answer(client: int, status: Status) -> Answer:
    assert status.sent is not None
    known = {
        name: math.nan if (value := getattr(status, name)) is None else value
        for name in ("trigger_sample", "cfo_rad", "snr_db")
    }
    correction = status.correction_samples or 0.0
    return Answer(client, status.round, status.epoch, status.sent, correction, **known)
