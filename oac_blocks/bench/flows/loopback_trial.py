# SPDX-License-Identifier: GPL-3.0-or-later
"""How well does the loopback vote? Random votes through it, and what came out beside the closed form."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pmt
import scipy.special
from gnuradio import blocks, gr

from oac_blocks.bench.flows.loopback import LoopbackSettings, loopback
from oac_blocks.blocks.instruments.vote_majority import vote_majority
from oac_blocks.blocks.instruments.vote_probe import vote_probe
from oac_blocks.blocks.instruments.vote_source import vote_source
from oac_blocks.blocks.support import pdus
from oac_blocks.dsp.bounds import mv_error_probability
from oac_blocks.dsp.checks import require
from oac_blocks.record.recorder import Recorder

_STALL_SECONDS = 120.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Trial:
    """``decisions`` is a digest of all soft votes' signs: equal for equal decisions."""

    rounds: int
    payload_rounds: int
    error_rate: float  # over the payload rounds
    standard_error: float  # of it, from the scatter between rounds: votes of one round share their fading
    expected_error_rate: float | None  # by the closed form; None without fading or noise
    first_payload_round: int | None
    states: tuple[str, ...]
    offset_rms_samples: float  # as measured in payload rounds, all clients
    offset_max_samples: float
    triggers_missed: int  # by all clients together
    slips: int
    dropped: int
    seconds: float
    samples: int
    decisions: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which knows no NaN."""
        values = dataclasses.asdict(self)
        for name in ("standard_errors_off", "rounds_per_second", "samples_per_second"):
            values[name] = getattr(self, name)
        return {name: None if value != value else value for name, value in values.items()}

    @property
    def rounds_per_second(self) -> float:
        return self.rounds / self.seconds

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds

    @property
    def standard_errors_off(self) -> float | None:
        """How far the error rate is from the closed form, in its own standard errors."""
        if self.expected_error_rate is None or not self.standard_error > 0:
            return None
        return (self.error_rate - self.expected_error_rate) / self.standard_error


class _Record(gr.basic_block):
    """What happened, round by round."""

    def __init__(self) -> None:
        gr.basic_block.__init__(self, name="OAC record of a trial", in_sig=None, out_sig=None)
        self.error_rates: list[float] = []
        self.payload_rounds: list[int] = []
        self.offsets: list[Any] = []
        self.rounds = 0
        self.decisions = hashlib.sha256()
        for port, handler in (
            ("error_rate", self._on_error_rate),
            ("soft_votes", self._on_soft_votes),
            ("arrivals", self._on_arrivals),
        ):
            self.message_port_register_in(pmt.intern(port))
            self.set_msg_handler(pmt.intern(port), handler)

    def _on_error_rate(self, message: Any) -> None:
        report = pdus.read_notice(message)
        if isinstance(report, dict):
            self.error_rates.append(report["error_rate"])

    def _on_soft_votes(self, message: Any) -> None:
        pdu = pdus.read(message, np.float32)
        if not isinstance(pdu, str):
            self.decisions.update(np.packbits(pdu.data > 0).tobytes())

    def _on_arrivals(self, message: Any) -> None:
        arrivals = pdus.read_notice(message)
        self.rounds += 1
        if isinstance(arrivals, dict) and arrivals["kind"] == "payload":
            self.payload_rounds.append(arrivals["round"])
            self.offsets.append(arrivals["offset_samples"])


def expected_error_rate(clients: int, snr_db: float, repeats: int = 1) -> float:
    """Of N clients' fair coins through independent Rayleigh fading, where there is a majority."""
    votes_for = np.arange(clients + 1)
    weight = scipy.special.binom(clients, votes_for) * 0.5**clients
    weight[2 * votes_for == clients] = 0
    wrong = mv_error_probability(votes_for, clients - votes_for, 10 ** (snr_db / 10), repeats)
    return float(np.sum(weight * wrong) / np.sum(weight))


def run_trial(
    settings: LoopbackSettings, on_round: Callable[[int], None] | None = None, recorder: Recorder | None = None
) -> Trial:
    """Run ``settings.rounds`` rounds; RuntimeError if they come to a halt. ``on_round`` is told how many are done."""
    require(settings.rounds > 0, "rounds", settings.rounds, "at least 1 for a trial")
    flow = loopback(settings)
    if recorder is not None:
        flow.receiver.record(recorder)
    voters = Voters(flow)
    flow.start()
    begin = time.perf_counter()
    try:
        _watch(flow, voters, settings.rounds, on_round or _nobody)
    finally:
        seconds = time.perf_counter() - begin
        flow.stop()
        flow.wait()
    return _summary(flow, voters, seconds)


