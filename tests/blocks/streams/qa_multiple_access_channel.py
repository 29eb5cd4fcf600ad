# SPDX-License-Identifier: GPL-3.0-or-later
"""The multiple-access channel in a flowgraph: its samples are those of dsp's streaming channel, settings and all."""

import dataclasses
import subprocess
import sys

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.multiple_access_channel import multiple_access_channel
from oac_blocks.blocks.trigger_source import trigger_source
from oac_blocks.dsp.channel.multiple_access import Link, Receiver
from oac_blocks.dsp.channel.noise import complex_gaussian
from oac_blocks.dsp.channel.streaming_channel import StreamingChannel
from oac_blocks.dsp.preamble import trigger
from tests.blocks.companion.companion_core import ROOT, block_with_defaults, platform
from tests.support.flowgraphs import post, run, running, tag, tags
from tests.support.polling import DEADLINE_SECONDS, until

RATE = 20e6
CHUNK = 4096
SMALL = {"max_delay_samples": 64, "max_drift_samples": 64}
RECORD = complex_gaussian((3, 16 * CHUNK), 1.0, np.random.default_rng(5))


def through(channel, x, source_tags=()):
    """The sink behind a channel that each row of x was sent through, the first with tags."""
    tb = gr.top_block()
    sink = blocks.vector_sink_c()
    for i, row in enumerate(x):
        tb.connect(blocks.vector_source_c(row.tolist(), False, 1, [] if i else list(source_tags)), (channel, i))
    tb.connect(channel, sink)
    run(tb)
    return sink


def samples_of(sink):
    return np.array(sink.data(), np.complex64)


@pytest.mark.parametrize("chunk", [512, CHUNK, 65_536])
def test_samples_are_those_of_dsp(chunk):
    links = [
        Link(gain_db=-3.0, fading="rayleigh", profile="epa", cfo_hz=900.0, clock_ppm=20.0, clock_walk_ppm=1.0),
        Link(gain_db=0.0, fading="rayleigh", profile="epa", cfo_hz=-200.0, clock_ppm=-20.0, delay_samples=2.5),
        Link(gain_db=1.0, fading="rician", profile="epa", rician_k_db=3.0, stream_offset_samples=-9),
    ]
    reference = StreamingChannel(links, Receiver(15.0, 1.8, 12, 8.0), RATE, 7, coherence_samples=5000)
    each = {
        field.name: [getattr(link, field.name) for link in links]
        for field in dataclasses.fields(Link)
        if field.name != "profile"
    }
    channel = multiple_access_channel(
        3, RATE, 15.0, **each, profile="epa", coherence_samples=5000, noise_alpha=1.8, adc_bits=12,
        adc_full_scale=8.0, seed=7, chunk_samples=chunk,
    )  # fmt: skip
    assert channel.links == tuple(links)
    y = samples_of(through(channel, RECORD))
    np.testing.assert_array_equal(y, reference.push(RECORD))
    assert channel.latency_samples == reference.latency_samples
    assert channel.drift_samples == reference.drift_samples


CHANGES = [
    ("gain_db", [-6.0, 3.0]),
    ("gain_db", 1.0),
    ("delay_samples", [3.25, 0.0]),
    ("delay_samples", 40.0),
    ("stream_offset_samples", [5, -5]),
    ("cfo_hz", [3000.0, -1000.0]),
    ("clock_ppm", [200.0, -200.0]),
    ("clock_walk_ppm", 20.0),
    ("fading", "rayleigh"),
    ("fading", ["none", "rician"]),
    ("rician_k_db", 3.0),
    ("profile", "eva"),
    ("snr_db", 10.0),
    ("noise_alpha", 1.5),
    ("adc_bits", 4),
    ("adc_full_scale", 4.0),
    ("snr_db", None),
    ("adc_bits", 0),
    ("coherence_samples", 5000),
    ("redraw", None),
]


def change(reference, name, value):
    """What the block's setter of this name should do to dsp's channel."""
    if name == "redraw":
        reference.redraw()
    elif name == "coherence_samples":
        reference.set_coherence_samples(value)
    elif hasattr(reference.receiver, name):
        value = None if name == "adc_bits" and value == 0 else value
        reference.set_receiver(dataclasses.replace(reference.receiver, **{name: value}))
    else:
        values = value if isinstance(value, list) else [value, value]
        reference.set_links(
            [dataclasses.replace(link, **{name: v}) for link, v in zip(reference.links, values, strict=True)]
        )


