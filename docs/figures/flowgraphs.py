# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of the flowgraphs: docs/images/NAME.png from the real Companion, NAME_running.png from the flow's window.

.venv/bin/python docs/figures/flowgraphs.py [NAME ...] [--to FOLDER] [--only canvas | window]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from oac_blocks.companion.program import application

ROOT = Path(__file__).resolve().parents[2]
FLOWS = ROOT / "grc_flows"
POLL_MS = 200
WIRE_STEP = 3.0  # pixels between the points of a wire that are looked at
Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Window:
    """A picture of a running flow. What is ``switched`` is so in the last of its ``seconds`` alone."""

    suffix: str = "running"
    seconds: float = 8.0
    width: int = 1200
    height: int = 800
    switched: tuple[str, Any] | None = None
    switched_seconds: float = 8.0


WINDOWS = {
    "oac_loopback": (
        Window(seconds=25.0),
        Window("uncalibrated", 30.0, switched=("calibrate", False)),
    ),
    "calibration_loop": (Window(seconds=20.0, switched=("calibrate", True)),),
    "sync_link": (Window(seconds=18.0),),
    # These transmit: they need a radio and a frequency, and have no window.
    "oac_client_pluto": (),
    "oac_server_pluto": (),
}


def windows_of(name: str) -> tuple[Window, ...]:
    return WINDOWS.get(name, (Window(),))


def under_xvfb(*arguments: object, home: Path) -> None:
    """This script again, on a screen of its own and with a home of its own, where Companion may write."""
    command = ["xvfb-run", "-a", "-s", "-screen 0 1600x1200x24", sys.executable, __file__, *map(str, arguments)]
    environment = {**os.environ, "HOME": str(home), "GRC_BLOCKS_PATH": str(ROOT / "oac_blocks" / "grc")}
    environment.pop("QT_QPA_PLATFORM", None)
    environment.pop("XDG_CACHE_HOME", None)
    subprocess.run(command, env=environment, cwd=ROOT, check=True, timeout=270)


def draw_canvases(flows: list[Path], folder: Path) -> None:
    """Open the flows in Companion's own window and draw the canvas of each; exit with 1 if one has a fault."""
    app = application(flows)
    from gi.repository import GLib
    from gnuradio.grc.gui import Utils

    faults: list[str] = []

    def draw() -> bool:
        window = getattr(app, "main_window", None)
        pages = window.get_pages() if window is not None else []
        if len(pages) < len(flows) or any(len(page.flow_graph.blocks) < 2 for page in pages):
            return True  # not loaded yet: ask again
        for flow, page in zip(flows, pages, strict=True):
            page.flow_graph.update()
            Utils.make_screenshot(page.flow_graph, str(folder / f"{flow.stem}.png"))
            faults.extend(f"{flow.stem}: {fault}" for fault in faults_of(page.flow_graph))
        app.quit()
        return False

    GLib.timeout_add(POLL_MS, draw)
    app.run([])
    if faults:
        sys.exit("\n".join(faults))


def faults_of(flow_graph: Any) -> list[str]:
    """What Companion says against a flowgraph, blocks that overlap, and wires that run across blocks or comments."""
    errors = [f"{element}: {text}" for element, text in flow_graph.iter_error_messages()]
    unknown = [f"{block.name}: unknown block" for block in flow_graph.blocks if block.is_dummy_block]
    return [*errors, *unknown, *overlaps(flow_graph.blocks), *crossings(flow_graph)]


def overlaps(blocks: Any) -> list[str]:
    """Blocks that stand on each other, ports and comments included."""
    found = []
    for one, other in combinations([block for block in blocks if block.enabled], 2):
        if any(_overlap(a, b) for a in _boxes(one) for b in _boxes(other)):
            found.append(f"{one.name} and {other.name} overlap")
    return found


def crossings(flow_graph: Any) -> list[str]:
    """Wires that run across a block, its comment, or a port that is not theirs. All wires must have been drawn."""
    found = []
    for wire in flow_graph.connections:
        points = _points_of(wire)
        for block in flow_graph.blocks:
            foreign = [port for port in block.active_ports() if port not in (wire.source_port, wire.sink_port)]
            boxes = [_body(block), *_comment(block), *(_port_box(block, port) for port in foreign)]
            if any(_inside(point, box) for point in points for box in boxes):
                ends = (
                    f"{wire.source_block.name}.{wire.source_port.name} to {wire.sink_block.name}.{wire.sink_port.name}"
                )
                found.append(f"the wire from {ends} runs across {block.name}")
    return found


