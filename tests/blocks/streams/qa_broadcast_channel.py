# SPDX-License-Identifier: GPL-3.0-or-later
"""The broadcast channel in a flowgraph: its samples are those of dsp's channel; with the way up it closes a loop."""

import dataclasses

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.broadcast_channel import broadcast_channel
from oac_blocks.blocks.multiple_access_channel import multiple_access_channel
from oac_blocks.blocks.trigger_source import trigger_source
from oac_blocks.dsp.channel.multiple_access import Link, Receiver
from oac_blocks.dsp.channel.noise import complex_gaussian
from oac_blocks.dsp.channel.streaming_channel import StreamingBroadcast
from oac_blocks.dsp.preamble import trigger
from oac_blocks.dsp.receive.arrival import estimate_arrival
from tests.blocks.companion.companion_core import block_with_defaults, platform
from tests.support.flowgraphs import post, run, running, tag, tags
from tests.support.polling import until

RATE = 20e6
CHUNK = 4096
SMALL = {"max_delay_samples": 64, "max_drift_samples": 64}
RECORD = complex_gaussian(16 * CHUNK, 1.0, np.random.default_rng(5))


def through(channel, x, clients, source_tags=()):
    """The sinks behind a channel that x was sent through."""
    tb = gr.top_block()
    sinks = [blocks.vector_sink_c() for _ in range(clients)]
    tb.connect(blocks.vector_source_c(x.tolist(), False, 1, list(source_tags)), channel)
    for i, sink in enumerate(sinks):
        tb.connect((channel, i), sink)
    run(tb)
    return sinks


def samples_of(sinks):
    return np.array([sink.data() for sink in sinks], np.complex64)


@pytest.mark.parametrize("chunk", [512, CHUNK, 65_536])
def test_samples_are_those_of_dsp(chunk):
    links = [
        Link(gain_db=-3.0, fading="rayleigh", profile="epa", cfo_hz=900.0, clock_ppm=20.0, clock_walk_ppm=1.0),
        Link(gain_db=0.0, fading="rayleigh", profile="flat", cfo_hz=-200.0, clock_ppm=-20.0, delay_samples=2.5),
        Link(gain_db=1.0, fading="rician", profile="eva", rician_k_db=3.0, stream_offset_samples=-9),
    ]
    receivers = [Receiver(15.0, 1.8, 12, 8.0), Receiver(None), Receiver(3.0, 2.0, 6, 2.0)]
    reference = StreamingBroadcast(links, receivers, RATE, 7, clock_seed=8, coherence_samples=5000)
    each = {field.name: [getattr(link, field.name) for link in links] for field in dataclasses.fields(Link)}
    each |= {field.name: [getattr(one, field.name) for one in receivers] for field in dataclasses.fields(Receiver)}
    each["adc_bits"] = [12, 0, 6]
    channel = broadcast_channel(3, RATE, **each, coherence_samples=5000, seed=7, clock_seed=8, chunk_samples=chunk)
    assert channel.links == tuple(links)
    assert channel.receivers == tuple(receivers)
    np.testing.assert_array_equal(samples_of(through(channel, RECORD, 3)), reference.push(RECORD))
    assert channel.latency_samples == reference.latency_samples
    assert channel.drift_samples == reference.drift_samples


CHANGES = [
    ("gain_db", [-6.0, 3.0]),
    ("gain_db", 1.0),
    ("delay_samples", [3.25, 1.0]),
    ("stream_offset_samples", [5, -5]),
    ("cfo_hz", [3000.0, -1000.0]),
    ("clock_ppm", [200.0, -200.0]),
    ("clock_walk_ppm", 20.0),
    ("fading", ["rayleigh", "rician"]),
    ("rician_k_db", 3.0),
    ("profile", ["eva", "flat"]),
    ("snr_db", [10.0, None]),
    ("noise_alpha", 1.5),
    ("adc_bits", [4, 0]),
    ("adc_full_scale", 4.0),
    ("snr_db", None),
    ("adc_bits", 0),
    ("coherence_samples", 5000),
    ("redraw", None),
]


def change(reference, name, value):
    """What the block's setter of this name should do to dsp's channel."""
    if name == "redraw":
        return reference.redraw()
    if name == "coherence_samples":
        return reference.set_coherence_samples(value)
    values = value if isinstance(value, list) else [value, value]
    if name == "adc_bits":
        values = [bits or None for bits in values]
    of_receivers = hasattr(reference.receivers[0], name)
    changed = [
        dataclasses.replace(one, **{name: each})
        for one, each in zip(reference.receivers if of_receivers else reference.links, values, strict=True)
    ]
    return reference.set_receivers(changed) if of_receivers else reference.set_links(changed)


