# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the tests many times, every second time beside busy loops on all cores, and count the failures of each test.

``make test-repeat N=10`` calls this script. Arguments after ``--`` go to pytest. Each run leaves its output (run-1.log)
and its results (run-1.xml) in the folder of the series. The same command resumes a series that was stopped; after a
complete series, or with another commit or other arguments, it starts a new one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A busy loop ends with the process that started it, whatever ends that process.
BUSY_LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
END_SECONDS = 30.0  # seconds for pytest to end after a signal, before the next one is sent
FAILED_TESTS_STATUS = 1  # pytest's exit status when tests failed; a higher one means that pytest itself failed


@dataclass(frozen=True)
class Result:
    """Hold the result of one run of the suite."""

    tests: int
    skipped: int
    failed: list[str]  # names of tests, as pytest takes them
    seconds: float
    busy: bool

    def line(self) -> str:
        beside = "beside busy loops" if self.busy else "alone"
        passed = self.tests - self.skipped - len(self.failed)
        counts = f"{passed} passed, {len(self.failed)} failed, {self.skipped} skipped"
        return f"{counts} in {self.seconds:.0f} s, {beside}"


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep this number of cores busy inside the context."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


def read_results(xml: Path, status: int, seconds: float, busy: bool) -> Result:
    """Read pytest's own report; a run without a report has failed as a whole."""
    cases: list[ElementTree.Element] = []
    if xml.exists():
        cases = list(ElementTree.parse(xml).getroot().iter("testcase"))
    failed = [name_of(case) for case in cases if case.find("failure") is not None or case.find("error") is not None]
    if status > FAILED_TESTS_STATUS or status < 0 or (status and not failed):
        failed.append(f"(pytest itself, exit status {status})")
    skipped = sum(case.find("skipped") is not None for case in cases)
    return Result(len(cases), skipped, sorted(set(failed)), seconds, busy)


def name_of(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '')}::{case.get('name', '')}"


def run_once(number: int, folder: Path, pytest_arguments: list[str], cores: int) -> Result:
    """Run the suite once; every second run is beside busy loops."""
    busy, xml = number % 2 == 0, folder / f"run-{number}.xml"
    # With -v the log names a test as soon as it has failed, not only at the end of the run.
    command = [sys.executable, "-m", "pytest", "-v", f"--junitxml={xml}", *pytest_arguments]
    began = time.monotonic()
    with busy_loops(cores if busy else 0), (folder / f"run-{number}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            status = process.wait()
        except KeyboardInterrupt:
            end(process)
            raise
    return read_results(xml, status, time.monotonic() - began, busy)


def end(process: subprocess.Popen[bytes]) -> None:
    """End pytest, which ends its workers by itself.

    Python may lose a KeyboardInterrupt that comes at the wrong moment (in a callback, say), so it is sent twice.
    """
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        try:
            process.wait(END_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


def series_folder(folder: Path, about: dict[str, object]) -> Path:
    """Empty the folder unless it holds an unfinished series of the same kind."""
    file = folder / "series.json"
    if folder.exists() and (not file.exists() or json.loads(file.read_text()) != about):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(about))
    return folder


def commit() -> str:
    """Return a text that identifies the tested code: the commit, and the differences from it."""
    words = [["rev-parse", "HEAD"], ["status", "--porcelain"], ["diff", "HEAD"]]
    return "".join(subprocess.run(["git", "-C", ROOT, *word], capture_output=True, text=True).stdout for word in words)


def summary(results: list[Result], wanted: int) -> str:
    """Summarise the runs: the failures of each test, the most frequent first."""
    green = sum(not result.failed for result in results)
    lines = [f"{green} of {len(results)} runs were green ({wanted} were asked for)"]
    for busy in (False, True):
        seconds = [result.seconds for result in results if result.busy is busy]
        if seconds:
            kind = "beside busy loops" if busy else "alone"
            lines.append(f"  {kind}: {min(seconds):.0f} to {max(seconds):.0f} s a run")
    counted = Counter(name for result in results for name in result.failed)
    beside = Counter(name for result in results if result.busy for name in result.failed)
    for name, count in counted.most_common():
        lines.append(f"  {count} x (beside busy loops {beside[name]} x)  {name}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="busy loops beside every second run")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "test-repeat")
    parser.add_argument("pytest_arguments", nargs="*", metavar="-- PYTEST ARGUMENTS")
    given = parser.parse_args()
    if given.runs < 1:
        parser.error(f"--runs must be 1 or more, got {given.runs}")
    for number in (signal.SIGINT, signal.SIGTERM):  # otherwise a background job of a shell ignores SIGINT
        signal.signal(number, signal.default_int_handler)
    folder = series_folder(given.folder, {"commit": commit(), "pytest": given.pytest_arguments})
    results: list[Result] = []
    try:
        for number in range(1, given.runs + 1):
            file = folder / f"run-{number}.json"
            kept = file.exists()
            if not kept:
                result = run_once(number, folder, given.pytest_arguments, given.cores)
                file.write_text(json.dumps(vars(result)))
            results.append(Result(**json.loads(file.read_text())))
            print(f"run {number} of {given.runs}: {results[-1].line()}{' (kept)' if kept else ''}", flush=True)
            for name in results[-1].failed:
                print(f"    failed: {name}", flush=True)
    except KeyboardInterrupt:
        print(f"\nstopped; the same command goes on with run {len(results) + 1}. Output is in {folder}")
        if results:
            print(summary(results, given.runs))
        return 130
    (folder / "series.json").unlink()
    print(f"{summary(results, given.runs)}\nOutput is in {folder}")
    return int(any(result.failed for result in results))


if __name__ == "__main__":
    # A kill ends the busy loops and pytest as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
