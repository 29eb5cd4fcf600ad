# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of the flowgraphs: docs/images/NAME.png from the real Companion, NAME_running.png from the flow's window.

.venv/bin/python docs/figures/flowgraphs.py [NAME ...] [--to FOLDER] [--seconds 8]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FLOWS = ROOT / "grc_flows"
POLL_MS = 200


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
        app.quit()
        return False

    GLib.timeout_add(POLL_MS, draw)
    app.run([])
    if errors:
        sys.exit("\n".join(errors))


def draw_window(flow: Path, picture: Path, seconds: float) -> None:
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
        top_block.resize(1200, 800)
        top_block.start()
        top_block.show()

        def take() -> None:
            top_block.grab().save(str(picture))
            top_block.stop()
            top_block.wait()
            application.quit()

        Qt.QTimer.singleShot(int(1000 * seconds), take)
        application.exec_()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="flowgraphs; all of them if none is named")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "images", help="folder for the pictures")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long a flow runs before its window is taken")
    parser.add_argument("--only", choices=["canvas", "window"], help="one of the two pictures")
    parser.add_argument("--here", action="store_true", help="draw on this screen; what Xvfb is started with")
    options = parser.parse_args()
    if options.here:
        flow, picture = FLOWS / f"{options.names[0]}.grc", options.to
        draw_canvas(flow, picture) if options.only == "canvas" else draw_window(flow, picture, options.seconds)
        return
    for name in options.names or sorted(file.stem for file in FLOWS.glob("*.grc")):
        for only, picture in (("canvas", f"{name}.png"), ("window", f"{name}_running.png")):
            if options.only in (None, only):
                with tempfile.TemporaryDirectory() as home:
                    arguments = ["--only", only, "--to", options.to / picture, "--seconds", options.seconds]
                    under_xvfb("--here", name, *arguments, home=Path(home))


if __name__ == "__main__":
    main()