def test_every_setter_applies_while_it_runs():
    """A source in lock step gives a round at a time, and one thing changes between rounds."""
    round_samples = 4 * CHUNK
    source = trigger_source("lock_step", round_samples, 0.5, chunk_samples=CHUNK)
    channel = broadcast_channel(2, RATE, None, seed=3, **SMALL, chunk_samples=CHUNK)
    sinks = [blocks.vector_sink_c() for _ in range(2)]
    tb = gr.top_block()
    tb.connect(source, channel)
    for i, sink in enumerate(sinks):
        tb.connect((channel, i), sink)
    reference = StreamingBroadcast([Link(), Link()], [Receiver()] * 2, RATE, 3, **SMALL)
    one_round = np.zeros(round_samples, np.complex64)
    one_round[: len(trigger())] = np.float32(0.5) * trigger()

    expected = []
    with running(tb):
        for t, (name, value) in enumerate(CHANGES):
            if name == "redraw":
                post(channel, "redraw", pmt.PMT_T)
            else:
                getattr(channel, f"set_{name}")(value)
            post(source, "fire", pmt.PMT_T)
            until(lambda t=t: all(len(sink.data()) == (t + 1) * round_samples for sink in sinks))
            change(reference, name, value)
            expected.append(reference.push(one_round))
    received = samples_of(sinks).reshape(2, -1, round_samples).swapaxes(0, 1)
    for y, wanted, (name, value) in zip(received, expected, CHANGES, strict=True):
        np.testing.assert_array_equal(y, wanted, err_msg=f"{name} = {value}")
    assert all(not np.array_equal(expected[i], expected[i + 1]) for i in range(len(expected) - 1))
    assert channel.dropped == 0


def test_tags_are_delayed_with_the_samples_on_every_output():
    channel = broadcast_channel(2, RATE, None, **SMALL, chunk_samples=CHUNK)
    sinks = through(channel, RECORD, 2, [tag(0, "trigger", 17), tag(5000, "burst", 3)])
    latency = channel.latency_samples
    for sink in sinks:
        assert tags(sink) == [(latency, "trigger", 17), (latency + 5000, "burst", 3)]
        np.testing.assert_array_equal(np.array(sink.data(), np.complex64)[latency:], RECORD[:-latency])


def test_there_and_back_the_radios_are_the_same():
    """Clients that transmit what they hear: the answers come back with the clock's error in their turnaround alone."""
    ppm, walk, delay = [300.0, -300.0], 5.0, [3.25, 11.5]
    radios = {"clock_ppm": ppm, "clock_walk_ppm": [walk] * 2, "delay_samples": delay, "cfo_hz": [2e3, -3e3]}
    down = broadcast_channel(2, RATE, None, **radios, clock_seed=5, chunk_samples=CHUNK)
    with_server = {name: [*value, 0.0] for name, value in radios.items()}
    gains = [0.0, -200.0, -200.0]  # to hear the first alone
    up = multiple_access_channel(3, RATE, None, gains, **with_server, clock_seed=5, seed=2, chunk_samples=CHUNK)
    turnaround_samples = down.latency_samples
    x = np.zeros(300 * CHUNK, np.complex64)
    sent = np.array([10_000, 600_000, 1_100_000])
    for at in sent:
        x[at : at + len(trigger())] = trigger()
    tb = gr.top_block()
    source = blocks.vector_source_c(x.tolist())
    sink = blocks.vector_sink_c()
    tb.connect(source, down)
    for i in range(2):
        tb.connect((down, i), (up, i))
    tb.connect(source, (up, 2))
    tb.connect(up, sink)
    run(tb)
    y = np.array(sink.data(), np.complex64)
    latency = up.latency_samples + turnaround_samples
    expected = 2 * delay[0] + turnaround_samples / (1 + 1e-6 * ppm[0]) - turnaround_samples
    for at in sent:
        begin = at + latency - 100
        found = estimate_arrival(y[begin : begin + 600], trigger(), 100 + expected, fit_cfo=True)
        # In 0.06 s the rate walks by 1.2 ppm (one standard deviation): five of them over the turnaround.
        assert float(found.time_samples) - 100 == pytest.approx(expected, abs=1e-6 * 6 * turnaround_samples)
        # Up 2 kHz and down 2 kHz again.
        assert abs(float(found.cfo_rad_per_sample)) < 2 * np.pi * 20 / RATE
    # The client with the same index has gone through the same walk, whatever else is connected.
    np.testing.assert_allclose(up.drift_samples[:2], down.drift_samples, atol=2.0)
    assert abs(up.drift_samples[0]) > 200
    assert up.drift_samples[2] == 0


