# SPDX-License-Identifier: GPL-3.0-or-later
"""Setters of the trigger search, for every block that has one."""

from __future__ import annotations

from oac_blocks.dsp.receive.trigger_search import TriggerSearch


class SearchSetters:
    """Apply settings to the block's own ``_search``."""

    _search: TriggerSearch

    def set_false_alarm_per_sample(self, false_alarm_per_sample: float) -> None:
        """Set the probability of a false alarm per sample of white noise."""
        self._search.set_false_alarm(false_alarm_per_sample)

    def set_min_snr_db(self, min_snr_db: float) -> None:
        """Set the least SNR per sample of a trigger in dB."""
        self._search.set_min_snr_db(min_snr_db)

    def set_tracking(self, tracking: bool) -> None:
        """Set whether the search follows the frequency of the last trigger."""
        self._search.set_tracking(tracking)

    def set_lost_after_samples(self, lost_after_samples: int) -> None:
        """Set after how many samples without a trigger all frequencies are searched again."""
        self._search.set_lost_after_samples(lost_after_samples)
