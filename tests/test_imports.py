# SPDX-License-Identifier: GPL-3.0-or-later
"""Imports point one way, and heavy ones stay out: each package is imported whole in a fresh interpreter."""

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

# The modules that may import what the rest of their package may not: those that run a flowgraph or speak its language,
# those that talk to Plutos, and those that need Flower.
EXEMPT = (
    "fl_app.air.live.flow_messages",
    "fl_app.air.live.gnuradio",
    "fl_app.flower.mod",
    "fl_app.flower.strategy",
    "fl_app.link.radio_",
    "fl_app.link.relay",
    "oac_blocks.bench.flows.",
    "oac_blocks.radio.pluto",
)

# package -> what none of its modules may bring in, themselves or through others.
FORBIDDEN = {
    "oac_blocks.dsp": {"gnuradio", "pmt", "torch", "zmq", "adi", "calibration", "fl_app"},
    "oac_blocks.cli": {"gnuradio", "pmt", "torch", "numpy"},
    "oac_blocks.radio": {"gnuradio", "pmt", "torch", "zmq", "adi", "iio", "calibration", "fl_app"},
    "oac_blocks": {"adi", "torch", "calibration", "fl_app"},
    "calibration": {"gnuradio", "pmt", "torch", "fl_app", "adi", "iio"},
    "fl_app": {"gnuradio", "pmt", "adi", "iio"},
}

IMPORT_AND_TELL = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def modules_of(package: str) -> list[str]:
    """The package itself and all modules below it."""
    folder = ROOT.joinpath(*package.split("."))
    if folder.with_suffix(".py").is_file():
        return [package]
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts) for file in folder.rglob("*.py")}
    return sorted(name.removesuffix(".__init__") for name in names if not name.endswith(".__main__"))


def packages_loaded_by(modules: list[str]) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", IMPORT_AND_TELL, json.dumps(modules)], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.parametrize("package", FORBIDDEN)
def test_package_leaves_heavy_imports_out(package):
    modules = [name for name in modules_of(package) if not name.startswith(EXEMPT)]
    assert modules, f"no modules found for {package}"
    assert not packages_loaded_by(modules) & FORBIDDEN[package]


def test_the_look_at_imports_sees_what_is_imported():
    assert {"numpy", "json"} <= packages_loaded_by(["numpy"])


def test_the_command_line_starts_without_what_few_commands_need():
    """Each of these takes a tenth of a second or more, and a bench starts many programs."""
    tell = "import fl_app.cli.app, json, sys; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", tell], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stdout))
    assert "fl_app.config" in loaded
    assert not loaded & {
        "matplotlib",
        "numba",
        "scipy.fft",
        "scipy.linalg",
        "scipy.ndimage",
        "scipy.optimize",
        "scipy.special",
        "torch",
        "torchvision",
    }


def test_the_compiler_is_loaded_by_streams_alone():
    """Blocks, channels for bursts and the waveform air do without it, and a stream loads it when it is made."""
    tell = """
import importlib, json, sys
for name in sys.argv[1].split():
    importlib.import_module(name)
before = "numba" in sys.modules
importlib.import_module("oac_blocks.dsp.receive.trigger_search").TriggerSearch()
print(json.dumps([before, "numba" in sys.modules]))
"""
    names = (
        "oac_blocks.dsp.preamble oac_blocks.dsp.channel oac_blocks.dsp.channel.streaming_channel"
        " oac_blocks.dsp.receive.server_stream oac_blocks.blocks.client_transceiver"
        " oac_blocks.blocks.broadcast_channel oac_blocks.radio.virtual.air.mixer fl_app.air.simulation.waveform"
    )
    run = subprocess.run([sys.executable, "-c", tell, names], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1]) == [False, True]


def test_small_models_are_selected_without_the_compiler():
    """It takes half a second to load, which selection in a small model never wins back."""
    tell = """
import json, sys
import numpy as np
from fl_app.core.ages import Ages
from fl_app.core.selection import make_policy
make_policy("fair-k", 1000, 100).pick(np.ones(1000, np.float32), Ages.zeros(1000))
print(json.dumps(sorted(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", tell], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not set(json.loads(run.stdout)) & {"numba", "torch"}
