# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds recorded in GNU Radio: replays give the soft votes that were published, and GNU Radio reads the files."""

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr
from typer.testing import CliRunner

from oac_blocks.bench.flows.loopback import LoopbackSettings, loopback
from oac_blocks.bench.flows.loopback_trial import Voters, run_trial
from oac_blocks.cli import app
from oac_blocks.record.files import read, recordings
from oac_blocks.record.recorder import Recorder
from oac_blocks.record.replay import replay
from tests.support.flowgraphs import Messages, run, running
from tests.support.polling import until

SETTINGS = LoopbackSettings(clients=3, votes=1920, rounds=6, seed=4)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder of recorded rounds, and what the flowgraph published of them: soft votes and energies by round."""
    folder = tmp_path_factory.mktemp("rec")
    flow = loopback(SETTINGS)
    voters = Voters(flow)
    messages = {port: Messages(flow, flow.receiver, port) for port in ("soft_votes", "energies")}
    with Recorder(folder, SETTINGS.facts(), 100.0, waits=True) as recorder:
        flow.receiver.record(recorder)
        with running(flow):
            until(lambda: voters.record.rounds >= SETTINGS.rounds and voters.complete)
            for port in messages.values():
                port.wait_for_sent()
    votes = {pmt.to_long(one.metadata["round"]): one.data for one in messages["soft_votes"].pdus(np.float32)}
    energies = {pmt.to_long(one.metadata["round"]): one.data for one in messages["energies"].pdus(np.complex64)}
    return folder, votes, energies


def test_replayed_votes_and_energies_are_those_that_were_published(published):
    folder, votes, energies = published
    again = [replay(read(path)) for path in recordings([folder])]
    assert [one.heard.round for one in again] == list(range(len(again)))
    payload = [one for one in again if one.soft_votes is not None]
    assert len(payload) >= 3
    assert [one.heard.round for one in payload] == sorted(votes)
    for one in again:
        assert (one.verdict, one.arrivals) == ("equal", "equal")
    for one in payload:
        np.testing.assert_array_equal(one.soft_votes, votes[one.heard.round])
        both = energies[one.heard.round]
        np.testing.assert_array_equal(one.soft_votes, both.real - both.imag)


def test_gnu_radio_reads_the_same_samples(published):
    path = recordings([published[0]])[-1]
    flowgraph = gr.top_block()
    source = blocks.file_source(gr.sizeof_gr_complex, f"{path}.sigmf-data", False)
    sink = blocks.vector_sink_c()
    flowgraph.connect(source, sink)
    run(flowgraph)
    np.testing.assert_array_equal(np.array(sink.data(), np.complex64), read(path).capture.samples)


def test_recording_changes_no_decision(tmp_path):
    settings = LoopbackSettings(votes=960, rounds=4)
    with Recorder(tmp_path, settings.facts(), 100.0, waits=True) as recorder:
        recorded = run_trial(settings, recorder=recorder)
    assert recorded.decisions == run_trial(settings).decisions
    assert recorder.written == recorded.rounds
    assert read(recordings([tmp_path])[0]).layout == settings.layout()


def test_the_command_records_what_the_command_replays(tmp_path):
    folder = tmp_path / "rec"
    words = ["loopback", "--rounds", "3", "--votes", "960", "--record", str(folder), "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[-1].startswith("3 rounds recorded in ")
    result = CliRunner().invoke(app, ["replay", str(folder)])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "3 rounds: all equal"
    file = tmp_path / "file"
    file.write_text("")
    result = CliRunner().invoke(app, ["loopback", "--rounds", "3", "--record", str(file)])
    assert result.exit_code == 2
    assert f"oac-blocks loopback: cannot record into {file}: File exists" in result.stderr
