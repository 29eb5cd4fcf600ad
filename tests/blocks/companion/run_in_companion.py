# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens a flowgraph in Companion, presses Run, and prints as JSON: the program, the dialogs that came up, the console.

A process of its own, with a screen. It ends when the flowgraph's program has ended, or after a time limit. The loop of
GTK keeps turning while a dialog waits for an answer, so a dialog is seen and not waited for.
"""

import json
import os
import sys
import time

from oac_blocks.companion import application

POLL_MS = 50
LIMIT_SECONDS = 90.0


def main():
    app = application([sys.argv[1]])
    from gi.repository import GLib, Gtk
    from gnuradio.grc.gui import Actions

    deadline = time.monotonic() + LIMIT_SECONDS
    seen = {"program": None, "dialogs": [], "console": ""}

    def press_run():
        Actions.FLOW_GRAPH_EXEC()

    def look():
        page = getattr(getattr(app, "main_window", None), "current_page", None)
        if page is None or len(page.flow_graph.blocks) < 2:
            return True
        if seen["program"] is None:
            seen["program"] = page.get_generator().file_path
            GLib.idle_add(press_run)
            return True
        seen["dialogs"] = [w.get_title() for w in Gtk.Window.list_toplevels() if isinstance(w, Gtk.Dialog)]
        text = app.main_window.console.text_display.get_buffer()
        seen["console"] = text.get_text(text.get_start_iter(), text.get_end_iter(), True)
        if seen["dialogs"] or ">>> Done (return code" in seen["console"] or time.monotonic() > deadline:
            print(json.dumps(seen), flush=True)
            os._exit(0)
        return True

    GLib.timeout_add(POLL_MS, look)
    app.run([])


if __name__ == "__main__":
    main()
