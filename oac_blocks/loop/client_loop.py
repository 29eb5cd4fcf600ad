# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow one client in the calibration loop: its state, the reason for it, and the correction for its next answer.

    uncalibrated -> acquiring (asked) -> fine (heard once) -> tracking (inside the tolerance)

A client can leave ``tracking`` in two ways. Several outliers that agree are a jump, and the client goes back to
``fine``. A gap in its stream, outliers that do not agree, and silence make it ``uncalibrated``. It is then asked again,
at growing intervals if it does not answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from oac_blocks.loop.drift import ClockDrift
from oac_blocks.loop.power import PowerControl
from oac_blocks.loop.states import Change, ClientView, Guess, LoopSettings, State
from oac_blocks.loop.tracker import Tracker

_USUAL_SIGMAS = 3.0
_SWEEP_WAIT_ROUNDS = 4
_JUMPS_APART_ROUNDS = 32  # rounds; more frequent jumps are not jumps but multipath or a walking clock


class ClientLoop:
    """State machine of one client."""

    def __init__(self, client: int, settings: LoopSettings, guess: Guess, tell: Callable[[Change], None]) -> None:
        self.client, self.epoch = client, 0
        self.state: State = "uncalibrated"
        self.reason = "not asked yet"
        self.power = PowerControl(settings, guess.gain_db)
        self.drift = ClockDrift(settings.sample_rate_hz, settings.walk_ppm)
        self._settings, self._guess, self._tell = settings, guess, tell
        self._tracker = Tracker(settings)
        self._known = guess.correction_samples  # the best known start for a search
        self._taken_at = 0.0  # seconds of the loop's clock at the last measurement that was followed
        self._ask_at = 0  # round in which the client is asked next
        self._tries = 0  # searches, since the client was last heard, that it answered or was too late to answer
        self._failures = 0  # falls since it last tracked for long
        self._silent = False  # whether silence was the reason for the last fall
        self._misses = 0
        self._fine_tries = 0
        self._outliers: list[tuple[float, bool]] = []  # corrections, and whether multipath might explain them
        # Samples into the answer at which a measurement was taken before the clock's rate was known.
        self._blind_place = 0.0
        self._first_payload = False
        self._rounds_since_jump = _JUMPS_APART_ROUNDS
        self._rounds_in_state = 0
        self._wide = False
        self._offset = self._cfo = self._power = math.nan
        self._trigger_variance = 0.0  # samples^2, of the client's own timing of its last trigger

    def due(self, round_: int) -> bool:
        """Return whether a round should be spent to ask this client."""
        return self.state != "tracking" and round_ >= self._ask_at

    def ask(self, round_: int) -> None:
        """Ask the client for its sequence in this round."""
        if self.state == "uncalibrated":
            self._go("acquiring", round_, "asked for its sequence")

    def correction(self, now: float, interval: float) -> float:
        """Return the correction for an answer ``interval`` seconds from ``now``."""
        if self.state in ("fine", "tracking"):
            return self._tracker.predict(now + interval - self._taken_at)[0]
        starts = self._starts()
        return starts[self._tries % len(starts)]

    def _starts(self) -> list[float]:
        """Return the corrections to search with.

        The list begins with the last correction, the guess and zero, each twice because noise may be the reason for a
        miss. Then the search moves further and further away, because streams that have just started may differ by more
        than half a slot. Every other attempt returns to the last correction, because the client may only have been
        drowned out.
        """
        near = list(dict.fromkeys((self._known, self._guess.correction_samples, 0.0)))
        step = self._settings.sweep_step_samples
        count = math.floor(self._settings.sweep_reach_samples / step)
        away = [self._guess.correction_samples + sign * n * step for n in range(1, count + 1) for sign in (-1, 1)]
        return [start for start in near for _ in range(2)] + [start for far in away for start in (far, self._known)]

    def view(self, now: float, interval: float) -> ClientView:
        """Return the client's state for displays and logs."""
        sigma = math.nan
        if self.state in ("fine", "tracking"):
            # The correction is uncertain, and the client's timing of the coming trigger adds its own error.
            variance = self._tracker.predict(now + interval - self._taken_at)[1] + self._trigger_variance
            sigma = math.sqrt(variance)
        return ClientView(
            self.client,
            self.state,
            self.reason,
            self.epoch,
            self._offset,
            sigma,
            self._tracker.scatter_samples,
            self.correction(now, interval),
            self.drift.ppm,
            self._cfo,
            self._power,
            self.power.gain_db,
            self._rounds_in_state,
        )

    def gap(self, round_: int, epoch: int, reason: str) -> None:
        """Handle a break in the client's stream: earlier measurements are no longer valid."""
        self.epoch = epoch
        self.drift.restart()
        self._tracker.forget()
        if self._silent:  # the client is back
            self._failures, self._silent = 0, False
        self.fall(round_, reason)

    def fall(self, round_: int, reason: str, silent: bool = False) -> None:
        """Go to uncalibrated and ask again: at once if the client did well before, otherwise later each time."""
        if self.state in ("fine", "tracking"):
            self._known = self._tracker.predict(0.0)[0]
        settled = self.state == "tracking" and self._rounds_in_state >= self._settings.settled_rounds
        self._failures = 0 if settled else self._failures + 1
        wait = min(2 ** min(self._failures, 30) // 2, self._settings.largest_wait_rounds)
        # The client is present, and there are still places to search.
        if 0 < self._tries < len(self._starts()):
            wait = min(wait, _SWEEP_WAIT_ROUNDS)
        self._ask_at = round_ + wait
        self._silent = silent
        self._go("uncalibrated", round_, reason)

    def restart(self, round_: int, reason: str) -> None:
        """Go to uncalibrated, ask again at once, and forget the learnt walk and scatter."""
        self.fall(round_, reason)
        self._ask_at = self._failures = self._tries = 0
        self._tracker.forget()

    def pass_round(self) -> None:
        """Count a round in the present state."""
        self._rounds_in_state += 1
        self._rounds_since_jump += 1

    def missed(self, round_: int, reason: str, tried: bool = True) -> None:
        """Handle a missing answer; if the client ``tried`` to answer, the search continues elsewhere."""
        if self.state == "acquiring":
            self._tries += tried
            self.fall(round_, reason, silent=True)
        elif self.state in ("fine", "tracking"):
            self._misses += 1
            if self._misses >= self._settings.patience_rounds:
                self.fall(round_, f"{reason}, {self._misses} rounds in a row", silent=True)

    def note(self, offset_samples: float, cfo_rad: float, power_db: float, trigger_variance: float) -> None:
        """Store a measurement, whether or not it is used."""
        self._offset, self._cfo, self._power = offset_samples, cfo_rad, power_db
        self._trigger_variance = trigger_variance

    def heard(
        self, round_: int, used: float, offset: float, variance: float, now: float, place_samples: float = 0.0
    ) -> None:
        """Handle an answer with the correction ``used`` that arrived ``offset`` samples late.

        The offset was measured ``place_samples`` into the answer, and ``used`` includes the stretch up to there. The
        samples of a fast clock arrive earlier and earlier; the result is the correction at the answer's first sample.
        """
        self._misses, self._tries, self._silent = 0, 0, False
        needed = used - offset
        known = math.isfinite(self.drift.ppm)
        if known:
            needed -= 1e-6 * self.drift.ppm * place_samples
            variance += (1e-6 * self.drift.sigma_ppm * place_samples) ** 2
        if self.state == "acquiring":
            self._begin(needed, variance, now)
            self._blind_place = 0.0 if known else place_samples
            self._go("fine", round_, f"heard {offset:+.1f} samples off")
        elif self.state == "fine":
            if known:
                self._open_eyes(variance)
            self._refine(round_, needed, variance, now)
        elif self.state == "tracking":
            self._follow(round_, needed, variance, now)

    def _open_eyes(self, variance: float) -> None:
        """Correct the first measurement, because the clock's rate is known now."""
        if self._blind_place:
            seen = self._tracker.predict(0.0)[0]
            self._tracker.start(seen - 1e-6 * self.drift.ppm * self._blind_place, variance)
            self._blind_place = 0.0

    def _begin(self, needed: float, variance: float, now: float) -> None:
        self._tracker.start(needed, variance)
        self._taken_at = now

    def _take(self, needed: float, variance: float, now: float) -> None:
        self._tracker.take(needed, variance, now - self._taken_at)
        self._taken_at = now

    def _refine(self, round_: int, needed: float, variance: float, now: float) -> None:
        settings = self._settings
        self._fine_tries += 1
        offset = self._tracker.predict(now - self._taken_at)[0] - needed
        bearable = abs(offset) <= settings.largest_scatter_samples
        usual = _USUAL_SIGMAS * self._tracker.scatter_samples  # usual scatter according to earlier measurements
        if bearable:
            self._take(needed, variance, now)
        else:
            self._begin(needed, variance, now)
        if abs(offset) <= settings.tolerance_samples:
            self._go("tracking", round_, f"{offset:+.2f} samples off, within {settings.tolerance_samples:g}")
        elif bearable and (self._fine_tries >= settings.fine_rounds or abs(offset) <= usual):
            self._wide = True
            self._go("tracking", round_, f"scatters: {offset:+.1f} samples off, which the prefix tolerates")
        elif self._fine_tries >= settings.fine_rounds:
            self.fall(round_, f"does not settle: {offset:+.1f} samples off")

    def _follow(self, round_: int, needed: float, variance: float, now: float) -> None:
        settings, seconds = self._settings, now - self._taken_at
        limit = settings.largest_scatter_samples
        innovation, sigma = self._tracker.innovation(needed, variance, seconds)
        gate = min(max(settings.gate_samples, settings.gate_sigmas * sigma), limit)
        bearable = abs(innovation) <= limit
        first, self._first_payload = self._first_payload, False
        if first and gate < abs(innovation) <= limit:
            # The sequence measured another path, or its position was not reported. The payload's measurement counts.
            self._begin(needed, variance, now)
            return
        if abs(innovation) <= gate:
            self._outliers.clear()
            self._take(needed, variance, now)
            self._tell_width(round_, now)
            return
        self._outliers.append((needed, bearable))
        recent = [value for value, _ in self._outliers[-settings.jump_rounds :]]
        apart = max(settings.gate_samples, settings.gate_sigmas * math.sqrt(2 * variance))
        agree = len(recent) == settings.jump_rounds and max(recent) - min(recent) <= apart
        often = self._rounds_since_jump < _JUMPS_APART_ROUNDS
        if agree and not (often and bearable):
            self._tracker.unlearn()
            self._begin(sum(recent) / len(recent), variance, now)
            self._rounds_since_jump = 0
            self._go("fine", round_, f"jumped by {innovation:+.1f} samples")
        elif agree or (len(self._outliers) >= settings.outlier_rounds and all(ok for _, ok in self._outliers)):
            self._outliers.clear()
            self._take(needed, variance, now)
            self._tell_width(round_, now)
        elif len(self._outliers) >= settings.outlier_rounds:
            self.fall(round_, f"{len(self._outliers)} outliers in a row, the last by {innovation:+.1f} samples")
        # Multipath may be the reason: learn from this measurement, but do not follow it yet.
        elif bearable and len(self._outliers) > 1:
            self._tracker.learn(needed, variance, seconds)

    def _tell_width(self, round_: int, now: float) -> None:
        """Report once when offsets spread wider than the tolerance, and once when they no longer do."""
        tolerance, scatter = self._settings.tolerance_samples, self._tracker.scatter_samples
        walk = math.sqrt(self._tracker.predict(now - self._taken_at)[1])
        if not self._wide and max(scatter, walk) > tolerance:
            self._wide = True
            echoes = f"scatters by {scatter:.1f} samples, which the prefix tolerates: echoes?"
            self._go("tracking", round_, echoes if scatter > walk else f"known to {walk:.1f} samples: its clock walks")
        elif self._wide and max(scatter, walk) < tolerance / 2:
            self._wide = False
            self._go("tracking", round_, "offsets are close again")

    def _go(self, state: State, round_: int, reason: str) -> None:
        before, self.state, self.reason = self.state, state, reason
        self._tell(Change(round_, self.client, before, state, reason))
        if state != before:
            self._rounds_in_state = 0
            self._misses = self._fine_tries = 0
            self._outliers.clear()
            self._first_payload = state == "tracking"
            if state == "uncalibrated":
                self._wide = False
