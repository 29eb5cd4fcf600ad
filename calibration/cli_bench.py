# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare measure, align and track: check all arguments, find the radios, then open the bench."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibration import store
from calibration.bench_table import BenchTable
from oac_blocks.bench.config import load_bench
from oac_blocks.bench.threads.bench import Bench
from oac_blocks.bench.threads.radios import RadioPlan
from oac_blocks.dsp.checks import real
from oac_blocks.loop.closed_loop import ClientView, LoopSettings
from oac_blocks.record.metadata import Facts
from oac_blocks.record.recorder import Recorder

_TOLERANCE_SAMPLES = 0.5  # samples, used if neither an option nor the config sets a tolerance
_GROUPS = 2  # payload groups of a burst without a config; calibration bursts are short


class RadioSession:
    """The checked arguments of a command. If a check fails, nothing has been sent and no file has been touched.

    Options replace the values of the config; an option that is None does not.
    """

    def __init__(
        self,
        config: Path | None,
        server: str | None,
        clients: Sequence[str] | None,
        frequency_hz: float | None,
        rate_hz: float | None,
        rx_gain_db: float | None,
        tx_gain_db: float | None,
        clock: str | None,
        tolerance_samples: float | None = None,
        save: Path | None = None,
        start: Path | None = None,
    ) -> None:
        most = LoopSettings().largest_scatter_samples
        bench = load_bench(
            config,
            server=server,
            clients=list(clients) if clients else None,
            frequency_hz=frequency_hz,
            sample_rate_hz=rate_hz,
            rx_gain_db=rx_gain_db,
            tx_gain_db=tx_gain_db,
            clock=clock,
            groups=_GROUPS if config is None else None,
        )
        radios, waveform = bench.radios, bench.waveform
        if tolerance_samples is None:
            tolerance_samples = radios.tolerance_samples or _TOLERANCE_SAMPLES
        self.tolerance = real("--tolerance", tolerance_samples, 0.0, most, open_low=True)
        self.plan = RadioPlan.of(radios, waveform.sample_rate_hz)
        self.settings = self.plan.bench_settings(
            waveform.numerology(), repeats=waveform.repeats, groups=waveform.groups
        )
        self.uris = self.plan.clients
        self.serials = tuple(info.serial for info in self.plan.probe()[1:])
        self._save = save
        guesses = {}
        if save is not None:
            store.check_many(save, self.serials)
        if start is not None:
            stored = store.read_many(start, self.serials)
            rate, turnaround = waveform.sample_rate_hz, float(self.settings.answer_samples)
            guesses = {n: stored[serial].guess(rate, turnaround) for n, serial in enumerate(self.serials)}
        self._loop = self.plan.loop(self.settings, self.tolerance, guesses)

    def bench(self, recorder: Recorder | None = None) -> Bench:
        """Return the bench of these radios; the recorder gets the rounds that the server receives."""
        return self.plan.bench(self.settings, self._loop, recorder)

    def recorder(self, folder: Path, most_mb: float) -> Recorder:
        """Return a recorder of this bench's rounds."""
        plan = self.plan
        words = f"A calibration round with {len(plan.clients)} clients, as the server received it"
        facts = Facts(f"the radio at {plan.server}", plan.carrier_hz, words)
        return Recorder(folder, facts, most_mb, waits=plan.clock == "lock-step")

    def table(self, corrected: bool = True) -> BenchTable:
        """Return an empty table of the clients."""
        return BenchTable(self.uris, self.serials, self.plan.sample_rate_hz, corrected)

    def keep(self, views: Sequence[ClientView]) -> None:
        """Save the calibration of the clients that are tracking, if a file was named."""
        tracking = [view for view in views if view.state == "tracking"]
        if self._save is None or not tracking:
            return
        rate, turnaround = self.plan.sample_rate_hz, float(self.settings.answer_samples)
        known = [store.of_client(view, self.serials[view.client], rate, turnaround) for view in tracking]
        store.write_many(self._save, known, self.serials)
