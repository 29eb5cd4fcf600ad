# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's receiver: hears its own trigger and takes what the clients answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pmt
from gnuradio import gr

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.blocks.support.message_order import take_waiting
from oac_blocks.blocks.support.search_setters import SearchSetters
from oac_blocks.blocks.support.stream_gaps import StreamGaps
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.receive.acquisition import DEFAULT_FALSE_ALARM as CLIENT_FALSE_ALARM
from oac_blocks.dsp.receive.detection import DEFAULT_FALSE_ALARM
from oac_blocks.dsp.receive.server_stream import HeardRound, ServerStream
from oac_blocks.dsp.receive.vote_units import energies_per_voter, voters_heard
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.schemes import scheme_named
from oac_blocks.record.recorder import Recorder
from oac_blocks.rounds.messages import listed, numbers_in

MOST_ENERGIES = 4096
_THIRD_OF_PREFIX = -1
_VECTORS = ("offset_samples", "sigma_samples", "power_db", "cfo_rad", "snr_db", "place_samples")


class server_receiver(SearchSetters, gr.sync_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Server receiver: the server's receive stream in, soft votes and the clients' arrivals out.

    Input: complex64. The server's own trigger must be in it; ``answer_samples`` later the answers are wanted. The other
    parameters of a round are those of the clients.

    Messages (docs/rounds.md has them all):

    - ``expect`` in: ``round``, ``kind`` and optionally ``votes`` of the coming round. Without it rounds are counted on,
      each a payload of ``votes``. Its ``run`` and ``voters`` go on with the soft votes;
    - ``soft_votes`` out, after a payload round: energy for less energy against each vote (float32), in units of the
      mean energy of a heard voter's subcarrier, with ``round``, ``snr_db`` (mean of the clients heard),
      ``trigger_sample`` and ``heard``, the clients whose votes are in them: of those that ``voting`` of ``expect``
      names, or of all, the ones that were heard ("0, 2").
      With the scheme ``energy`` they estimate the sum of the clients' entries;
    - ``energies`` out, after a payload round: energy for + 1j energy against (complex64), of the first 4,096 votes, in
      the same unit;
    - ``arrivals`` out, after every round and behind the other two: when and how strongly each client was heard.

    ``soft_votes`` and ``arrivals`` also carry the waveform's numbers, ``sample_rate_hz`` to ``groups``, so that whoever
    reads them can tell whether they are its own.

    A round whose trigger is not heard ``patience_samples`` after ``expect`` is over, and ``arrivals`` says that nobody
    was heard; 0 waits for ever, which is right in lock step.

    ``early_samples`` is how far the FFT window sits inside the prefix, -1 for a third of it.

    A tag ``overflow`` or ``rx_overflow``, and an ``rx_time`` that is not where it should be, is a gap: the round under
    way is given up, and ``arrivals`` says that nobody was heard.
    """

    def __init__(
        self,
        clients: int = 2,
        votes: int = 21_880,
        repeats: int = 1,
        groups: int = 4,
        answer_samples: int = 131_072,
        early_samples: int = _THIRD_OF_PREFIX,
        sample_rate_hz: float = 20e6,
        fft_size: int = 256,
        cp_samples: int = 64,
        active_subcarriers: int = 192,
        dc_nulls: int = 8,
        slot_samples: int = 8192,
        clients_per_slot: int = 4,
        false_alarm_per_client: float = CLIENT_FALSE_ALARM,
        false_alarm_per_sample: float = DEFAULT_FALSE_ALARM,
        min_snr_db: float = -9.5,
        tracking: bool = True,
        lost_after_samples: int = 20_000_000,
        max_cfo_rad: float = 0.0,
        chunk_samples: int = 65_536,
        patience_samples: int = 0,
        scheme: str = "onebit",
    ) -> None:
        chunk = integer("chunk_samples", chunk_samples, 1, 1 << 22)
        num = Numerology(sample_rate_hz, fft_size, cp_samples, active_subcarriers, dc_nulls)
        how = scheme_named(scheme)
        self._stream = ServerStream(
            RoundLayout(num, clients, repeats, groups, answer_samples, slot_samples, clients_per_slot, how),
            votes,
            early_samples=_early(early_samples, num),
            false_alarm_per_sample=false_alarm_per_sample,
            min_snr_db=min_snr_db,
            false_alarm_per_client=false_alarm_per_client,
            max_cfo_rad=max_cfo_rad,
            tracking=tracking,
            lost_after_samples=lost_after_samples,
            patience_samples=patience_samples,
        )
        self._search = self._stream.search
        self._recorder: Recorder | None = None
        gr.sync_block.__init__(self, name="OAC Server Receiver", in_sig=[np.complex64], out_sig=None)
        self._drops = Drops(self.logger)
        self._gaps = StreamGaps(num.sample_rate_hz)
        self._begin()
        self.set_output_multiple(chunk)
        self.message_port_register_in(pmt.intern("expect"))
        self.set_msg_handler(pmt.intern("expect"), self._on_expect)
        for port in ("soft_votes", "energies", "arrivals"):
            self.message_port_register_out(pmt.intern(port))

    @property
    def rounds(self) -> int:
        """Heard to their end since the flowgraph was started."""
        return self._rounds

    @property
    def ignored_triggers(self) -> int:
        """Triggers that were heard before the round of another was over."""
        return self._stream.ignored_triggers

    @property
    def bad_samples(self) -> int:
        """Return the number of samples that were NaN, infinite or absurdly large and were replaced with zeros."""
        return self._stream.bad_samples

    @property
    def dropped(self) -> int:
        """Messages that could not be used, and gaps in the stream."""
        return self._drops.count

    @property
    def ended(self) -> bool:
        """Has the stream ended since the flowgraph was started?"""
        return self._ended

    def record(self, recorder: Recorder) -> None:
        """Record every round that is heard to its end. To be called before the flowgraph is started."""
        self._recorder = recorder
        self._stream.keep_captures()

    def set_votes(self, votes: int) -> None:
        """Of rounds that nothing else is said of, from the next trigger on."""
        self._stream.set_votes(votes)

    def set_early_samples(self, early_samples: int) -> None:
        self._stream.set_early_samples(_early(early_samples, self._stream.layout.num))

    def set_false_alarm_per_client(self, false_alarm_per_client: float) -> None:
        self._stream.set_false_alarm_per_client(false_alarm_per_client)

    def start(self) -> bool:
        self._begin()
        return True

    def stop(self) -> bool:
        self._ended = True
        return True

    def _begin(self) -> None:
        self._stream.reset()
        self._gaps.reset()
        self._rounds = 0
        self._ended = False
        self._about: dict[int, dict[str, Any]] = {}  # the round that is expected, and what goes on with its soft votes

    def _on_expect(self, message: Any) -> None:
        try:
            notice = pdus.read_notice(message)
            if isinstance(notice, str):
                raise ValueError(notice)
            number: Any = notice.get("round")
            self._stream.expect(number, notice.get("kind", "payload"), notice.get("votes"))
            self._about = {number: {name: notice[name] for name in ("run", "voters", "voting") if name in notice}}
        except Exception as error:  # one that leaves a handler is lost, and the exit code stays 0
            self._drops.add(f"expect: {error}")

    def work(self, input_items: Any, _output_items: Any) -> int:
        take_waiting(self, "expect", self._on_expect)  # it was sent before the trigger in these samples
        x = input_items[0]
        first, done = self.nitems_read(0), 0
        for at, reason in [*self._gaps.find(first, self.get_tags_in_window(0, 0, len(x))), (first + len(x), None)]:
            self._run(x[done : at - first], at)
            done = at - first
            if reason is not None:
                self._gap(at, reason)
        return len(x)

    def _run(self, x: npt.NDArray[np.complex64], stop: int) -> None:
        """Samples of the stream up to ``stop``."""
        bad = self._stream.bad_samples
        try:
            for heard in self._stream.push(x):
                self._report(heard)
        except Exception as error:  # one that leaves work() would end the block's thread and hang the flowgraph
            self._gap(stop, f"failed: {error}")
        if not bad and self._stream.bad_samples:
            self.logger.warn("NaN or infinite samples were replaced with zeros (further ones are counted, not logged)")

    def _gap(self, at: int, reason: str) -> None:
        self._drops.add(reason)
        for broken in self._stream.gap(at):
            self._report(broken)

    def _report(self, heard: HeardRound) -> None:
        self._rounds += 1
        told = self._about.get(heard.round, {})
        voting = numbers_in(told["voting"]) if "voting" in told else None
        if heard.soft_votes is not None and heard.energies is not None:
            about: dict[str, Any] = {
                "round": heard.round,
                "snr_db": heard.mean_snr_db,
                "trigger_sample": heard.trigger_sample,
            }
            about |= self._stream.layout.agreed()
            about |= {name: value for name, value in told.items() if name != "voting"}
            about["heard"] = listed(voters_heard(heard, voting))
            energies = energies_per_voter(heard, voting)
            self.message_port_pub(pmt.intern("soft_votes"), pdus.make(energies[0] - energies[1], about))
            some = energies[:, :MOST_ENERGIES]
            both = (some[0] + 1j * some[1]).astype(np.complex64)
            self.message_port_pub(pmt.intern("energies"), pdus.make(both, {"round": heard.round}))
        arrivals: dict[str, Any] = {"round": heard.round, "kind": heard.kind, "trigger_sample": heard.trigger_sample}
        arrivals |= self._stream.layout.agreed()
        arrivals |= {name: pdus.float64_vector(getattr(heard, name)) for name in _VECTORS}
        self.message_port_pub(pmt.intern("arrivals"), pdus.notice(arrivals))
        if self._recorder is not None:
            self._recorder.round(heard, self._stream.layout, voting)


def _early(early_samples: int, num: Numerology) -> int:
    early = integer("early_samples", early_samples, _THIRD_OF_PREFIX, num.cp_samples)
    return num.cp_samples // 3 if early == _THIRD_OF_PREFIX else early
