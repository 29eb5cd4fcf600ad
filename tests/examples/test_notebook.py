# SPDX-License-Identifier: GPL-3.0-or-later
"""The notebook in examples/ runs, and the outputs that are kept in its file are those of its cells."""

import copy
import os

import nbclient
import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager

from tests.support.paths import ROOT

NOTEBOOK = ROOT / "examples" / "one_round.ipynb"


def kinds(cell):
    """Return what a cell has put out: streams and types of data."""
    return [output.get("name") or sorted(output["data"]) for output in cell.get("outputs", [])]


@pytest.fixture(scope="module")
def kept():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def executed(kept, tmp_path_factory):
    fresh = copy.deepcopy(kept)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    folder = tmp_path_factory.mktemp("notebook")
    # Sockets in a folder: another program could take the TCP ports before the kernel binds them.
    kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(folder / "kernel"))
    without_backend = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    client = nbclient.NotebookClient(
        fresh, km=kernel, timeout=600, startup_timeout=600, resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=without_backend)
    return fresh


def test_outputs_are_kept_as_the_cells_make_them(kept, executed):
    assert [kinds(cell) for cell in kept.cells] == [kinds(cell) for cell in executed.cells]
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any("stderr" in kinds(cell) for cell in code)


def test_every_figure_is_there(executed):
    figures = [cell for cell in executed.cells if ["image/png", "text/plain"] in kinds(cell)]
    assert len(figures) == 7
    assert all(".set(" in cell.source for cell in figures)  # labels of the axes


def test_one_round_improves_the_model(executed):
    (text,) = [
        output.text
        for cell in executed.cells
        for output in cell.get("outputs", [])
        if output.get("name") == "stdout" and "before the round" in output.text
    ]
    before, after = (float(word.rstrip(",")) for word in text.split() if word.startswith("0."))
    assert after > before > 2 / 26


def test_the_file_is_small():
    assert NOTEBOOK.stat().st_size < 600_000
