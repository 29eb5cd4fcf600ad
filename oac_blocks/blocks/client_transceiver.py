# SPDX-License-Identifier: GPL-3.0-or-later
"""Connect a client to its radio's two streams: detect the trigger and answer at the right sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.blocks.support.message_order import take_waiting
from oac_blocks.blocks.support.search_setters import SearchSetters
from oac_blocks.blocks.support.stream_gaps import StreamGaps
from oac_blocks.dsp.checks import integer, require
from oac_blocks.dsp.receive.client_stream import AnswerOrder, ClientStream, Status
from oac_blocks.dsp.receive.detection import DEFAULT_FALSE_ALARM, bank_up_to
from oac_blocks.dsp.receive.trigger_search import TriggerSearch
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import RoundLayout, agreed_in, disagreements
from oac_blocks.dsp.waveform.schemes import scheme_named

_SPAN_ROWS = 32
_ORDER_FIELDS = {field.name for field in dataclasses.fields(AnswerOrder)}


class client_transceiver(SearchSetters, gr.sync_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Client transceiver: outputs one transmit sample for each received sample.

    The block finds the server's trigger in the received stream and puts its answer into the transmitted stream,
    ``turnaround_samples`` plus the ordered correction later, exact to a fraction of a sample and shifted to the
    server's frequency. The turnaround must be at least ``latency_samples``, which the search needs, plus the magnitude
    of a negative correction.

    Input and output are complex64. The first sample of an answer carries the tag ``answer`` with the number of the
    round.

    Messages (docs/rounds.md describes all of them):

    - ``payload`` in: PDUs of votes (int8; with the scheme ``energy`` float32 entries in units of a vote's energy) with
      their ``round`` and, if the server may restart, its ``run``;
    - ``orders`` in: what to answer with, and the correction; orders for other clients are ignored. Ballots arrive here
      too: the number of votes in the coming round and the clients that take part;
    - ``gap`` in: any message reports lost samples that this block cannot see, for example in the transmit stream;
    - ``status`` out: ``armed``, ``answered``, ``abstained``, ``gap``.

    A tag ``overflow`` or ``rx_overflow``, and an ``rx_time`` that does not match the sample count, is a gap too. After
    a gap the client is silent until an order names its new epoch. With ``wait_for_orders`` off, every trigger is
    answered without correction until orders arrive. If the client may restart while the server continues, give each
    start its own ``first_epoch``, for example the time in seconds; it is announced as a gap.

    Orders that name another waveform (``sample_rate_hz`` to ``dc_nulls``, ``repeats``, ``groups``) are not followed.
    """

    def __init__(
        self,
        client: int = 0,
        clients: int = 2,
        turnaround_samples: int = 131_072,
        votes: int = 21_880,
        repeats: int = 1,
        groups: int = 4,
        amplitude: float = 1.0,
        wait_for_orders: bool = True,
        correct_cfo: bool = True,
        sample_rate_hz: float = 20e6,
        fft_size: int = 256,
        cp_samples: int = 64,
        active_subcarriers: int = 192,
        dc_nulls: int = 8,
        slot_samples: int = 8192,
        clients_per_slot: int = 4,
        false_alarm_per_sample: float = DEFAULT_FALSE_ALARM,
        min_snr_db: float = -9.5,
        tracking: bool = True,
        lost_after_samples: int = 20_000_000,
        max_cfo_rad: float = 0.175,
        seed: int = 1,
        first_epoch: int = 0,
        chunk_samples: int = 65_536,
        scheme: str = "onebit",
    ) -> None:
        chunk = integer("chunk_samples", chunk_samples, 1, 1 << 22)
        num = Numerology(sample_rate_hz, fft_size, cp_samples, active_subcarriers, dc_nulls)
        self._search = TriggerSearch(
            false_alarm_per_sample,
            min_snr_db,
            tracking=tracking,
            lost_after_samples=lost_after_samples,
            cfo_bank_rad=bank_up_to(max_cfo_rad),
            span_rows=_SPAN_ROWS,
        )
        layout = RoundLayout(num, clients, repeats, groups, 0, slot_samples, clients_per_slot, scheme_named(scheme))
        self._payload_type = layout.scheme.dtype
        self._agreed = layout.agreed()
        self._client = ClientStream(
            client,
            layout,
            self._search,
            turnaround_samples=turnaround_samples,
            votes=votes,
            amplitude=amplitude,
            wait_for_orders=wait_for_orders,
            correct_cfo=correct_cfo,
            seed=seed,
            first_epoch=first_epoch,
        )
        gr.sync_block.__init__(self, name="OAC Client Transceiver", in_sig=[np.complex64], out_sig=[np.complex64])
        self._gaps = StreamGaps(num.sample_rate_hz)
        self._drops, self._other_waveforms = Drops(self.logger), Drops(self.logger, "orders of another waveform")
        self._status = pmt.intern("status")
        self._ended = False
        self.set_output_multiple(chunk)
        # Smaller buffers deadlock a flowgraph in which the trigger reaches a channel directly and through clients.
        self.set_min_output_buffer(4 * chunk)
        self.set_tag_propagation_policy(gr.TPP_DONT)  # the receiver's tags do not apply to transmitted samples
        self.message_port_register_out(self._status)
        self._handle("payload", self._on_payload)
        self._handle("orders", self._on_order)
        self._handle("gap", self._on_gap)

    def _handle(self, port: str, handler: Callable[[Any], None]) -> None:
        self.message_port_register_in(pmt.intern(port))
        self.set_msg_handler(pmt.intern(port), handler)

    @property
    def latency_samples(self) -> int:
        """Return the least time from a trigger's first sample to an answer, in samples."""
        return self._search.latency_samples

    @property
    def epoch(self) -> int:
        """Return the number of gaps since the flowgraph was started."""
        return self._client.epoch

    @property
    def calibrated(self) -> bool:
        """Return whether the client may send its payload."""
        return self._client.calibrated

    @property
    def triggers(self) -> int:
        """Return the number of triggers found since the flowgraph was started."""
        return self._client.triggers

    @property
    def cfo_rad(self) -> float:
        """Return the server's carrier frequency offset in rad/sample, as measured here."""
        return self._client.cfo_rad

    @property
    def bad_samples(self) -> int:
        """Return how many samples were NaN, infinite or very large, and were replaced with zeros."""
        return self._search.bad_samples

    @property
    def dropped(self) -> int:
        """Return the number of messages that could not be used and of chunks on which the search failed."""
        return self._drops.count + self._other_waveforms.count

    @property
    def ended(self) -> bool:
        """Return whether the stream has ended since the flowgraph was started."""
        return self._ended

    def set_turnaround_samples(self, turnaround_samples: int) -> None:
        """Set the samples from a trigger to its answer, before the correction."""
        self._client.set_turnaround_samples(turnaround_samples)

    def set_votes(self, votes: int) -> None:
        """Set the length of an answer that consists of sync symbols alone."""
        self._client.set_votes(votes)

    def set_amplitude(self, amplitude: float) -> None:
        """Set the amplitude of a subcarrier, from the next answer on."""
        self._client.set_amplitude(amplitude)

    def set_correct_cfo(self, correct_cfo: bool) -> None:
        """Set whether answers are shifted to the server's frequency."""
        self._client.set_correct_cfo(correct_cfo)

    def start(self) -> bool:
        self._client.reset()
        self._gaps.reset()
        if self._client.epoch:
            self._tell([self._client.announce()])
        self._ended = False
        return True

    def stop(self) -> bool:
        self._ended = True
        return True

    def _on_payload(self, message: Any) -> None:
        # The orders cause the request for a payload, and the first orders of a run invalidate earlier payloads.
        take_waiting(self, "orders", self._on_order)
        pdu = pdus.read(message, self._payload_type)
        if isinstance(pdu, str):
            self._drops.add(pdu)
            return
        try:
            fields = {name: pmt.to_python(value) for name, value in pdu.metadata.items()}
            if self._is_for_this_client(fields):
                self._tell(self._client.payload(fields.get("round"), pdu.data, fields.get("run")))
        except Exception as error:  # an exception that leaves a handler is lost, and the exit code stays 0
            self._drops.add(str(error))

    def _on_order(self, message: Any) -> None:
        try:
            fields = pdus.read_notice(message)
            if isinstance(fields, str):
                self._drops.add(fields)
            elif "mode" not in fields and "votes" in fields:
                self._take_ballot(message, fields)
            elif self._is_for_this_client(fields) and self._agrees(fields):
                order = AnswerOrder(**{name: fields[name] for name in _ORDER_FIELDS & fields.keys()})
                self._tell(self._client.order(order))
        except Exception as error:
            self._drops.add(f"an order: {error}")

    def _agrees(self, fields: dict[str, Any]) -> bool:
        """Return whether the server uses the same waveform; otherwise the client does not answer."""
        apart = disagreements(self._agreed, agreed_in(fields))
        for name, (own, told) in apart.items():
            self._other_waveforms.add(
                f"the server has {name} = {told:g} and this client has {own:g}; set both to one value"
            )
        return not apart

    def _take_ballot(self, message: Any, fields: dict[str, Any]) -> None:
        """Take a ballot, which says for each client whether it takes part."""
        pdu = pdus.read(message, np.int8)
        if isinstance(pdu, str):
            raise ValueError(pdu)
        me, count = self._client.client, len(pdu.data)
        require(count > me, "a ballot", f"{count} elements", f"at least {me + 1}, one for each client")
        self._tell(self._client.ballot(fields["round"], fields["votes"], bool(pdu.data[me]), fields.get("run")))

    def _is_for_this_client(self, fields: dict[str, Any]) -> bool:
        return bool(fields.get("client", self._client.client) == self._client.client)

    def _on_gap(self, message: Any) -> None:
        reason = pmt.symbol_to_string(message) if pmt.is_symbol(message) else "reported by a message"
        self._tell([self._client.gap(reason)])

    def _tell(self, happened: Iterable[Status]) -> None:
        for status in happened:
            fields = {name: value for name, value in dataclasses.asdict(status).items() if value is not None}
            self.message_port_pub(self._status, pdus.notice({"client": self._client.client, **fields}))

    def work(self, input_items: Any, output_items: Any) -> int:
        take_waiting(self, "orders", self._on_order)  # orders are sent before the trigger in these samples
        take_waiting(self, "payload", self._on_payload)
        x, out = input_items[0], output_items[0]
        first, done = self.nitems_read(0), 0
        for at, reason in [*self._gaps.find(first, self.get_tags_in_window(0, 0, len(x))), (first + len(x), None)]:
            self._run(x[done : at - first], out[done : at - first])
            done = at - first
            if reason is not None:
                self._tell([self._client.gap(reason)])
        return len(out)

    def _run(self, x: Any, out: Any) -> None:
        bad = self._search.bad_samples
        try:
            _, happened = self._client.push(x, out)
        except Exception as error:  # an exception that leaves work() would end the thread and hang the flowgraph
            self._drops.add(str(error))
            out[:] = 0
            happened = [self._client.gap(f"failed: {error}")]
        for status in happened:
            if status.event == "answered" and status.answer_sample is not None:
                number = pmt.from_long(status.round)
                self.add_item_tag(0, round(status.answer_sample), pmt.intern("answer"), number)
        self._tell(happened)
        if not bad and self._search.bad_samples:
            self.logger.warn("NaN or infinite samples were replaced with zeros (further ones are counted, not logged)")
