# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's end of a flowgraph, over real sockets; the flowgraph is played by the test, message by message."""

import numpy as np
import pmt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fl_app.air.live import flow_messages
from fl_app.config import ConfigError
from fl_app.link import radio_uplink
from fl_app.link.caller import RadioBurst
from fl_app.link.radio_bench import OwnRadio, RadioBench
from fl_app.link.radio_uplink import TooFewVotersError, UplinkError
from oac_blocks.bench.flows.endpoints import Endpoints, payload_endpoint
from oac_blocks.blocks.support import pdus
from oac_blocks.rounds.delivery import PARTIAL_ROUNDS
from oac_blocks.rounds.messages import Call
from tests.fl_app.link.radio.scripted_flowgraph import AIR, RUN, Flowgraph, K
from tests.support.polling import DEADLINE_SECONDS, until


@pytest.fixture
def flowgraph(short_folder):
    made = Flowgraph(short_folder)
    yield made
    made.close()


def test_a_round_is_called_announced_and_decided(flowgraph):
    def script(it):
        it.call(7)
        yield
        ballot = it.ballot()
        assert ballot.data.tolist() == [1, 0, 1]
        named = {name: pmt.to_python(value) for name, value in ballot.metadata.items()}
        assert named == {"round": 7, "run": RUN, "votes": K}
        it.decide(7, voters=2, value=3.0)
        yield

    uplink = flowgraph.uplink(script, [0, 2], t=5)
    assert len(uplink.heard) == 2
    assert uplink.received.tolist() == [3.0] * K
    assert uplink.snr_db == pytest.approx(10.0)
    assert (flowgraph.told, flowgraph.scales) == ([(5, 7, RUN, 0, K)], [None])


def test_entries_are_asked_for_in_one_scale_and_come_back_without_it(flowgraph):
    """The median of the reports decides; client 1 says nonsense, and 2 of 3 clients are heard."""
    flowgraph.reported = {0: (0.01, 0.04), 1: (1e18, 0.0), 2: (0.02, 0.05)}

    def script(it):
        it.report("tracking", "tracking", "acquiring")
        it.call(7)
        yield
        it.decide(7, voters=2, value=3.0)
        yield

    uplink = flowgraph.uplink(script, [0, 1, 2], air=AIR.with_values(mode="energy", repeats=1))
    assert flowgraph.scales == [pytest.approx(1 / 0.02)]
    assert uplink.heard.tolist() == [0, 1]
    assert uplink.received == pytest.approx(np.full(K, 3.0 * 0.02 / 2), rel=1e-5)


def test_a_round_that_came_too_early_for_somebody_is_played_again(flowgraph):
    def script(it):
        it.report("tracking", "tracking", "tracking")
        it.call(1)
        yield
        it.decide(1, voters=1, value=1.0)
        it.call(2)
        yield
        it.decide(2, voters=3, value=2.0)
        yield

    uplink = flowgraph.uplink(script, [0, 1, 2])
    assert (len(uplink.heard), uplink.received[0]) == (3, 2.0)
    assert [told[1] for told in flowgraph.told] == [1, 2]


def test_who_is_not_tracking_is_not_waited_for(flowgraph):
    def script(it):
        it.report("tracking", "tracking", "acquiring")
        it.call(1)
        yield
        it.decide(1, voters=2)
        yield

    uplink = flowgraph.uplink(script, [0, 1, 2])
    assert uplink.heard.tolist() == [0, 1]
    assert len(flowgraph.told) == 1


def test_the_report_of_the_round_itself_does_not_say_who_was_able(flowgraph):
    """It may come before or behind the soft votes. Client 2 was able when the round began, so it is played again."""

    def script(it):
        it.report("tracking", "tracking", "tracking", number=0)
        it.call(1)
        yield
        it.report("tracking", "tracking", "uncalibrated", number=1)
        it.decide(1, voters=2)
        it.call(2)
        yield
        it.decide(2, voters=2)
        yield

    uplink = flowgraph.uplink(script, [0, 1, 2])
    assert uplink.heard.tolist() == [0, 1]
    assert [told[1] for told in flowgraph.told] == [1, 2]


