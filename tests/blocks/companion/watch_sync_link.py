# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a compiled sync_link through several settings, and prints what was measured at each of them as JSON.

A process of its own: Qt must have the main thread, and is not always gone when its widgets are.
Arguments: the program, and a JSON list of dictionaries, each with values for the flow's sliders.
"""

import importlib.util
import json
import os
import sys
import time

from PyQt5 import Qt

SKIPPED_ROUNDS = 8  # some are under way when a slider moves, and after three silent ones all frequencies are searched
ROUNDS = 20
LIMIT_SECONDS = 600.0


def load(path):
    spec = importlib.util.spec_from_file_location("sync_link", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.sync_link()


def main():
    application = Qt.QApplication(["sync_link"])
    deadline = time.monotonic() + LIMIT_SECONDS
    flow = load(sys.argv[1])
    flow.set_rounds_per_second(40.0)
    flow.start()
    flow.show()

    def values_of_rounds(n):
        """What the probes tell of the triggers found while the server calls n times."""
        found, seen, end = [], flow.detector.detections, flow.source.begun + n
        while flow.source.begun < end:
            if time.monotonic() > deadline:
                sys.exit("not reached in time")
            application.processEvents()
            time.sleep(0.002)
            if flow.detector.detections > seen:
                seen = flow.detector.detections
                probes = (flow.frequency_probe, flow.snr_probe, flow.fraction_probe)
                found.append([probe.last for probe in probes])
        return found

    measured = []
    for settings in json.loads(sys.argv[2]):
        for name, value in settings.items():
            getattr(flow, f"set_{name}")(value)
        values_of_rounds(SKIPPED_ROUNDS)
        measured.append(values_of_rounds(ROUNDS))
    flow.stop()
    flow.wait()
    print(json.dumps(measured), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
