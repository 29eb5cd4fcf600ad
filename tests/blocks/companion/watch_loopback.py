# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a compiled oac_loopback, with the calibration switched on or off, and prints each part's error rate as JSON.

A process of its own: Qt must have the main thread, and is not always gone when its widgets are.
Arguments: the program, the rounds of each part, and for each part "on" or "off".
"""

import importlib.util
import json
import os
import sys
import time

from PyQt5 import Qt

LIMIT_SECONDS = 600.0


def load(path):
    spec = importlib.util.spec_from_file_location("oac_loopback", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.oac_loopback()


def wait_for(application, condition, deadline):
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("not reached in time")
        application.processEvents()
        time.sleep(0.01)


def main():
    application = Qt.QApplication(["oac_loopback"])
    deadline = time.monotonic() + LIMIT_SECONDS
    program, rounds, *switches = sys.argv[1:]
    flow = load(program)
    flow.set_rounds_per_second(20.0)
    flow.start()
    flow.show()
    rates = []
    for switch in switches:
        calibrate = switch == "on"
        flow.set_calibrate(calibrate)
        begin = flow.control.fired + 2  # the switch counts from the next round on
        wait_for(application, lambda begin=begin: flow.control.fired >= begin, deadline)
        if calibrate:
            wait_for(application, lambda: flow.calibrator.all_tracking, deadline)
        flow.probe.reset()
        end = flow.control.fired + int(rounds)
        wait_for(application, lambda end=end: flow.control.fired >= end, deadline)
        rates.append(flow.probe.mean_error_rate)
    flow.stop()
    flow.wait()
    print(json.dumps(rates), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