def test_a_client_whose_votes_never_come_is_given_up_after_some_rounds(flowgraph):
    def script(it):
        it.report("tracking", "tracking", "tracking")
        for number in range(20):
            it.call(number)
            yield
            it.decide(number, voters=2)
            yield

    uplink = flowgraph.uplink(script, [0, 1, 2], min_clients=2)
    assert len(uplink.heard) == 2
    assert len(flowgraph.told) == PARTIAL_ROUNDS + 1


@pytest.mark.parametrize("states", [["tracking"] * 3, ["tracking", "fine", "acquiring"]])
def test_fewer_than_needed_are_never_enough(flowgraph, monkeypatch, states):
    monkeypatch.setattr(radio_uplink, "FRUITLESS_SECONDS", 1.0)

    def script(it):
        it.report(*states)
        for number in range(10_000):
            it.call(number)
            yield
            it.decide(number, voters=1)
            yield

    with pytest.raises(TooFewVotersError, match=f"brought too few votes in 1 s; its clients are: {', '.join(states)}"):
        flowgraph.uplink(script, [0, 1, 2], min_clients=2)


def test_radios_that_have_just_started_are_calibrating(flowgraph, monkeypatch):
    """ "Too few votes" would sound like a fault of a bench that needs some more seconds."""
    monkeypatch.setattr(radio_uplink, "FRUITLESS_SECONDS", 0.2)

    def script(it):
        it.report("uncalibrated", "acquiring", "fine")
        for number in range(10_000):
            it.call(number)
            yield

    with pytest.raises(
        TooFewVotersError, match=r"is still calibrating its clients after 0\.2 s: uncalibrated, acquiring, f"
    ):
        flowgraph.uplink(script, [0, 1, 2], min_clients=2)


def test_as_many_as_there_are_is_enough(flowgraph):
    """Of those that are needed one had no finite gradients, and so has nothing to send."""

    def script(it):
        it.report("tracking", "tracking", "tracking")
        it.call(1)
        yield
        it.decide(1, voters=2)
        yield

    uplink = flowgraph.uplink(script, [0, 2], min_clients=3)
    assert len(uplink.heard) == 2


def test_radios_that_only_calibrate_are_given_up_in_time(flowgraph, monkeypatch):
    monkeypatch.setattr(radio_uplink, "FRUITLESS_SECONDS", 1.0)

    def script(it):
        while True:
            it.report("acquiring", "acquiring", "acquiring")
            yield

    with pytest.raises(TooFewVotersError, match="acquiring, acquiring"):
        flowgraph.uplink(script, [0, 1, 2])


def test_decision_may_come_behind_the_next_call(flowgraph, monkeypatch):
    """They are on two sockets, and the larger message may be the slower one."""
    monkeypatch.setattr(radio_uplink, "OVERTAKEN_SECONDS", DEADLINE_SECONDS)

    def script(it):
        it.report("tracking", "tracking", "tracking")
        it.call(1)
        yield
        it.call(2)
        yield
        it.decide(1, voters=3, value=1.0)
        yield

    uplink = flowgraph.uplink(script, [0, 1, 2])
    assert uplink.received[0] == 1.0
    assert [told[1] for told in flowgraph.told] == [1]


def test_rounds_that_brought_nothing_do_not_make_a_partial_one_do(flowgraph, monkeypatch):
    monkeypatch.setattr(radio_uplink, "OVERTAKEN_SECONDS", 0.0)

    def script(it):
        it.report("tracking", "tracking", "tracking")
        for number in range(6):
            it.call(number)
            yield
            yield
        it.call(6)
        yield
        it.decide(6, voters=2)
        yield
        it.call(7)
        yield
        it.decide(7, voters=3)
        yield

    uplink = flowgraph.uplink(script, [0, 1, 2])
    assert len(uplink.heard) == 3