def _points_of(wire: Any) -> list[tuple[float, float]]:
    """A wire as Companion has drawn it, as points at most a few pixels apart."""
    left, top = wire.coordinate
    path = wire._line_path_cr.copy_path_flat()
    corners = [(point[0] + left, point[1] + top) for _kind, point in path if point]
    points = []
    for (x0, y0), (x1, y1) in pairwise(corners):
        steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0)) / WIRE_STEP))
        points += [(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps) for i in range(steps + 1)]
    return points


def _body(block: Any) -> Box:
    x, y = block.coordinate
    width, height = (block.width, block.height) if block.is_horizontal() else (block.height, block.width)
    return x, y, x + width, y + height


def _comment(block: Any) -> list[Box]:
    return [block.get_extents_comment()] if block.comment else []


def _port_box(block: Any, port: Any) -> Box:
    (x, y), (left, top) = block.coordinate, port.coordinate
    return x + left, y + top, x + left + port.width, y + top + port.height


def _boxes(block: Any) -> list[Box]:
    return [block.get_extents(), *_comment(block)]


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _inside(point: tuple[float, float], box: Box) -> bool:
    return box[0] + 1 < point[0] < box[2] - 1 and box[1] + 1 < point[1] < box[3] - 1


def draw_window(flow: Path, picture: Path, window: Window) -> None:
    """Run the compiled flow and take its window after some seconds."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(shutil.which("grcc")), "-o", folder, str(flow)], check=True)
        spec = importlib.util.spec_from_file_location(flow.stem, Path(folder) / f"{flow.stem}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)

        from PyQt5 import Qt

        application = Qt.QApplication([flow.stem])
        top_block: Any = getattr(module, flow.stem)()
        top_block.resize(window.width, window.height)
        top_block.start()
        top_block.show()

        def take() -> None:
            top_block.grab().save(str(picture))
            top_block.stop()
            top_block.wait()
            application.quit()

        if window.switched is not None:
            variable, value = window.switched
            set_it = getattr(top_block, f"set_{variable}")
            set_it(not value)
            Qt.QTimer.singleShot(int(1000 * (window.seconds - window.switched_seconds)), lambda: set_it(value))
        Qt.QTimer.singleShot(int(1000 * window.seconds), take)
        application.exec_()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="flowgraphs; all of them if none is named")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "images", help="folder for the pictures")
    parser.add_argument("--only", choices=["canvas", "window"], help="one of the two pictures")
    parser.add_argument("--here", help="draw on this screen: canvas, or a window's suffix; what Xvfb is started with")
    options = parser.parse_args()
    flows = [FLOWS / f"{name}.grc" for name in options.names] or sorted(FLOWS.glob("*.grc"))
    for flow in flows:
        if not flow.is_file():
            sys.exit(f"{flow} must be a flowgraph, there is no such file")  # Companion would open an empty one
    if options.here is not None:
        draw_here(flows, options.to, options.here)
        return
    names = [flow.stem for flow in flows]
    with tempfile.TemporaryDirectory() as home:
        known = Path("~/.cache/grc_gnuradio").expanduser()
        if known.is_dir():  # the descriptions of all blocks, which Companion would read anew
            shutil.copytree(known, Path(home, ".cache", "grc_gnuradio"))
        if options.only != "window":
            under_xvfb(*names, "--to", options.to, "--here", "canvas", home=Path(home))
        for name in names if options.only != "canvas" else []:
            for window in windows_of(name):
                under_xvfb(name, "--to", options.to, "--here", window.suffix, home=Path(home))


def draw_here(flows: list[Path], folder: Path, what: str) -> None:
    """Draw on this screen: all canvases, or the window of the first flow with this suffix."""
    if what == "canvas":
        draw_canvases(flows, folder)
        return
    for window in windows_of(flows[0].stem):
        if window.suffix == what:
            draw_window(flows[0], folder / f"{flows[0].stem}_{what}.png", window)


if __name__ == "__main__":
    main()
