# SPDX-License-Identifier: GPL-3.0-or-later
"""The drift calibrator's messages. The loop behind it has its own tests, and the loopback runs both for real."""

import numpy as np
import pmt
import pytest
from gnuradio import gr

from oac_blocks.blocks.drift_calibrator import drift_calibrator
from oac_blocks.blocks.support import pdus
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import until

TRUE_OFFSETS = np.array([812.25, -40.5])  # where the clients are heard without a correction


class Bench:
    """A calibrator between clients and a server that exist as messages alone."""

    def __init__(self, **settings):
        self.block = drift_calibrator(clients=2, **settings)
        self.top_block = gr.top_block()
        self.orders = Messages(self.top_block, self.block, "orders")
        self.plans = Messages(self.top_block, self.block, "plan")
        self.reports = Messages(self.top_block, self.block, "report")
        self.round = 0

    def plan(self):
        """The coming round's plan and its two orders."""
        until(lambda: len(self.plans) == self.round + 1 and len(self.orders) == 2 * len(self.plans))
        orders = [pdus.read_notice(self.orders[2 * self.round + i]) for i in range(2)]
        return pdus.read_notice(self.plans[self.round]), orders

    def play(self):
        """One round: the clients answer as ordered, the server hears them where they are."""
        plan, orders = self.plan()
        offsets = np.full(2, np.nan)
        for order in orders:
            if order["mode"] == "silent":
                continue
            sent = "acquire" if order["mode"] == "acquire" else "payload"
            told = {name: order[name] for name in ("client", "round", "epoch", "correction_samples")}
            times = {"trigger_sample": 262_144.0 * self.round, "cfo_rad": 0.0, "snr_db": 20.0}
            post(self.block, "status", pdus.notice({"event": "answered", "sent": sent, **told, **times}))
            offsets[order["client"]] = TRUE_OFFSETS[order["client"]] + order["correction_samples"]
        post(self.block, "arrivals", arrivals(plan["round"], plan["kind"], offsets))
        self.round += 1
        return plan, orders


def arrivals(number, kind, offsets):
    heard = ~np.isnan(offsets)
    values = {"offset_samples": offsets, "sigma_samples": np.where(heard, 0.01, np.nan)}
    values |= {name: np.where(heard, 0.0, np.nan) for name in ("power_db", "cfo_rad")}
    values["snr_db"] = np.where(heard, 20.0, np.nan)
    vectors = {name: pdus.float64_vector(value) for name, value in values.items()}
    return pdus.notice({"round": number, "kind": kind, "trigger_sample": 262_144.0 * number, **vectors})


def test_corrections_take_the_offsets_out():
    bench = Bench()
    with running(bench.top_block):
        kinds = [bench.play()[0]["kind"] for _ in range(6)]
        plan, orders = bench.plan()
        until(lambda: len(bench.reports) == 6)  # a message that waits when the flowgraph stops is not delivered
    assert kinds[0] == "acquire"
    assert kinds[-1] == plan["kind"] == "payload"
    assert [order["mode"] for order in orders] == ["payload", "payload"]
    corrections = np.array([order["correction_samples"] for order in orders])
    assert np.allclose(corrections, -TRUE_OFFSETS, atol=0.05)
    assert bench.block.all_tracking
    assert bench.block.dropped == 0
    report = pdus.read_notice(bench.reports[5])
    assert report["states"] == "tracking, tracking"
    assert report["round"] == 5
    assert np.allclose(report["offset_samples"], 0, atol=0.05)


def test_the_receivers_waveform_goes_on_to_clients_and_applications():
    bench = Bench()
    waveform = {"sample_rate_hz": 2.5e6, "fft_size": 64, "cp_samples": 16, "active_subcarriers": 48, "dc_nulls": 4}
    heard = pmt.car(arrivals(0, "acquire", np.full(2, np.nan)))
    for name, value in waveform.items():
        heard = pmt.dict_add(heard, pmt.intern(name), pmt.to_pmt(value))
    with running(bench.top_block):
        assert not waveform.keys() & bench.plan()[1][0].keys()  # nothing was heard yet
        post(bench.block, "arrivals", heard)
        bench.round = 1
        orders = bench.plan()[1]
        until(lambda: len(bench.reports) == 1)
    for told in (*orders, pdus.read_notice(bench.reports[0])):
        assert {name: told[name] for name in waveform} == waveform


def test_a_gap_silences_a_client_until_it_is_calibrated_anew():
    bench = Bench()
    with running(bench.top_block):
        for _ in range(6):
            bench.play()
        bench.plan()
        gap = {"client": 1, "round": 6, "epoch": 1, "event": "gap", "reason": "overflow"}
        post(bench.block, "status", pdus.notice(gap))
        until(lambda: bench.block.clients[1].state == "uncalibrated")
        bench.play()
        orders = bench.plan()[1]
        assert [order["mode"] for order in orders] == ["silent", "acquire"]
        assert [order["epoch"] for order in orders] == [0, 1]
        for _ in range(4):
            bench.play()
        assert [order["mode"] for order in bench.plan()[1]] == ["payload", "payload"]


def test_any_status_of_a_new_epoch_tells_of_a_gap():
    bench = Bench()
    with running(bench.top_block):
        for _ in range(6):
            bench.play()
        bench.plan()
        for event, epoch in (("armed", 0), ("abstained", 3)):
            status = {"client": 0, "round": 6, "epoch": epoch, "event": event}
            post(bench.block, "status", pdus.notice(status))
        until(lambda: bench.block.clients[0].epoch == 3)
        assert bench.block.clients[0].reason == "its status shows a new epoch"
        assert bench.block.clients[1].state == "tracking"
    assert bench.block.dropped == 0


