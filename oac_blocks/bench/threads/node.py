# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of the bench: ``ClientStream`` on a radio of its own, in a thread of its own.

A gap begins a new epoch and opens both streams anew. A radio that is gone makes the client absent; it is looked for
again every now and then, and comes back with a new epoch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from oac_blocks.bench.threads.plan import BenchSettings
from oac_blocks.dsp.receive.client_stream import AnswerOrder, ClientStream, Status
from oac_blocks.dsp.receive.detection import bank_up_to
from oac_blocks.dsp.receive.trigger_search import TriggerSearch
from oac_blocks.loop.closed_loop import Order
from oac_blocks.radio.base import Radio, RadioError

Opener = Callable[[], Radio]  # a radio, configured and with its transmitter on; RadioError if it is not there
_SPAN_ROWS = 4


class ClientNode:
    """``radio`` is there already; ``open_`` opens it again after it was gone."""

    def __init__(self, number: int, radio: Radio, open_: Opener, settings: BenchSettings) -> None:
        self.number = number
        self.gaps = 0
        self.begun_at = 0  # sample of the client's stream that its present buffers begin with
        self.absent = ""  # why, if the radio is gone
        self._open, self._settings = open_, settings
        self._radio: Radio | None = radio
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        search = TriggerSearch(span_rows=_SPAN_ROWS, cfo_bank_rad=bank_up_to(settings.max_cfo_rad))
        self._stream = ClientStream(
            number,
            settings.layout,
            search,
            turnaround_samples=settings.turnaround_samples,
            votes=settings.votes,
            amplitude=settings.amplitude,
        )
        self._happened: list[Status] = []
        self._position = 0
        self._thread = threading.Thread(target=self._run, name=f"bench client {number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the streams; ``join`` waits until it has ended."""
        self._stopping.set()
        with self._lock:
            radio = self._radio
        if radio is not None:
            radio.stop()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()
        with self._lock:
            radio, self._radio = self._radio, None
        if radio is not None:
            radio.close()

    def order(self, order: Order, votes: npt.NDArray[Any] | None) -> bool:
        """Hand over the order of the coming round and its votes; return whether the client can follow it.

        It cannot if its radio is gone, or if the order names an epoch that is over: the loop will hear of the new one.
        """
        with self._lock:
            if order.epoch != self._stream.epoch or self.absent:
                return False
            how = (order.correction_samples, order.gain_db, order.drift_ppm)
            self._stream.order(AnswerOrder(order.round, order.epoch, order.mode, *how))
            if order.mode == "payload" and votes is not None:
                self._stream.payload(order.round, votes)
            return True

    def take(self) -> list[Status]:
        """What happened since it was asked last."""
        with self._lock:
            happened, self._happened = self._happened, []
        return happened

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._play()
            except RadioError as error:
                if not self._stopping.is_set():
                    self._lose(str(error))
                    self._find_again()
            except Exception as error:  # a fault of this program: the others go on, and it is said
                self._lose(f"{type(error).__name__}: {error}")
                return

    def _play(self) -> None:
        radio, settings = self._radio, self._settings
        assert radio is not None
        radio.start(settings.stream)
        with self._lock:
            self.begun_at = self._position
        while not self._stopping.is_set():
            block = radio.receive(settings.stall_seconds)
            if block.gaps:
                self._break(block.gaps[0])
                if settings.reopens:
                    radio.stop()
                    if not self._stopping.is_set():
                        radio.start(settings.stream)
                    with self._lock:
                        self.begun_at = self._position
                    continue
            with self._lock:
                # An answer is told before its samples are handed over: who hears it can know of it.
                out, happened = self._stream.push(block.samples)
                self._happened += happened
                self._position += len(out)
            radio.transmit(out, settings.stall_seconds)

    def _break(self, reason: str) -> None:
        with self._lock:
            self._happened.append(self._stream.gap(reason))
            self.gaps += 1

    def _lose(self, reason: str) -> None:
        self._break(f"radio lost: {reason}")
        with self._lock:
            self.absent = reason
            radio, self._radio = self._radio, None
        if radio is not None:
            radio.close()

    def _find_again(self) -> None:
        while not self._stopping.wait(self._settings.retry_seconds):
            try:
                radio = self._open()
            except RadioError as error:
                with self._lock:
                    self.absent = str(error)
                continue
            self._break("its radio is back")
            with self._lock:
                self._radio, self.absent = radio, ""
            return
