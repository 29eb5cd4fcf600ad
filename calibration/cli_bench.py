# SPDX-License-Identifier: GPL-3.0-or-later
"""What measure, align and track do alike: check all that was given, look who is there, then open the bench."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from calibration import store
from calibration.bench_table import BenchTable
from oac_blocks.bench.threads.bench import Bench
from oac_blocks.bench.threads.plan import Clock
from oac_blocks.bench.threads.radios import RadioPlan
from oac_blocks.dsp.checks import real
from oac_blocks.loop.closed_loop import ClientView, LoopSettings


class RadioSession:
    """Everything is checked here: nothing was sent yet when an error is raised, and no file was touched."""

    def __init__(
        self,
        server: str,
        clients: Sequence[str],
        frequency_hz: float | None,
        rate_hz: float,
        rx_gain_db: float,
        tx_gain_db: float,
        clock: str,
        tolerance_samples: float = 0.5,
        save: Path | None = None,
        start: Path | None = None,
    ) -> None:
        most = LoopSettings().largest_scatter_samples
        self.tolerance = real("--tolerance", tolerance_samples, 0.0, most, open_low=True)
        self.plan = RadioPlan(server, tuple(clients), frequency_hz, rate_hz, rx_gain_db, tx_gain_db, cast(Clock, clock))
        self.settings = self.plan.bench_settings()
        self.uris = self.plan.clients
        self.serials = tuple(info.serial for info in self.plan.probe()[1:])
        self._save = save
        guesses = {}
        if save is not None:
            store.check_many(save, self.serials)
        if start is not None:
            stored = store.read_many(start, self.serials)
            rate, turnaround = rate_hz, float(self.settings.answer_samples)
            guesses = {n: stored[serial].guess(rate, turnaround) for n, serial in enumerate(self.serials)}
        self._loop = self.plan.loop(self.settings, self.tolerance, guesses)

    def bench(self) -> Bench:
        return self.plan.bench(self.settings, self._loop)

    def table(self, corrected: bool = True) -> BenchTable:
        return BenchTable(self.uris, self.serials, self.plan.sample_rate_hz, corrected)

    def keep(self, views: Sequence[ClientView]) -> None:
        """What is known of the clients that are tracking, if it is to be kept."""
        tracking = [view for view in views if view.state == "tracking"]
        if self._save is None or not tracking:
            return
        rate, turnaround = self.plan.sample_rate_hz, float(self.settings.answer_samples)
        known = [store.of_client(view, self.serials[view.client], rate, turnaround) for view in tracking]
        store.write_many(self._save, known, self.serials)