def test_a_call_that_is_about_to_be_played_without_votes_is_not_answered(flowgraph):
    bench = flowgraph.bench
    for number, seconds, wanted in [(1, 1e4, Call(1, RUN)), (2, 1e-3, None), (3, 1e4, Call(3, RUN))]:
        flowgraph.call(number, seconds=seconds)
        flowgraph.settle()
        assert bench.last_call == Call(number, RUN)
        until(lambda wanted=wanted: bench.fresh_call() == wanted, f"the state of call {number}")


def test_a_flowgraph_that_is_started_anew_is_followed(flowgraph, monkeypatch):
    """Its first rounds have numbers that the other one used as well."""
    monkeypatch.setattr(radio_uplink, "OVERTAKEN_SECONDS", 0.0)

    def script(it):
        it.call(3)
        yield
        it.call(3, run=RUN + 1)
        yield
        it.decide(3, voters=3, value=5.0)  # of the first, too late
        yield
        it.decide(3, voters=3, value=6.0, run=RUN + 1)
        yield

    uplink = flowgraph.uplink(script, [0, 1, 2])
    assert uplink.received[0] == 6.0
    assert [told[2] for told in flowgraph.told] == [RUN, RUN + 1]


def test_a_call_whose_round_is_over_is_not_answered(flowgraph):
    """As after a long training: the last call that waits at the socket was fired without votes long ago."""

    def script(it):
        it.call(8)
        it.decide(8, voters=0, votes=500)
        yield
        yield
        it.call(9)
        yield
        it.decide(9, voters=3)
        yield

    flowgraph.uplink(script, [0, 1, 2])
    assert [told[1] for told in flowgraph.told][-1] == 9


def test_a_long_payload_takes_several_rounds_and_each_entry_is_decided_once(flowgraph):
    k = 50_000

    def script(it):
        for number in range(20):
            it.call(number)
            yield
            *_, first, stop = it.told[-1]
            it.decide(number, voters=3, votes=stop - first, value=float(number))
            yield

    uplink = flowgraph.uplink(script, [0, 1, 2], k=k)
    edges = [(first, stop) for *_, first, stop in flowgraph.told]
    assert edges == [(0, 16_666), (16_666, 33_333), (33_333, 50_000)]
    for (first, stop), number in zip(edges, (told[1] for told in flowgraph.told), strict=True):
        assert (uplink.received[first:stop] == number).all()


def test_a_flowgraph_with_another_waveform_is_refused(flowgraph):
    def script(it):
        it.report("tracking", "tracking", "tracking", fft_size=64, cp_samples=16, groups=4)
        yield

    with pytest.raises(UplinkError, match=r"has fft_size = 64, cp_samples = 16, and this run's \[air\] 256, 64; start"):
        flowgraph.uplink(script, [0, 1, 2])


def test_soft_votes_of_another_waveform_are_refused(flowgraph):
    """Also where no report came before them: sockets overtake each other."""

    def script(it):
        it.call(1)
        yield
        it.decide(1, voters=3, repeats=2)
        yield

    with pytest.raises(
        UplinkError, match=r"has repeats = 2, and this run's \[air\] 1; start `fl_app radio` with --set"
    ):
        flowgraph.uplink(script, [0, 1, 2])


def test_time_on_the_air_is_booked_at_the_rate_of_the_radios(flowgraph):
    def script(it):
        it.call(1)
        yield
        it.decide(1, voters=3, sample_rate_hz=2.5e6, fft_size=256)
        yield

    uplink = flowgraph.uplink(script, [0, 1, 2])
    # K votes take one symbol behind one sync symbol.
    assert uplink.air_seconds == pytest.approx(2 * 320 / 2.5e6)