def test_every_setter_applies_while_it_runs():
    """A source in lock step gives a round at a time, and one thing changes between rounds."""
    round_samples = 4 * CHUNK
    source = trigger_source("lock_step", round_samples, 0.5, chunk_samples=CHUNK)
    channel = multiple_access_channel(2, RATE, None, seed=3, **SMALL, chunk_samples=CHUNK)
    sink = blocks.vector_sink_c()
    tb = gr.top_block()
    tb.connect(source, (channel, 0))
    tb.connect(source, (channel, 1))
    tb.connect(channel, sink)
    reference = StreamingChannel([Link(), Link()], Receiver(), RATE, 3, **SMALL)
    one_round = np.zeros((2, round_samples), np.complex64)
    one_round[:, : len(trigger())] = np.float32(0.5) * trigger()

    expected = []
    with running(tb):
        for t, (name, value) in enumerate(CHANGES):
            if name == "redraw":
                post(channel, "redraw", pmt.PMT_T)
            else:
                getattr(channel, f"set_{name}")(value)
            post(source, "fire", pmt.PMT_T)
            until(lambda t=t: len(sink.data()) == (t + 1) * round_samples)
            change(reference, name, value)
            expected.append(reference.push(one_round))
    received = samples_of(sink).reshape(-1, round_samples)
    for y, wanted, (name, value) in zip(received, expected, CHANGES, strict=True):
        np.testing.assert_array_equal(y, wanted, err_msg=f"{name} = {value}")
    assert all(not np.array_equal(expected[i], expected[i + 1]) for i in range(len(expected) - 1))
    assert channel.dropped == 0


def test_tags_of_the_inputs_are_delayed_with_the_samples():
    channel = multiple_access_channel(2, RATE, None, **SMALL, chunk_samples=CHUNK)
    sink = through(channel, RECORD[:2], [tag(0, "trigger", 17), tag(5000, "burst", 3)])
    latency = channel.latency_samples
    assert tags(sink) == [(latency, "trigger", 17), (latency + 5000, "burst", 3)]
    np.testing.assert_array_equal(samples_of(sink)[latency:], (RECORD[0] + RECORD[1])[:-latency])


def test_slips_are_counted():
    channel = multiple_access_channel(
        2, RATE, None, clock_ppm=[1000.0, 0.0], max_delay_samples=64, max_drift_samples=16, chunk_samples=CHUNK
    )
    through(channel, RECORD[:2])
    assert channel.slips[0] > 1
    assert channel.slips[1] == 0
    assert abs(channel.drift_samples[0]) <= 16


def test_a_flowgraph_that_is_started_again_gives_the_same():
    tb = gr.top_block()
    source = blocks.vector_source_c(RECORD[0].tolist())
    channel = multiple_access_channel(1, RATE, 10.0, fading="rayleigh", **SMALL, chunk_samples=CHUNK)
    sink = blocks.vector_sink_c()
    tb.connect(source, channel, sink)
    runs = []
    for _ in range(2):
        source.rewind()
        sink.reset()
        run(tb)
        runs.append(samples_of(sink))
    np.testing.assert_array_equal(*runs)


def test_bad_samples_are_silence():
    x = RECORD[:2].copy()
    x[0, 10_000:10_003] = np.nan, np.inf, 1e30
    channel = multiple_access_channel(2, RATE, None, **SMALL, chunk_samples=CHUNK)
    y = samples_of(through(channel, x))[channel.latency_samples :]
    np.testing.assert_array_equal(y[10_000:10_003], x[1, 10_000:10_003])
    assert channel.bad_samples == 3
    assert channel.dropped == 0


def test_a_channel_that_fails_costs_a_gap_and_no_more(monkeypatch):
    push, calls = StreamingChannel.push, []

    def failing(channel, chunk):
        calls.append(len(chunk[0]))
        if len(calls) == 1:
            raise RuntimeError("no memory left")
        return push(channel, chunk)

    monkeypatch.setattr(StreamingChannel, "push", failing)
    channel = multiple_access_channel(1, RATE, None, **SMALL, chunk_samples=CHUNK)
    y = samples_of(through(channel, RECORD[:1]))
    assert channel.dropped == 1
    gap = calls[0] + channel.latency_samples
    np.testing.assert_array_equal(y[:gap], 0)
    np.testing.assert_array_equal(y[gap:], RECORD[0, calls[0] : len(y) - channel.latency_samples])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"clients": 0}, "clients"),
        ({"gain_db": [0.0, 0.0, 0.0]}, "gain_db"),
        ({"clock_ppm": [20.0, 2000.0]}, "clock_ppm"),
        ({"fading": "heavy"}, "fading"),
        ({"profile": "office"}, "profile"),
        ({"delay_samples": 5000.0}, "delay_samples"),
        ({"snr_db": "high"}, "snr_db"),
        ({"adc_bits": 30}, "adc_bits"),
        ({"coherence_samples": 3}, "coherence_samples"),
        ({"chunk_samples": 100}, "chunk_samples"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=rf"{name} must be"):
        multiple_access_channel(**arguments)


