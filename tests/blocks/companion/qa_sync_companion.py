# SPDX-License-Identifier: GPL-3.0-or-later
"""Trigger source and sync detector as Companion sees them: valid, range-checked, and they make a program that runs."""

import subprocess
import sys

import pytest

from oac_blocks.blocks.sync_detector import sync_detector
from tests.blocks.companion.companion_core import ROOT, block_with_defaults, platform
from tests.support.polling import DEADLINE_SECONDS


def flow_graph(**settings):
    """Trigger source -> sync detector -> null sink, detections to a message debug; settings as block__parameter."""
    graph = platform().make_flow_graph()
    options = graph.options_block
    options.params["id"].set_value("sync_flow")
    options.params["generate_options"].set_value("no_gui")
    options.params["run_options"].set_value("run")
    names = ("oac_trigger_source", "oac_sync_detector", "blocks_null_sink", "blocks_message_debug")
    source, detector, sink, debug = (block_with_defaults(name, graph) for name in names)
    for name, value in settings.items():
        block, parameter = name.split("__")
        {"source": source, "detector": detector}[block].params[parameter].set_value(value)
    graph.connect(source.sources[0], detector.sinks[0])
    graph.connect(detector.sources[0], sink.sinks[0])
    printed = next(port for port in debug.sinks if port.key == "print")
    graph.connect(next(port for port in detector.sources if port.key == "detections"), printed)
    graph.rewrite()
    graph.validate()
    return graph


def test_the_defaults_are_valid_and_no_block_is_a_dummy():
    graph = flow_graph()
    assert graph.is_valid(), [str(message) for _, message in graph.iter_error_messages()]
    assert not any(block.is_dummy_block for block in graph.blocks)


def test_the_delay_is_the_documented_one():
    detector = block_with_defaults("oac_sync_detector", graph := platform().make_flow_graph())
    assert f"{sync_detector().delay_samples:,} samples later" in detector.documentation[""]
    del graph  # held until here: a block has but a weak reference to it


@pytest.mark.parametrize(
    "setting",
    [
        {"source__amplitude": "1.5"},
        {"source__round_samples": "100"},
        {"source__mode": "lock_step", "source__round_samples": "100000"},
        {"source__rounds": "-1"},
        {"source__chunk_samples": "10"},
        {"detector__false_alarm_per_sample": "0.5"},
        {"detector__min_snr_db": "-200"},
        {"detector__lost_after_samples": "0"},
        {"detector__max_cfo_rad": "2"},
        {"detector__chunk_samples": "0"},
    ],
)
def test_values_out_of_range_are_marked(setting):
    assert not flow_graph(**setting).is_valid()


def test_the_generated_program_finds_all_triggers(tmp_path):
    graph = flow_graph(source__rounds="3", detector__tracking="False")
    generator = platform().Generator(graph, str(tmp_path))
    generator.write()
    run = subprocess.run(
        [sys.executable, str(tmp_path / "sync_flow.py")],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
    )
    assert run.returncode == 0, run.stderr
    assert ":error:" not in run.stdout + run.stderr
    assert (run.stdout + run.stderr).count("fraction") == 3