def test_slips_and_bad_samples_are_counted_and_a_failure_costs_a_gap(monkeypatch):
    x = RECORD.copy()
    x[10_000:10_003] = np.nan, np.inf, 1e30
    channel = broadcast_channel(
        2, RATE, None, clock_ppm=[1000.0, 0.0], max_delay_samples=64, max_drift_samples=16, chunk_samples=CHUNK
    )
    y = samples_of(through(channel, x, 2))
    assert channel.slips[0] > 1
    assert channel.slips[1] == 0
    assert channel.bad_samples == 3
    x[10_000:10_003] = 0
    latency = channel.latency_samples
    np.testing.assert_array_equal(y[1, latency:], x[:-latency])

    push, calls = StreamingBroadcast.push, []

    def failing(channel, chunk):
        calls.append(len(chunk))
        if len(calls) == 1:
            raise RuntimeError("no memory left")
        return push(channel, chunk)

    monkeypatch.setattr(StreamingBroadcast, "push", failing)
    channel = broadcast_channel(1, RATE, None, **SMALL, chunk_samples=CHUNK)
    y = samples_of(through(channel, RECORD, 1))[0]
    assert channel.dropped == 1
    gap = calls[0] + channel.latency_samples
    np.testing.assert_array_equal(y[:gap], 0)
    np.testing.assert_array_equal(y[gap:], RECORD[calls[0] : len(y) - channel.latency_samples])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"clients": 65}, "clients"),
        ({"gain_db": [0.0, 0.0, 0.0]}, "gain_db"),
        ({"snr_db": [1.0]}, "snr_db"),
        ({"snr_db": "high"}, "snr_db"),
        ({"adc_bits": [30, 0]}, "adc_bits"),
        ({"clock_seed": -1}, "clock_seed"),
        ({"chunk_samples": 100}, "chunk_samples"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=rf"{name} must be"):
        broadcast_channel(**arguments)


def companion_block(**settings):
    """The block as drawn in Companion, and its flowgraph, which must be kept."""
    graph = platform().make_flow_graph()
    block = block_with_defaults("oac_broadcast_channel", graph)
    for name, value in settings.items():
        block.params[name].set_value(str(value))
    graph.rewrite()
    block.validate()
    return block, graph


def faults(block):
    return [text for _, text in block.iter_error_messages() if text != "Port is not connected."]


def test_in_companion_it_has_an_output_for_each_client_and_takes_lists():
    lists = {
        "snr_db": [10, None, 20],
        "adc_bits": [0, 8, 12],
        "noise_alpha": [2, 1.5, 1],
        "adc_full_scale": [1, 2, 3],
        "fading": ["rayleigh", "none", "rician"],
        "profile": ["epa", "flat", "etu"],
        "clock_ppm": [20, -20, 0],
    }
    block, _graph = companion_block(clients=3, **lists)
    assert faults(block) == []
    assert len([port for port in block.sources if port.domain == "stream"]) == 3
    channel = eval(block.templates.render("make"), {"broadcast_channel": broadcast_channel})
    again = broadcast_channel(3)
    for call in block.templates.render("callbacks"):
        eval(f"channel.{call}", {"channel": again})
    for one in (channel, again):
        settings = [*zip(one.links, one.receivers, strict=True)]
        for name, values in lists.items():
            got = [getattr(link, name) if hasattr(link, name) else getattr(own, name) for link, own in settings]
            assert got == ([bits or None for bits in values] if name == "adc_bits" else values)
    assert f"{broadcast_channel().latency_samples:,} by default" in block.documentation[""]


@pytest.mark.parametrize(
    "setting",
    [
        {"clients": "0"},
        {"snr_db": "[300, 0]"},
        {"snr_db": "[3]"},
        {"clock_ppm": "[20, 2000]"},
        {"fading": "['rayleigh']"},
        {"adc_bits": "[30, 0]"},
        {"noise_alpha": "3"},
        {"adc_full_scale": "[0, 1]"},
        {"clock_seed": "-1"},
    ],
)
def test_values_out_of_range_are_marked(setting):
    block, _graph = companion_block(**setting)
    assert faults(block)
