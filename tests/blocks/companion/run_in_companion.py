# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens a flowgraph in Companion, presses Run, and prints as JSON what one sees: see ``seen`` below.

A process of its own, with a screen. It ends when the flowgraph's program has ended, or after a time limit. The loop of
GTK keeps turning while a dialog waits for an answer, so a dialog is seen and not waited for.

Arguments: the flowgraph, and the program of a plain Companion to run in place of ours. The plain one is run by its own
Python, so nothing of this project is imported for it.
"""

import json
import os
import runpy
import sys
import time

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gio, GLib, Gtk  # noqa: E402  (the version must be named before)

POLL_MS = 50
LIMIT_SECONDS = 90.0


def run_ours(flowgraph):
    from oac_blocks.companion.program import application

    application([flowgraph]).run([])


def run_plain(flowgraph, program):
    sys.argv = [program, flowgraph]
    runpy.run_path(program, run_name="__main__")


def main():
    flowgraph, *program = sys.argv[1:]
    deadline = time.monotonic() + LIMIT_SECONDS
    seen = {"program": None, "dialogs": [], "console": "", "unknown": [], "errors": [], "recent": []}

    def press_run():
        from gnuradio.grc.gui import Actions

        Actions.FLOW_GRAPH_EXEC()

    def look():
        app = Gio.Application.get_default()
        page = getattr(getattr(app, "main_window", None), "current_page", None)
        if page is None or len(page.flow_graph.blocks) < 2:
            return True
        if seen["program"] is None:
            seen["program"] = page.get_generator().file_path
            seen["unknown"] = [block.name for block in page.flow_graph.blocks if block.is_dummy_block]
            seen["errors"] = [str(error) for error in page.flow_graph.iter_error_messages()]
            seen["recent"] = app.config.get_recent_files()
            GLib.idle_add(press_run)
            return True
        seen["dialogs"] = [w.get_title() for w in Gtk.Window.list_toplevels() if isinstance(w, Gtk.Dialog)]
        text = app.main_window.console.text_display.get_buffer()
        seen["console"] = text.get_text(text.get_start_iter(), text.get_end_iter(), True)
        ended = ">>> Done" in seen["console"].partition("Executing: ")[2]  # it also says so when a file is loaded
        if seen["dialogs"] or ended or time.monotonic() > deadline:
            print(json.dumps(seen), flush=True)
            os._exit(0)
        return True

    GLib.timeout_add(POLL_MS, look)
    if program:
        run_plain(flowgraph, program[0])
    else:
        run_ours(flowgraph)


if __name__ == "__main__":
    main()