def test_a_flowgraph_for_another_number_of_clients_is_refused(flowgraph):
    flowgraph.report("tracking", "tracking")
    with pytest.raises(UplinkError, match="has 2 clients, and this run 3"):
        flowgraph.uplink(lambda _it: iter(()), [0])


def test_silence_is_an_error_with_a_hint(flowgraph, monkeypatch):
    monkeypatch.setattr(radio_uplink, "SILENT_SECONDS", 0.3)
    with pytest.raises(
        UplinkError, match=r"nothing was heard of the flowgraph at ipc://.* is `fl_app radio` running\?"
    ):
        flowgraph.uplink(lambda _it: iter(()), [0])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["next", "soft_votes", "report"]), st.binary(max_size=60))
def test_what_cannot_be_read_is_dropped(flowgraph, name, message):
    flowgraph.send(name, message)
    flowgraph.settle()
    flowgraph.call(5)
    flowgraph.settle()
    assert flowgraph.bench.last_call == Call(5, RUN)


def test_messages_that_lack_something_are_dropped(flowgraph):
    flowgraph.send("next", pdus.notice({"round": 3}))
    flowgraph.send("soft_votes", pdus.make(np.ones(3, np.float32), {"round": 3, "run": 1}))
    flowgraph.send("soft_votes", pdus.make(np.ones(3, np.int8), {"round": 3, "run": 1, "heard": "0", "snr_db": 1.0}))
    flowgraph.send("report", pdus.notice({"round": 3}))
    flowgraph.call(4)
    flowgraph.settle()
    assert flowgraph.bench.last_call == Call(4, RUN)
    assert flowgraph.bench.decision_of(Call(3, 1)) is None


def test_a_clients_votes_go_to_its_radio(flowgraph):
    radio = OwnRadio(flowgraph.address, 2)
    votes = np.array([1, 0, -1], np.int8)
    until(lambda: radio(RadioBurst(11, RUN, votes)) or flowgraph._payload.poll(10))
    payload = flowgraph.payload()
    assert payload.data.tolist() == votes.tolist()
    assert {name: pmt.to_python(value) for name, value in payload.metadata.items()} == {
        "client": 2,
        "round": 11,
        "run": RUN,
    }
    radio.close()


def test_nothing_piles_up_for_a_radio_that_is_not_there(short_folder, caplog):
    """A radio that comes later gets none of the votes that were for rounds long ago. It is missed in one warning."""
    radio = OwnRadio(f"ipc://{short_folder}", 0)
    for number in range(100):
        radio(RadioBurst(number, RUN, np.ones(30_000, np.int8)))
    assert caplog.text.count("nobody takes votes at") == 1
    flowgraph = Flowgraph(short_folder)
    until(lambda: radio(RadioBurst(100, RUN, np.ones(3, np.int8))) or flowgraph._payload.poll(10), "votes at the radio")
    assert pmt.to_long(flowgraph.payload().metadata["round"]) == 100
    radio.close()
    flowgraph.close()


def test_addresses():
    assert payload_endpoint("tcp://127.0.0.1:7790", 3) == "tcp://127.0.0.1:7799"
    assert Endpoints.at("tcp://127.0.0.1:7790").ballot == "tcp://127.0.0.1:7794"
    with pytest.raises(ConfigError, match=r"192.168.1.2:7790 is another machine: run the radio's flowgraph"):
        RadioBench("tcp://192.168.1.2:7790", 2)
    with pytest.raises(ConfigError, match="is not an endpoint"):
        OwnRadio("usb:1.2.5", 0)


def test_ballot_and_payload_are_what_the_blocks_take():
    ballot = pdus.read(pmt.deserialize_str(flow_messages.ballot(Call(1, 2), 30, [True, False])), np.int8)
    assert ballot.data.tolist() == [1, 0]
    payload = pdus.read(pmt.deserialize_str(flow_messages.payload(Call(1, 2), 4, np.ones(3, np.int8))), np.int8)
    assert payload.data.tolist() == [1, 1, 1]
