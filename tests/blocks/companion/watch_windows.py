# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens the window of each compiled flow at 1200x800 and prints as JSON how many pixels of it do not fit.

A process of its own: Qt must have the main thread. The flows are not started.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

from PyQt5 import Qt


def main():
    application = Qt.QApplication(["windows"])
    hidden = {}
    for path in map(Path, sys.argv[1:]):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        window = getattr(module, path.stem)()
        window.show()
        window.resize(1200, 800)
        for _ in range(20):
            application.processEvents()
        bars = (window.top_scroll.horizontalScrollBar(), window.top_scroll.verticalScrollBar())
        hidden[path.stem] = [bar.maximum() for bar in bars]
    print(json.dumps(hidden), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
