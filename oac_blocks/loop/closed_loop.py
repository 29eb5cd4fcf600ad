# SPDX-License-Identifier: GPL-3.0-or-later
"""Close the calibration loop: turn the server's measurements of one round into orders for the next round.

A round has three steps: ``plan`` gives orders for all clients, ``answered`` (or ``abstained``) reports each client, and
``measured`` takes the server's measurements. A measurement counts only together with an answer of the same client,
round and epoch. In payload rounds only clients that are tracking transmit; in acquire rounds only the other clients do.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from oac_blocks.dsp import bounds
from oac_blocks.dsp.checks import MAX_PPM, integer, require
from oac_blocks.dsp.waveform.round_layout import Kind
from oac_blocks.dsp.waveform.trigger import trigger
from oac_blocks.loop.client_loop import ClientLoop
from oac_blocks.loop.states import (
    STATES,
    Answer,
    Arrivals,
    Change,
    ClientView,
    Guess,
    LoopSettings,
    Mode,
    Order,
    Plan,
    State,
)

__all__ = [
    "STATES",
    "Answer",
    "Arrivals",
    "Change",
    "ClientView",
    "Guess",
    "Loop",
    "LoopSettings",
    "Order",
    "Plan",
    "State",
]
_MOST_CHANGES = 10_000


class Loop:
    """The loop of all clients. Rounds count from 0."""

    def __init__(
        self, clients: int, settings: LoopSettings | None = None, guesses: Mapping[int, Guess] | None = None
    ) -> None:
        count = integer("clients", clients, 1)
        guesses = {} if guesses is None else guesses
        for client in guesses:
            integer("client of a guess", client, 0, count - 1)
        self.settings = LoopSettings() if settings is None else settings
        self.changes: deque[Change] = deque(maxlen=_MOST_CHANGES)
        self._clients = [
            ClientLoop(n, self.settings, guesses.get(n, Guess()), self.changes.append) for n in range(count)
        ]
        self._answers: dict[int, Answer] = {}
        self._abstained: set[int] = set()  # clients that had their order, detected the trigger and could not answer
        self._orders: dict[int, Order] = {}
        self._round = 0
        self._kind: Kind | None = None
        self._enabled = True
        self._now = 0.0  # seconds since the first trigger, by the server's samples
        self._trigger_sample = math.nan
        self._interval = 2 * self.settings.turnaround_samples / self.settings.sample_rate_hz

    @property
    def round(self) -> int:
        """Return the round that is planned or in progress."""
        return self._round

    @property
    def clients(self) -> tuple[ClientView, ...]:
        """Return the state of each client for displays and logs."""
        return tuple(client.view(self._now, self._interval) for client in self._clients)

    @property
    def enabled(self) -> bool:
        """Return whether the loop is on; if it is off, every round is a payload round without corrections."""
        return self._enabled

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        if enabled != self._enabled:
            self._enabled = bool(enabled)
            self._begin_anew("calibration is on" if enabled else "calibration is off")

    def restart(self) -> None:
        """Forget all measurements and acquire all clients again."""
        self._begin_anew("restarted")

    def epoch(self, client: int) -> int:
        """Return the epoch that orders to this client name."""
        return self._client(client).epoch

    def gap(self, client: int, epoch: int, reason: str) -> None:
        """Handle a break in a client's stream or a new epoch in its status; a repeated report counts once."""
        one = self._client(client)
        if integer("epoch", epoch, 0) == one.epoch and one.state != "uncalibrated":
            return
        one.gap(self._round, epoch, reason)
        self._answers.pop(one.client, None)

    def answered(self, answer: Answer) -> None:
        """Take a client's report of its answer."""
        one = self._client(answer.client)
        if answer.round != self._round or answer.epoch < one.epoch:
            return  # the answer is from an earlier round or from before a gap
        if answer.epoch > one.epoch:
            self.gap(one.client, answer.epoch, "its answer shows a new epoch")
            return
        self._answers[one.client] = answer

    def abstained(self, client: int, round_: int, epoch: int, correction_samples: float) -> None:
        """Handle a client that detected the trigger but could not answer with this correction, for example too late.

        For a search this equals an answer that the server does not hear: the search continues elsewhere.
        """
        one = self._client(client)
        order = self._orders.get(one.client)
        if order is None or (round_, epoch) != (order.round, one.epoch):
            return
        if correction_samples == order.correction_samples:
            self._abstained.add(one.client)

    def measured(self, arrivals: Arrivals) -> None:
        """Take the server's measurements and end the round; a round that was already measured is ignored."""
        count = len(self._clients)
        shape = arrivals.offset_samples.shape
        require(shape == (count,), "offset_samples", f"shape {shape}", f"of shape ({count},), one for each client")
        if arrivals.round < self._round:
            return
        self._advance_clock(arrivals.trigger_sample)
        for one in self._clients:
            self._measured_one(one, arrivals)
            one.pass_round()
        self._control_power()
        self._answers.clear()
        self._abstained.clear()
        self._orders.clear()
        self._round, self._kind = arrivals.round + 1, None

    def plan(self) -> Plan:
        """Return the plan of the coming round.

        A repeated call within a round keeps its kind; a client whose stream broke in between stays silent.
        """
        if self._kind is None:
            self._kind = self._next_kind()
        if self._kind == "acquire":
            for one in self._clients:
                if one.state != "tracking":
                    one.ask(self._round)
        orders = tuple(self._order(one, self._kind) for one in self._clients)
        self._orders = {order.client: order for order in orders}
        return Plan(self._round, self._kind, orders)

    def _next_kind(self) -> Kind:
        if not self._enabled:
            return "payload"
        # If no client is tracking, an acquire round delays no payload, so clients are asked before their turn.
        anybody = any(one.state == "tracking" for one in self._clients)
        ask = any(one.due(self._round) for one in self._clients) or not anybody
        return "acquire" if ask else "payload"

    def _order(self, one: ClientLoop, kind: Kind) -> Order:
        if not self._enabled:
            return Order(one.client, self._round, one.epoch, "payload", 0.0, one.power.gain_db)
        tracking = one.state == "tracking"
        mode: Mode = "silent"
        if kind == "payload" and tracking:
            mode = "payload"
        elif kind == "acquire" and not tracking:
            mode = "acquire"
        correction = one.correction(self._now, self._interval)
        drift_ppm = min(max(one.drift.ppm, -MAX_PPM), MAX_PPM) if math.isfinite(one.drift.ppm) else 0.0
        return Order(one.client, self._round, one.epoch, mode, correction, one.power.gain_db, drift_ppm)

    def _measured_one(self, one: ClientLoop, arrivals: Arrivals) -> None:
        order, answer = self._orders.get(one.client), self._answers.get(one.client)
        if order is None or order.mode == "silent" or order.round != arrivals.round:
            return
        if answer is None:
            tried = one.client in self._abstained
            one.missed(arrivals.round, "could not answer in time" if tried else "did not answer", tried)
            return
        trigger_variance = _trigger_variance(answer.snr_db)
        one.drift.heard(answer.trigger_sample, arrivals.trigger_sample, math.sqrt(trigger_variance))
        values = (arrivals.offset_samples, arrivals.sigma_samples, arrivals.power_db, arrivals.cfo_rad, arrivals.snr_db)
        offset, sigma, power_db, cfo_rad, snr_db = (float(array[one.client]) for array in values)
        if arrivals.kind != order.mode or (answer.sent == "acquire") != (order.mode == "acquire"):
            return  # the order came too late, so the answer shows nothing
        if not math.isfinite(offset):
            one.missed(arrivals.round, "answered, not heard")
            return
        one.note(offset, cfo_rad, power_db, trigger_variance)
        if not self._enabled:
            return
        if snr_db < self.settings.least_snr_db:
            one.missed(arrivals.round, f"heard at only {snr_db:.1f} dB")
            return
        if not math.isfinite(sigma):
            sigma = self.settings.tolerance_samples / 2
        one.power.heard(power_db, order.gain_db)
        place = float(np.nan_to_num(arrivals.place_samples[one.client]))
        # The answer was stretched by the drift up to this position.
        used = answer.correction_samples + 1e-6 * order.drift_ppm * place
        one.heard(arrivals.round, used, offset, sigma**2 + trigger_variance, self._now, place)

    def _control_power(self) -> None:
        target = self.settings.target_power_db
        if target is None:
            paths = [one.power.path_db for one in self._clients if one.state == "tracking"]
            heard = [path for path in paths if math.isfinite(path)]
            target = min(heard) + self.settings.largest_gain_db if heard else math.nan
        for one in self._clients:
            one.power.towards(target)

    def _advance_clock(self, trigger_sample: float) -> None:
        elapsed = (trigger_sample - self._trigger_sample) / self.settings.sample_rate_hz
        if elapsed > 0:  # false for the first trigger, and after the server's count began again
            self._interval = elapsed
        self._now += self._interval
        # A round without a trigger takes one interval, and the next round counts from here.
        if math.isfinite(trigger_sample):
            self._trigger_sample = trigger_sample

    def _begin_anew(self, reason: str) -> None:
        self._kind = None
        self._answers.clear()
        self._abstained.clear()
        for one in self._clients:
            one.restart(self._round, reason)

    def _client(self, client: int) -> ClientLoop:
        return self._clients[integer("client", client, 0, len(self._clients) - 1)]


@lru_cache(maxsize=1)
def _trigger_variance_at_0_db() -> float:
    return bounds.joint_crlb(trigger(), 1.0)[0]


def _trigger_variance(snr_db: float) -> float:
    """Return the variance of the client's own timing of the trigger, which adds to the error of its answer."""
    return _trigger_variance_at_0_db() * 10 ** (-snr_db / 10) if math.isfinite(snr_db) else 0.0