def test_a_setter_that_refuses_changes_nothing():
    channel = multiple_access_channel()
    before = channel.links
    with pytest.raises(ValueError, match="clock_ppm must be"):
        channel.set_clock_ppm([0.0, 1e4])
    with pytest.raises(ValueError, match="snr_db must be"):
        channel.set_snr_db(float("nan"))
    assert channel.links == before
    assert channel.receiver == Receiver(snr_db=20.0)


def companion_flow(**settings):
    """As many null sources as clients -> channel -> head -> null sink, as drawn in Companion."""
    graph = platform().make_flow_graph()
    options = graph.options_block
    for name, value in (("id", "channel_flow"), ("generate_options", "no_gui"), ("run_options", "run")):
        options.params[name].set_value(value)
    channel, source, head, sink = (
        block_with_defaults(name, graph)
        for name in ("oac_multiple_access_channel", "blocks_null_source", "blocks_head", "blocks_null_sink")
    )
    for name, value in settings.items():
        channel.params[name].set_value(value)
    head.params["num_items"].set_value("300000")
    graph.rewrite()
    for port in channel.sinks:
        if port.domain == "stream":
            graph.connect(source.sources[0], port)
    graph.connect(channel.sources[0], head.sinks[0])
    graph.connect(head.sources[0], sink.sinks[0])
    graph.rewrite()
    graph.validate()
    return graph


def test_in_companion_it_has_an_input_for_each_client():
    graph = companion_flow(clients="3", clock_ppm="[20, 0, -20]", snr_db="None", profile="'epa'", fading="'rician'")
    assert graph.is_valid(), [str(message) for _, message in graph.iter_error_messages()]
    assert not any(block.is_dummy_block for block in graph.blocks)
    assert len(list(graph.connections)) == 5


def test_lists_have_one_value_for_each_client_in_companion(tmp_path):
    """Two clients, and the server's own trigger as one more input that nothing happens to."""
    lists = {
        "gain_db": [0, 0, -6],
        "fading": ["rayleigh", "rician", "none"],
        "rician_k_db": [1, 2, 3],
        "profile": ["epa", "etu", "flat"],
        "delay_samples": [1.5, 2.5, 0],
        "stream_offset_samples": [7, -7, 0],
        "cfo_hz": [1000, -1000, 0],
        "clock_ppm": [20, -20, 0],
        "clock_walk_ppm": [0.1, 0.1, 0],
    }
    graph = companion_flow(clients="3", **{name: str(value) for name, value in lists.items()})
    assert graph.is_valid(), [str(message) for _, message in graph.iter_error_messages()]
    (block,) = (block for block in graph.blocks if block.key == "oac_multiple_access_channel")
    names = {"multiple_access_channel": multiple_access_channel}
    channel = eval(block.templates.render("make"), names)
    made = [dataclasses.astuple(link) for link in channel.links]
    again = multiple_access_channel(3)
    for call in block.templates.render("callbacks"):
        eval(f"channel.{call}", {"channel": again})
    assert [dataclasses.astuple(link) for link in again.links] == made
    for name, values in lists.items():
        assert [getattr(link, name) for link in channel.links] == values
    generated_program_runs(graph, tmp_path)


def test_the_documented_latency_is_the_true_one():
    graph = platform().make_flow_graph()
    documentation = block_with_defaults("oac_multiple_access_channel", graph).documentation[""]
    assert f"{multiple_access_channel().latency_samples:,} by default" in documentation


@pytest.mark.parametrize(
    "setting",
    [
        {"clients": "0"},
        {"snr_db": "300"},
        {"gain_db": "[1, 2, 3]"},
        {"clock_ppm": "[20, 2000]"},
        {"clock_walk_ppm": "-1"},
        {"delay_samples": "[5000, 0]"},
        {"fading": "['rayleigh']"},
        {"fading": "'heavy'"},
        {"profile": "['epa', 'eva', 'etu']"},
        {"clock_seed": "-1"},
        {"coherence_samples": "5"},
        {"adc_bits": "30"},
        {"max_drift_samples": "0"},
        {"seed": "-1"},
        {"chunk_samples": "10"},
    ],
)
def test_values_out_of_range_are_marked(setting):
    assert not companion_flow(**setting).is_valid()


def generated_program_runs(graph, folder):
    platform().Generator(graph, str(folder)).write()
    done = subprocess.run(
        [sys.executable, str(folder / "channel_flow.py")],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        env={"PYTHONPATH": str(ROOT), "HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    assert ":error:" not in done.stdout + done.stderr


def test_the_generated_program_runs(tmp_path):
    generated_program_runs(companion_flow(fading="'rayleigh'", profile="'epa'", coherence_samples="65536"), tmp_path)