class Voters:
    """Random votes for all clients, and the probe that counts the errors. It keeps the blocks: GNU Radio does not."""

    def __init__(self, flow: loopback) -> None:
        settings = flow.settings
        seeds = np.random.SeedSequence(settings.seed).generate_state(settings.clients).tolist()
        self.sources = [vote_source(settings.votes, 0, seed=seed) for seed in seeds]
        self.majority, self.probe, self.record = vote_majority(settings.clients), vote_probe(), _Record()
        self.sink = blocks.null_sink(gr.sizeof_float)
        for source, client in zip(self.sources, flow.clients, strict=True):
            flow.msg_connect((flow.control, "next"), (source, "next"))
            flow.msg_connect((source, "votes"), (client, "payload"))
            flow.msg_connect((source, "votes"), (self.majority, "votes"))
        flow.msg_connect((self.majority, "majority"), (self.probe, "reference"))
        flow.msg_connect((flow.receiver, "soft_votes"), (self.probe, "soft_votes"))
        flow.msg_connect((flow.receiver, "soft_votes"), (self.record, "soft_votes"))
        flow.msg_connect((flow.receiver, "arrivals"), (self.record, "arrivals"))
        flow.msg_connect((self.probe, "error_rate"), (self.record, "error_rate"))
        flow.connect(self.probe, self.sink)

    @property
    def complete(self) -> bool:
        """Has every payload round been compared?"""
        return len(self.record.error_rates) + self.probe.dropped == len(self.record.payload_rounds)


def _nobody(_rounds: int) -> None:
    pass


def _watch(flow: loopback, voters: Voters, rounds: int, on_round: Callable[[int], None]) -> None:
    """Until all rounds are done; what does not move any more is reported instead of waited for."""
    done, last_progress = -1, time.monotonic()
    while not (voters.record.rounds >= rounds and voters.complete):
        if voters.record.rounds > done:
            done, last_progress = voters.record.rounds, time.monotonic()
            on_round(done)
        if time.monotonic() - last_progress > _STALL_SECONDS:
            waiting = flow.control.waiting_for
            cause = f"waiting for clients {list(waiting)}" if waiting else "the server heard no trigger"
            raise RuntimeError(f"round {done} did not end within {_STALL_SECONDS:.0f} s: {cause}")
        time.sleep(_LOOK_SECONDS)
    on_round(voters.record.rounds)


def _summary(flow: loopback, voters: Voters, seconds: float) -> Trial:
    settings, record = flow.settings, voters.record
    rates = np.array(record.error_rates)
    offsets = np.array(record.offsets).ravel()
    offsets = offsets[np.isfinite(offsets)]
    faded = settings.fading == "rayleigh" and settings.snr_db is not None
    answered = [client.triggers for client in flow.clients]
    return Trial(
        rounds=record.rounds,
        payload_rounds=len(record.payload_rounds),
        error_rate=float(rates.mean()) if len(rates) else math.nan,
        standard_error=float(rates.std(ddof=1) / math.sqrt(len(rates))) if len(rates) > 1 else math.nan,
        expected_error_rate=(
            expected_error_rate(settings.clients, settings.snr_db, settings.repeats)
            if faded and settings.snr_db is not None
            else None
        ),
        first_payload_round=min(record.payload_rounds, default=None),
        states=tuple(view.state for view in flow.calibrator.clients),
        offset_rms_samples=float(np.sqrt(np.mean(offsets**2))) if len(offsets) else math.nan,
        offset_max_samples=float(np.abs(offsets).max()) if len(offsets) else math.nan,
        triggers_missed=sum(record.rounds - heard for heard in answered),
        slips=sum(flow.up.slips) + sum(flow.down.slips),
        dropped=sum(block.dropped for block in flow.counting_blocks) + voters.probe.dropped + voters.majority.dropped,
        seconds=seconds,
        samples=record.rounds * flow.round_samples,
        decisions=record.decisions.hexdigest(),
    )
