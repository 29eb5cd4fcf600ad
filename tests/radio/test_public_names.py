# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules that use pyadi-iio and pylibiio use their public names alone."""

import ast
import re

import pytest

from tests.support.paths import ROOT

LIBRARIES = {"adi", "iio"}
LIKELY = re.compile(r"^\s*(import|from)\b.*\b(adi|iio)\b", re.MULTILINE)  # only such modules are parsed: that is slow
OWN = {"self", "cls"}
ALLOWED = {"__name__", "__traceback__", "__cause__", "__context__"}  # Python's own, of classes and exceptions
PACKAGES = ("oac_blocks", "calibration", "fl_app", "benchmarks")


def imports_a_library(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and {name.name.partition(".")[0] for name in node.names} & LIBRARIES:
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in LIBRARIES:
            return True
    return False


def private_names(source):
    """Return the lines on which a module with one of the libraries uses a private name of anything but itself."""
    tree = ast.parse(source)
    if not imports_a_library(tree):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr not in ALLOWED:
            if not (isinstance(node.value, ast.Name) and node.value.id in OWN):
                found.append((node.lineno, node.attr))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"getattr", "setattr"}:
            name = node.args[1]
            if isinstance(name, ast.Constant) and str(name.value).startswith("_"):
                found.append((node.lineno, name.value))
    return found


def test_no_module_uses_private_names_of_libiio_or_pyadi():
    texts = {path: path.read_text(encoding="utf-8") for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    users = {path: text for path, text in texts.items() if "import" in text and LIKELY.search(text)}
    assert len(users) >= 4  # the modules of the Pluto
    used = {path.relative_to(ROOT).as_posix(): private_names(text) for path, text in users.items()}
    assert {path: lines for path, lines in used.items() if lines} == {}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("self._device._ctrl.find_channel('temp0')", "_ctrl"),
        ("buffer.__del__()", "__del__"),
        ("context._context = None", "_context"),
        ("setattr(device, '_tx_buffer_size', 5)", "_tx_buffer_size"),
    ],
)
def test_the_search_finds_private_names(line, name):
    assert private_names(f"import iio\n{line}") == [(2, name)]
    assert private_names(f"from gnuradio import iio\n{line}") == []
    assert private_names("import adi\nself._device.rx_lo = 5") == []
