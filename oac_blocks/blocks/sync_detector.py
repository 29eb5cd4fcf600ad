# SPDX-License-Identifier: GPL-3.0-or-later
"""Find triggers in a stream, tag their first samples and report each in a message."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.blocks.support.search_setters import SearchSetters
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.receive.detection import DEFAULT_FALSE_ALARM, Detection, bank_up_to
from oac_blocks.dsp.receive.trigger_search import TriggerSearch

_SPAN_ROWS = 32  # FFTs per span: a third faster than 16, with a latency below one chunk


class sync_detector(SearchSetters, gr.sync_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Sync detector: outputs the stream ``delay_samples`` later, with a tag on the first sample of each trigger.

    Input and output are complex64. The delay is constant; the search needs it to decide on a trigger before the
    trigger's first sample leaves the block. Tags of the input are delayed with their samples.

    The tag ``sync`` is a dictionary of

    - ``time``: start of the trigger in samples of the input, with the fraction (float64);
    - ``sample``, ``fraction``: the same as the nearest sample and the remainder, -0.5 to 0.5;
    - ``cfo``: carrier frequency offset in rad/sample;
    - ``metric``: mean normalised correlation of the four segments, 0 to 1;
    - ``snr_db``: SNR per sample.

    The search covers frequency offsets up to ``max_cfo_rad`` (rad/sample); its computing time grows with this range.

    Message port ``detections`` sends a PDU with the same dictionary and no data as soon as the trigger is found.
    """

    def __init__(
        self,
        false_alarm_per_sample: float = DEFAULT_FALSE_ALARM,
        min_snr_db: float = -9.5,
        tracking: bool = True,
        lost_after_samples: int = 20_000_000,
        max_cfo_rad: float = 0.175,
        chunk_samples: int = 65_536,
    ) -> None:
        chunk = integer("chunk_samples", chunk_samples, 1, 1 << 22)
        self._search = TriggerSearch(
            false_alarm_per_sample,
            min_snr_db,
            tracking=tracking,
            lost_after_samples=lost_after_samples,
            cfo_bank_rad=bank_up_to(max_cfo_rad),
            span_rows=_SPAN_ROWS,
        )
        gr.sync_block.__init__(self, name="OAC Sync Detector", in_sig=[np.complex64], out_sig=[np.complex64])
        self._port = pmt.intern("detections")
        self._drops = Drops(self.logger)
        self._begin()
        self.set_output_multiple(chunk)  # GNU Radio makes buffers of at least two of these
        self.declare_sample_delay(self.delay_samples)
        self.message_port_register_out(self._port)

    @property
    def delay_samples(self) -> int:
        """Return the delay from input to output in samples."""
        return self._search.latency_samples

    @property
    def detections(self) -> int:
        """Return the number of triggers found since the flowgraph was started."""
        return self._detections

    @property
    def bad_samples(self) -> int:
        """Return how many samples were NaN, infinite or very large; the search takes them as zeros."""
        return self._search.bad_samples

    @property
    def dropped(self) -> int:
        """Return the number of chunks on which the search failed."""
        return self._drops.count

    @property
    def tracked_cfo_rad(self) -> float | None:
        """Return the one frequency that is searched, in rad/sample; None while the whole bank is searched."""
        return self._search.tracked_cfo_rad

    def start(self) -> bool:
        self._begin()
        return True

    def _begin(self) -> None:
        self._search.reset()
        self._first = 0  # stream index of the search's sample 0
        self._detections = 0
        self._held = np.zeros(self.delay_samples, np.complex64)
        self._untagged: deque[tuple[int, Any]] = deque()  # output offsets and values of tags that are not written yet

    def work(self, input_items: Any, output_items: Any) -> int:
        x, out = input_items[0], output_items[0]
        self._pass_on(x, out)
        for detection in self._found_with(x):
            self._report(detection)
        end = self.nitems_written(0) + len(out)
        while self._untagged and self._untagged[0][0] < end:
            offset, value = self._untagged.popleft()
            self.add_item_tag(0, offset, pmt.intern("sync"), value)
        return len(out)

    def _pass_on(self, x: npt.NDArray[np.complex64], out: npt.NDArray[np.complex64]) -> None:
        n, delay = len(x), len(self._held)
        out[:delay] = self._held[:n]
        if n < delay:
            self._held = np.concatenate((self._held[n:], x))
        else:
            out[delay:] = x[: n - delay]
            self._held[:] = x[n - delay :]

    def _found_with(self, x: npt.NDArray[np.complex64]) -> list[Detection]:
        bad = self._search.bad_samples
        try:
            found = self._search.push(x)
        except Exception as error:  # an exception that leaves work() would end the thread and hang the flowgraph
            self._drops.add(str(error))
            self._search.reset()
            self._first = self.nitems_read(0) + len(x)
            return []
        if not bad and self._search.bad_samples:
            self.logger.warn("NaN or infinite samples were replaced with zeros (further ones are counted, not logged)")
        return found

    def _report(self, detection: Detection) -> None:
        time = self._first + detection.time_samples
        sample = max(round(time), 0)
        value = {
            "time": time,
            "sample": sample,
            "fraction": time - sample,
            "cfo": detection.cfo_rad_per_sample,
            "metric": detection.metric,
            "snr_db": 10 * math.log10(max(detection.snr, 1e-30)),
        }
        self._detections += 1
        self._untagged.append((sample + self.delay_samples, pdus.to_dict(value)))
        self.message_port_pub(self._port, pdus.notice(value))
