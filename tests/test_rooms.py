# SPDX-License-Identifier: GPL-3.0-or-later
"""The rooms of the house: imports point one way, no room and no module grows too large, docs show the plan."""

import subprocess
import sys

import pytest

from tests.support.import_graph import DOORS, graph, imports_of, modules, rooms
from tests.support.paths import ROOT

MOST_LINES, MOST_MODULES = 400, 20

# From the ground floor up: a room may import those of earlier lines, and none of its own line or of later ones.
FLOORS = [
    {"oac_blocks.errors", "oac_blocks.names", "oac_blocks.stop_signal", "oac_blocks.dsp"},
    {"oac_blocks.plugins"},
    {"oac_blocks.dsp.waveform"},
    {"oac_blocks.dsp.receive", "oac_blocks.dsp.channel"},
    {"oac_blocks.loop"},
    {"oac_blocks.rounds"},
    {"oac_blocks.record"},
    {"oac_blocks.blocks", "oac_blocks.radio"},
    {"oac_blocks.hier"},
    {"oac_blocks.bench"},
    {"oac_blocks.companion", "calibration", "fl_app.core", "fl_app.pictures", "fl_app.processes"},
    {"oac_blocks.cli", "fl_app.data", "fl_app.engine", "fl_app.air"},
    {"fl_app.toml_text"},
    {"fl_app.config"},
    {"fl_app.runs"},
    {"fl_app.link", "fl_app.experiment", "fl_app.theory"},
    {"fl_app.paper", "fl_app.flower"},
    {"fl_app.cli"},
]
# Blocks, flowgraphs, and the command that opens Companion.
FLOWGRAPH_ROOMS = ("oac_blocks.blocks.", "oac_blocks.hier.", "oac_blocks.bench.flows.", "oac_blocks.companion")


def floor_of(room):
    floors = [number for number, rooms in enumerate(FLOORS) if room in rooms]
    assert floors, f"{room} has no place in FLOORS of {__file__}"
    return floors[0]


@pytest.mark.parametrize("room", rooms())
def test_a_room_imports_only_from_the_floors_below(room):
    own, wrong = floor_of(room), []
    for target, imports in graph()[room].items():
        if floor_of(target) >= own:
            wrong += [f"{module} imports {name}" for module, name in imports]
    assert not wrong


def test_nobody_inside_uses_a_door():
    for door in DOORS & set(modules()):
        inside = door if modules()[door].name == "__init__.py" else door.rpartition(".")[0]
        behind = [module for module in modules() if module.startswith(f"{inside}.") and module not in DOORS]
        assert [module for module in behind if door in imports_of(module)] == []


def test_gnu_radio_stays_in_its_rooms():
    for module in modules():
        if not module.startswith(FLOWGRAPH_ROOMS):
            found = {name.partition(".")[0] for name in imports_of(module)} & {"gnuradio", "pmt"}
            assert not found, f"{module} imports {found}"


def test_the_compiler_has_one_door_and_kernels_have_modules_of_their_own():
    users = [module for module in modules() if "numba" in {name.partition(".")[0] for name in imports_of(module)}]
    assert users == ["oac_blocks.dsp.compiled"]
    for module in modules():
        if "oac_blocks.dsp.compiled" in imports_of(module):
            assert module.endswith("kernels"), f"{module} compiles functions; put them into a module of kernels"


def test_modules_and_folders_are_small():
    files = [ROOT / name for name in subprocess.check_output(["git", "ls-files", "*.py"], cwd=ROOT, text=True).split()]
    files = [file for file in files if file.is_file()]
    lengths = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}
    folders = [file.parent.relative_to(ROOT) for file in files]
    assert {str(one): folders.count(one) for one in set(folders) if folders.count(one) > MOST_MODULES} == {}


def test_the_plan_in_the_docs_is_this_house():
    drawn = subprocess.check_output([sys.executable, "docs/figures/rooms.py", "-"], cwd=ROOT, text=True)
    shown = (ROOT / "docs" / "images" / "rooms.svg").read_text(encoding="utf-8")
    assert drawn == shown, "run: .venv/bin/python docs/figures/rooms.py"
