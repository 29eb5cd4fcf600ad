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
from itertools import combinations
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FLOWS = ROOT / "grc_flows"
POLL_MS = 200
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
        Window(seconds=25.0, width=1400, height=1150),
        Window("uncalibrated", 30.0, 1400, 1150, ("calibrate", False)),
    ),
    "calibration_loop": (Window(seconds=20.0, width=1400, height=1000, switched=("calibrate", True)),),
    "sync_link": (Window(seconds=18.0, width=1400, height=1000),),
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
    subprocess.run(command, env=environment, cwd=ROOT, check=True, timeout=120)


def draw_canvas(flow: Path, picture: Path) -> None:
    """Open the flow in Companion's own window and draw its canvas once it is there; exits with 1 if it has errors."""
    import gi

    gi.require_version("Gtk", "3.0")
    gi.require_version("PangoCairo", "1.0")
    from gi.repository import GLib
    from gnuradio import gr
    from gnuradio.grc.gui.Platform import Platform  # before Application: the two import each other's parts

    from gnuradio.grc.gui.Application import Application  # isort: skip

    version = (gr.major_version(), gr.api_version(), gr.minor_version())
    platform = Platform(version=gr.version(), version_parts=version, prefs=gr.prefs(), install_prefix=gr.prefix())
    platform.build_library()
    app = Application([str(flow)], platform)
    errors: list[str] = []

    def draw() -> bool:
        page = getattr(getattr(app, "main_window", None), "current_page", None)
        if page is None or len(page.flow_graph.blocks) < 2:
            return True  # not loaded yet: ask again
        errors.extend(f"{element}: {text}" for element, text in page.flow_graph.iter_error_messages())
        errors.extend(f"{block}: unknown block" for block in page.flow_graph.blocks if block.is_dummy_block)
        from gnuradio.grc.gui import Utils

        Utils.make_screenshot(page.flow_graph, str(picture))
        errors.extend(overlaps(page.flow_graph.blocks))
        app.quit()
        return False

    GLib.timeout_add(POLL_MS, draw)
    app.run([])
    if errors:
        sys.exit("\n".join(errors))


def overlaps(blocks: Any) -> list[str]:
    """Blocks that stand on each other, ports and comments included."""
    found = []
    for one, other in combinations([block for block in blocks if block.enabled], 2):
        if any(_overlap(a, b) for a in _boxes(one) for b in _boxes(other)):
            found.append(f"{one.name} and {other.name} overlap")
    return found


def _boxes(block: Any) -> list[Box]:
    comment = [block.get_extents_comment()] if block.comment else []
    return [block.get_extents(), *comment]


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


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
    parser.add_argument("--here", action="store_true", help="draw on this screen; what Xvfb is started with")
    options = parser.parse_args()
    if options.here:
        draw_here(options.names[0], options.to)
        return
    for name in options.names or sorted(file.stem for file in FLOWS.glob("*.grc")):
        canvas, windows = [f"{name}.png"], [f"{name}_{window.suffix}.png" for window in windows_of(name)]
        for picture in {"canvas": canvas, "window": windows}.get(options.only, canvas + windows):
            with tempfile.TemporaryDirectory() as home:
                under_xvfb("--here", name, "--to", options.to / picture, home=Path(home))


def draw_here(name: str, picture: Path) -> None:
    flow = FLOWS / f"{name}.grc"
    if not flow.is_file():
        sys.exit(f"{flow} must be a flowgraph, there is no such file")  # Companion would open an empty one
    for window in windows_of(name):
        if picture.stem == f"{name}_{window.suffix}":
            draw_window(flow, picture, window)
            return
    draw_canvas(flow, picture)


if __name__ == "__main__":
    main()
