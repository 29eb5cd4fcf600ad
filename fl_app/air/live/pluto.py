# SPDX-License-Identifier: GPL-3.0-or-later
"""The air itself: ADALM-Plutos, real or virtual, one for the server and one for each client.

Before the first round the radios are looked for and aligned; a bench that cannot be is refused with its reason. From
then on every burst also measures the clients, and rounds of acquisition go in between when one has lost its time. A
client whose radio is gone does not vote, and the others go on.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Air, Unseen, Uplink
from fl_app.air.live.flow_bursts import MAX_CLIENTS, CarriedBurst, ballots_of_all, uplink_in_bursts
from fl_app.air.observed import Observation, radio_observation
from fl_app.air.payload import check_payload
from fl_app.air.scales import common_scale
from fl_app.air.settings import AirSettings
from oac_blocks.bench.threads.bench import Bench, BenchError, RoundOutcome
from oac_blocks.bench.threads.plan import bearable_offset_samples
from oac_blocks.bench.threads.radios import Alignment, RadioPlan, align
from oac_blocks.dsp.checks import integer, require
from oac_blocks.errors import OacError
from oac_blocks.loop.closed_loop import LoopSettings
from oac_blocks.radio.base import RadioError
from oac_blocks.rounds.delivery import Delivery, DeliveryRules

if TYPE_CHECKING:
    from oac_blocks.bench.config import RadiosSection


class PlutoError(OacError, RuntimeError):
    """The radios do not do, in a sentence."""


class PlutoAir(Air):
    """Schemes that need no phase. ``open`` looks for the radios and aligns them; a resumed run calibrates anew."""

    def __init__(
        self, settings: AirSettings, n_clients: int, seed: int, radios: RadiosSection, min_clients: int = 1
    ) -> None:
        """min_clients: a burst counts if the votes of so many clients are heard."""
        self.n_clients = integer("n_clients", n_clients, 1, MAX_CLIENTS)
        integer("seed", seed, 0)
        count = len(radios.clients)
        require(count == n_clients, "clients of [radios]", f"{count} uris", f"one uri for each of {n_clients} clients")
        self.settings, self.scheme = settings, settings.scheme
        self.alignment: Alignment | None = None
        self._radios = radios
        self._rules = DeliveryRules(min_clients, most_rounds=radios.patience_rounds)
        self._plan = RadioPlan.of(radios, settings.sample_rate_hz)
        self._bench: Bench | None = None
        self._close: Any = None

    @property
    def last(self) -> RoundOutcome | None:
        """The last round of the radios, for displays."""
        return self._last if self._bench is not None else None

    @property
    def tolerance_samples(self) -> float:
        """How far off clients may be heard before the run: as set, or what the prefix bears."""
        return self._radios.tolerance_samples or bearable_offset_samples(self.settings.numerology())

    def open(self) -> None:
        """Look for the radios and align them, unless that was done; PlutoError if it fails."""
        if self._bench is not None:
            return
        how = {"repeats": self.settings.repeats, "groups": self.settings.groups, "scheme": self.scheme}
        bench_settings = self._plan.bench_settings(self.settings.numerology(), **how)
        tolerance = self.tolerance_samples
        # The loop itself comes as close as it can, whatever a run asks for at least.
        close = self._radios.tolerance_samples or min(tolerance, LoopSettings().tolerance_samples)
        try:
            self._plan.probe()
            bench = self._plan.bench(bench_settings, self._plan.loop(bench_settings, close))
            bench.__enter__()
        except (RadioError, ValueError) as error:
            raise PlutoError(f"the radios are not ready: {error}") from None
        self._bench, self._close = bench, weakref.finalize(self, bench.close)
        try:
            alignment = align(bench, tolerance, self._radios.align_rounds)
        except BaseException as error:
            self.close()
            if isinstance(error, BenchError):
                raise PlutoError(f"the radios could not be aligned: {error}") from None
            raise
        self.alignment, self._last = alignment, alignment.last
        if not alignment.met:
            self.close()
            why = alignment.reason(self._plan.clients)
            hint = ""
            if alignment.only_scattered:
                bearable = bearable_offset_samples(self.settings.numerology())
                tolerated = f"votes tolerate {bearable:g} here, and 16 is allowed"
                hint = f". [radios] tolerance_samples is {tolerance:g}; {tolerated}"
            raise PlutoError(f"the radios were not aligned within {alignment.rounds} rounds: {why}{hint}")

    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        values, numbers = check_payload(payload, clients, t, self.scheme, self.n_clients)
        self.open()
        scale = common_scale(self.scheme, values)
        ballots = ballots_of_all(self.scheme.signed_energies(values, scale), numbers, self.n_clients)

        def send(first: int, stop: int) -> CarriedBurst:
            outcome = self._send(np.ascontiguousarray(ballots[:, first:stop]), numbers.tolist())
            assert outcome.soft_votes is not None
            return CarriedBurst(outcome.soft_votes, outcome.snr_db, outcome.heard)

        return uplink_in_bursts(values.shape[1], numbers, self.settings, send, scale)

    def observe(self) -> Observation | None:
        last = self.last
        if last is None:
            return None
        states = [gone or view.state for gone, view in zip(last.absent, last.views, strict=True)]
        about = (last.offset_samples, last.arrivals.power_db, last.arrivals.cfo_rad)
        return radio_observation(states, *about, self.settings.sample_rate_hz)

    def _send(self, votes: npt.NDArray[Any], clients: Sequence[int]) -> RoundOutcome:
        """Play rounds until one of them counts; PlutoError if there are too many."""
        assert self._bench is not None
        delivery = Delivery(clients, votes.shape[1], self._rules)
        while True:
            try:
                outcome = self._last = self._bench.play(votes)
            except BenchError as error:
                raise PlutoError(str(error)) from None
            entries = 0 if outcome.soft_votes is None else len(outcome.soft_votes)
            verdict, reason = delivery.judge(outcome.heard, entries, outcome.able)
            if verdict == "accept":
                return outcome
            if verdict == "give up":
                last = Alignment(False, 0, outcome, self.tolerance_samples, np.nan, np.nan)
                raise PlutoError(f"{reason}: {last.reason(self._plan.clients)}")

    def close(self) -> None:
        """Silence all radios and let go of them. An uplink after it begins anew."""
        self._bench = None
        if self._close is not None:
            self._close()
            self._close = None