def test_a_client_that_would_be_too_late_is_tried_elsewhere_in_steps_of_the_slot():
    bench, slot = Bench(slot_samples=40_000), 40_000
    tried = []
    with running(bench.top_block):
        while len(tried) < 5:
            plan, orders = bench.plan()
            if orders[0]["mode"] == "acquire":
                told = {name: orders[0][name] for name in ("client", "round", "epoch", "correction_samples")}
                tried.append(told["correction_samples"])
                late = {"event": "abstained", "reason": "too late", **told}
                post(bench.block, "status", pdus.notice(late))
            post(bench.block, "arrivals", arrivals(plan["round"], plan["kind"], np.full(2, np.nan)))
            bench.round += 1
    assert tried == [0.0, 0.0, -0.75 * slot, 0.0, 0.75 * slot]
    assert bench.block.dropped == 0


def test_where_an_offset_was_measured_counts():
    """A clock that is 10 ppm fast is early by 3 samples 300,000 into a round, and the client is not off for that."""
    bench, place, ppm = Bench(), 300_000.0, 10.0
    with running(bench.top_block):
        for number in range(2):
            plan, orders = bench.plan()
            told = {name: orders[0][name] for name in ("client", "round", "epoch", "correction_samples")}
            sample = 262_144.0 * number
            heard = {"trigger_sample": sample * (1 + 1e-6 * ppm), "cfo_rad": 0.0, "snr_db": 40.0}
            post(bench.block, "status", pdus.notice({"event": "answered", "sent": "acquire", **told, **heard}))
            along = 1e-6 * (orders[0]["drift_ppm"] - ppm) * place
            offsets = np.array([told["correction_samples"] - 50.0 + along, np.nan])
            message = pdus.read_notice(arrivals(number, plan["kind"], offsets))
            message |= {"place_samples": np.array([place, np.nan])}
            vectors = {k: pdus.float64_vector(v) if isinstance(v, np.ndarray) else v for k, v in message.items()}
            post(bench.block, "arrivals", pdus.notice(vectors))
            bench.round += 1
        order = bench.plan()[1][0]
        assert bench.block.clients[0].state == "tracking"
    assert order["drift_ppm"] == pytest.approx(ppm, abs=0.1)
    assert order["correction_samples"] == pytest.approx(50.0, abs=0.1)


def test_arrivals_of_a_round_that_is_over_change_nothing():
    bench = Bench()
    with running(bench.top_block):
        for _ in range(6):
            bench.play()
        bench.plan()
        for number in (5, 5, 2):
            post(bench.block, "arrivals", arrivals(number, "payload", np.full(2, 400.0)))
        post(bench.block, "arrivals", pmt.PMT_T)  # the last of them: when it is counted the others are dealt with
        until(lambda: bench.block.dropped == 1)
        assert len(bench.plans) == bench.round + 1
        assert bench.block.all_tracking
        bench.play()
        assert np.allclose([order["correction_samples"] for order in bench.plan()[1]], -TRUE_OFFSETS, atol=0.05)


def test_orders_name_the_run_and_a_second_start_is_another():
    bench = Bench()
    with running(bench.top_block):
        first = [order["run"] for order in bench.plan()[1]]
        assert first[0] == first[1]
    with running(bench.top_block):
        until(lambda: len(bench.orders) >= 4)
        assert pdus.read_notice(bench.orders[3])["run"] != first[0]


def test_switched_off_it_leaves_the_radios_alone_and_on_again_it_calibrates_anew():
    bench = Bench(enabled=False)
    with running(bench.top_block):
        for _ in range(3):
            plan, orders = bench.play()
            assert plan["kind"] == "payload"
            assert [order["correction_samples"] for order in orders] == [0.0, 0.0]
        bench.plan()
        bench.block.set_enabled(True)
        bench.play()
        assert bench.plan()[0]["kind"] == "acquire"
        for _ in range(6):
            bench.play()
        assert bench.block.all_tracking
        bench.plan()
        bench.block.set_enabled(False)
        done = len(bench.reports)
        bench.play()
        until(lambda: len(bench.reports) > done)
        assert not np.any(pdus.read_notice(bench.reports[done])["correction_samples"])  # what is ordered, not known


@pytest.mark.parametrize(
    ("port", "message"),
    [
        ("status", pmt.PMT_T),
        ("status", pdus.notice({"event": "answered", "client": 0})),
        ("status", pdus.notice({"event": "gap", "client": 9, "epoch": 1, "reason": "?"})),
        ("arrivals", pmt.intern("nonsense")),
        ("arrivals", pdus.notice({"round": 0, "kind": "payload"})),
        ("arrivals", arrivals(0, "payload", np.zeros(3))),
        ("arrivals", arrivals(0, "dance", np.zeros(2))),
    ],
)
def test_bad_messages_are_counted_and_the_loop_goes_on(port, message):
    bench = Bench()
    with running(bench.top_block):
        bench.plan()
        post(bench.block, port, message)
        until(lambda: bench.block.dropped == 1)
        for _ in range(6):
            bench.play()
        assert bench.plan()[0]["kind"] == "payload"


def test_a_second_start_begins_anew():
    bench = Bench()
    with running(bench.top_block):
        for _ in range(6):
            bench.play()
        bench.plan()
    with running(bench.top_block):
        until(lambda: bench.block.round == 0)
        assert not bench.block.all_tracking


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clients": 0}, "clients must be"),
        ({"tolerance_samples": 0.0}, "tolerance_samples must"),
        ({"slot_samples": 1.5}, "slot_samples"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        drift_calibrator(**settings)
