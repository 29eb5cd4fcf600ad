# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a compiled fsk_mv_link, moves its SNR slider, and prints what the plot of soft votes shows at each SNR as JSON.

A process of its own: Qt must have the main thread, and is not always gone when its widgets are.
Arguments: the program, the bursts to wait for after each move, and the SNRs in dB.
"""

import importlib.util
import json
import os
import sys
import time

from PyQt5 import Qt

LIMIT_SECONDS = 600.0


def load(path):
    spec = importlib.util.spec_from_file_location("fsk_mv_link", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.fsk_mv_link()


def main():
    program, bursts, *levels = sys.argv[1:]
    application = Qt.QApplication(["fsk_mv_link"])
    deadline = time.monotonic() + LIMIT_SECONDS
    flow = load(program)
    compared = []
    publish = flow.probe.compare

    def counted(received, reference):
        compared.append(len(received))
        return publish(received, reference)

    flow.probe.compare = counted
    flow.start()
    flow.show()
    shown = []
    for level in levels:
        flow.set_snr_db(float(level))
        end = len(compared) + int(bursts)
        while len(compared) < end:
            if time.monotonic() > deadline:
                sys.exit(f"{len(compared)} bursts and not {end}")
            application.processEvents()
            time.sleep(0.005)
        shown.append(flow.distribution.last.tolist())
    flow.stop()
    flow.wait()
    print(json.dumps({"shown": shown, "fft_size": flow.fft_size, "widest": flow.widest}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
