# SPDX-License-Identifier: GPL-3.0-or-later
"""The closed loop as a block: what the server heard comes in, what the clients are to do goes out."""

from __future__ import annotations

import dataclasses
import secrets
from typing import Any

import numpy as np
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.blocks.support.message_order import take_waiting
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform.round_layout import agreed_in
from oac_blocks.loop.closed_loop import Answer, Arrivals, ClientView, Loop, LoopSettings

_ARRIVALS, _STATUS = pmt.intern("arrivals"), pmt.intern("status")
_ORDERS, _PLAN, _REPORT = pmt.intern("orders"), pmt.intern("plan"), pmt.intern("report")
_ANSWER_FIELDS = tuple(field.name for field in dataclasses.fields(Answer))
_ABSTAINED_FIELDS = ("client", "round", "epoch", "correction_samples")
_ARRAYS = ("offset_samples", "sigma_samples", "power_db", "cfo_rad", "snr_db")
_SWEEP_STEP_SLOTS, _SWEEP_REACH_SLOTS = 0.75, 8.0


class drift_calibrator(gr.basic_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Drift calibrator: arrival offsets in, corrections out; ``oac_blocks.loop.closed_loop`` is the maths.

    Messages (docs/rounds.md has them all):

    - ``arrivals`` in, from the server receiver: the end of a round;
    - ``status`` in, from all clients: which correction an answer used, and whose stream broke;
    - ``orders`` out, to all clients, and then ``plan`` out, to round control: the coming round;
    - ``report`` out: ``round``, and vectors ``offset_samples``, ``sigma_samples``, ``correction_samples``,
      ``drift_ppm``, ``cfo_rad``, ``power_db`` and ``gain_db`` with one element for each client, and their ``states``
      in one text.

    The waveform's numbers that the receiver tells with its arrivals go on with ``orders`` and ``report``.

    A client that answers and is not heard, or that would have been too late, is tried earlier and later in steps of
    three quarters of ``slot_samples``, up to eight of them: offsets within half a slot are heard.

    The first orders and plan go out when the flowgraph starts. ``enabled`` off sends every client corrections of zero:
    what radios do that are left alone. On again, all of them are calibrated anew.
    """

    def __init__(
        self,
        clients: int = 2,
        enabled: bool = True,
        turnaround_samples: int = 131_072,
        sample_rate_hz: float = 20e6,
        tolerance_samples: float = 0.5,
        walk_ppm: float = 0.1,
        power_control: bool = False,
        slot_samples: int = 8192,
    ) -> None:
        slot = integer("slot_samples", slot_samples, 4, 1 << 31)
        self._count = integer("clients", clients, 1, 64)
        self._settings = LoopSettings(
            turnaround_samples=turnaround_samples,
            sample_rate_hz=sample_rate_hz,
            tolerance_samples=tolerance_samples,
            walk_ppm=walk_ppm,
            power_control=power_control,
            sweep_step_samples=_SWEEP_STEP_SLOTS * slot,
            sweep_reach_samples=_SWEEP_REACH_SLOTS * slot,
        )
        gr.basic_block.__init__(self, name="OAC Drift Calibrator", in_sig=None, out_sig=None)
        self._drops = Drops(self.logger)
        self._enabled = bool(enabled)
        self._run = 0
        self._agreed: dict[str, float | int] = {}  # the waveform's numbers, as the receiver has told them
        self._loop = self._new_loop()
        for port, handler in ((_ARRIVALS, self._on_arrivals), (_STATUS, self._on_status)):
            self.message_port_register_in(port)
            self.set_msg_handler(port, handler)
        for port in (_ORDERS, _PLAN, _REPORT):
            self.message_port_register_out(port)

    def _new_loop(self) -> Loop:
        loop = Loop(self._count, self._settings)
        loop.enabled = self._enabled
        return loop

    @property
    def clients(self) -> tuple[ClientView, ...]:
        """What the loop knows of each."""
        return self._loop.clients

    @property
    def round(self) -> int:
        """The round that is planned or under way."""
        return self._loop.round

    @property
    def all_tracking(self) -> bool:
        return all(view.state == "tracking" for view in self._loop.clients)

    @property
    def dropped(self) -> int:
        """Messages that could not be used."""
        return self._drops.count

    def set_enabled(self, enabled: bool) -> None:
        """From the next round on."""
        self._enabled = bool(enabled)

    def start(self) -> bool:
        self._loop = self._new_loop()
        # Clients tell by it that rounds are counted anew. Nothing is decided by its value.
        self._run = secrets.randbits(31)
        self._send_plan()
        return True

    def _on_status(self, message: Any) -> None:
        try:
            status = pdus.read_notice(message)
            if isinstance(status, str):
                raise ValueError(status)
            if status["event"] == "answered":
                self._loop.answered(Answer(**{name: status[name] for name in _ANSWER_FIELDS}))
            elif status["epoch"] != self._loop.epoch(status["client"]):
                # Of a gap, or any other: the message that told of the gap may have been lost.
                self._loop.gap(status["client"], status["epoch"], status.get("reason", "its status shows a new epoch"))
            elif status["event"] == "abstained":
                self._loop.abstained(*(status[name] for name in _ABSTAINED_FIELDS))
        except Exception as error:  # one that leaves a handler is lost, and the exit code stays 0
            self._drops.add(f"a status: {error!r}")

    def _on_arrivals(self, message: Any) -> None:
        take_waiting(self, "status", self._on_status)  # the answers came before what was heard of them
        try:
            heard = pdus.read_notice(message)
            if isinstance(heard, str):
                raise ValueError(heard)
            if heard["round"] < self._loop.round:
                return  # a repeated or late one: that round is over, and what it led to is under way
            self._agreed = agreed_in(heard) or self._agreed  # a missed round tells none
            arrays = {name: np.asarray(heard[name], np.float64) for name in _ARRAYS}
            if (place := heard.get("place_samples")) is not None:
                arrays["place_samples"] = np.asarray(place, np.float64)
            self._loop.measured(Arrivals(heard["round"], heard["kind"], heard["trigger_sample"], **arrays))
        except Exception as error:
            self._drops.add(f"arrivals: {error!r}")
            return
        self._loop.enabled = self._enabled
        self._report()
        self._send_plan()

    def _send_plan(self) -> None:
        plan = self._loop.plan()
        for order in plan.orders:
            self.message_port_pub(_ORDERS, pdus.notice(dataclasses.asdict(order) | {"run": self._run} | self._agreed))
        self.message_port_pub(_PLAN, pdus.notice({"round": plan.round, "kind": plan.kind, "run": self._run}))

    def _report(self) -> None:
        views = self._loop.clients
        if not self._loop.enabled:  # none is ordered then, whatever the loop still knows
            views = tuple(dataclasses.replace(view, correction_samples=0.0) for view in views)
        names = ("offset_samples", "sigma_samples", "correction_samples", "drift_ppm", "cfo_rad", "power_db", "gain_db")
        vectors = {name: pdus.float64_vector([getattr(view, name) for view in views]) for name in names}
        states = ", ".join(view.state for view in views)
        about = {"round": self._loop.round - 1, **vectors, "states": states, **self._agreed}
        self.message_port_pub(_REPORT, pdus.notice(about))
