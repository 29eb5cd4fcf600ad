# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m tests.soak: train on virtual benches for a while, break them by a seeded schedule, and report what held."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from rich.console import Console

from tests.soak.runner import Soak
from tests.soak.schedule import MENUS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long; the bench at hand is then taken down")
    parser.add_argument("--seed", type=int, default=1, help="of the schedule: the same seed, the same faults")
    parser.add_argument("--visit", type=int, help="this visit of the seed alone, to repeat what was found")
    parser.add_argument("--scenario", action="append", choices=tuple(MENUS), help="these alone; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there as well")
    parser.add_argument("--keep", type=Path, default=Path("runs/soak"), help="where logs of violations are kept")
    options = parser.parse_args()
    console = Console(width=150 if not sys.stdout.isatty() else None)
    keep = options.keep / f"seed-{options.seed}"
    soak = Soak(options.seed, 60 * options.minutes, keep, lambda text: print(text, flush=True))
    interrupted = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: all that was started is taken down
    try:
        soak.run(tuple(options.scenario or MENUS), options.visit)
    except KeyboardInterrupt:
        interrupted = True
        console.print("stopped by Ctrl-C")
    soak.report.show(console)
    if options.json:
        options.json.write_text(json.dumps(soak.report.as_json(), indent=2) + "\n")
    if soak.report.findings:
        return 1
    return 130 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
