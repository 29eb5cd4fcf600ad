# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a page's commands in their order, in an empty folder, in a network of their own.

    python -m tests.docs.runner docs/radios.md

prints each command, what it printed and its exit status, and ends with 1 at the first that does not do what it should.
The network namespace (``unshare``) makes fixed addresses and ports safe: nothing else on the machine listens there.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.pages import ROOT, Block, blocks, commands, file_of, one_program
from tests.docs.preloaded import Preloaded
from tests.docs.shortened import ONE_PROGRAM, Rule, file_text, program, rule_for, shortened

STEP_SECONDS = 900.0  # a command that takes longer hangs
_LOOK_SECONDS = 0.05
_END_SECONDS = 20.0
_NAMESPACE = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")


class StepError(Exception):
    """A command did not do what the page says; the message shows what it printed."""


@dataclass
class Process:
    """A command that runs, and the file with what it has printed."""

    where: str
    text: str
    output: Path
    popen: subprocess.Popen[bytes]
    exit_status: int = 0

    def printed(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def fail(self, why: str) -> StepError:
        return StepError(f"{self.where}: {self.text}\n{why}\n{self.printed()}")

    def wait(self) -> None:
        try:
            code = self.popen.wait(STEP_SECONDS)
        except subprocess.TimeoutExpired:
            raise self.fail(f"did not end within {STEP_SECONDS:g} s") from None
        if code != self.exit_status:
            raise self.fail(f"exit status {code}, not {self.exit_status}")

    def wait_for(self, pattern: str) -> None:
        deadline = time.monotonic() + STEP_SECONDS
        while not re.search(pattern, self.printed(), re.MULTILINE):
            if self.popen.poll() is not None:
                raise self.fail(f"ended with exit status {self.popen.returncode} before it printed {pattern!r}")
            if time.monotonic() > deadline:
                raise self.fail(f"did not print {pattern!r} within {STEP_SECONDS:g} s")
            time.sleep(_LOOK_SECONDS)

    def end(self) -> None:
        """End the process and what it has started."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGTERM)
            try:
                self.popen.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.popen.pid, signal.SIGKILL)
                self.popen.wait()


@dataclass
class PageRun:
    """The commands of one page, from top to bottom, in ``folder``."""

    folder: Path
    services: list[Process] = field(default_factory=list)
    background: list[Process] = field(default_factory=list)
    uris: list[str] = field(default_factory=list)
    _started: int = 0
    _environment: dict[str, str] = field(default_factory=lambda: _environment())

    def run(self, page: str) -> None:
        found = one_program(blocks(page)) if page in ONE_PROGRAM else blocks(page)
        learning = [command for block in found for command in commands(block) if command.text.startswith("fl_app ")]
        preloaded = self._preload() if len(learning) > 1 else None
        try:
            for block in found:
                if name := file_of(block):
                    (self.folder / name).write_text(self._filled(file_text(block)))
                elif block.language == "python":
                    self._run_program(block)
                for command in commands(block):
                    rule = rule_for(command)
                    if rule is None:
                        raise StepError(f"{page}:{command.line}: no rule in tests/docs/shortened.py: {command.text}")
                    if rule.needs is not None and not rule.needs.exists():
                        print(f"left out, {rule.needs} is not there: {command.text}", flush=True)
                        continue
                    self._step(f"{page}:{command.line}", shortened(command, rule), rule)
                self._await_background()
        finally:
            for process in reversed(self.background + self.services):
                process.end()
            if preloaded is not None:
                preloaded.end()

    def _preload(self) -> Preloaded:
        """Start the process that `fl_app` is forked from, and put the program that asks it first on PATH."""
        programs = self.folder.parent / f"{self.folder.name}-programs"
        preloaded = Preloaded(programs, self._environment)
        self._environment = {**self._environment, "PATH": f"{programs}:{self._environment['PATH']}"}
        return preloaded

    def _run_program(self, block: Block) -> None:
        where = f"{block.page}:{block.line}"
        compile(block.text, where, "exec")
        text = program(block)
        if text:
            script = self.folder.parent / f"{self.folder.name}-line-{block.line}.py"
            script.write_text(text)
            self._step(where, f"python '{script}'", Rule("python"))

    def _step(self, where: str, text: str, rule: Rule) -> None:
        own = self._start(where, rule.service) if rule.service else None
        try:
            if own is not None:
                own.wait_for("^ready$")
                (own_uri,) = re.findall(r"^uri (\S+)$", own.printed(), re.MULTILINE)
                text = text.replace("{own_uri}", own_uri)
            if rule.kind == "service" and text.startswith("oac-virtual-pluto"):
                self._end_services()  # the page begins another bench at the same addresses
            process = self._start(where, text, rule.exit_status)
            if rule.kind == "run":
                process.wait()
                print(process.printed(), flush=True)
            elif rule.kind == "background":
                self.background.append(process)
            else:
                self.services.append(process)
                process.wait_for(rule.ready)
                print(process.printed(), flush=True)
                self.uris = re.findall(r"^uri (\S+)$", process.printed(), re.MULTILINE) or self.uris
        finally:
            if own is not None:
                own.end()

    def _start(self, where: str, text: str, exit_status: int = 0) -> Process:
        self._started += 1
        output = self.folder.parent / f"{self.folder.name}-{self._started}.log"
        text = self._filled(text)
        print(f"$ {text}", flush=True)
        with output.open("wb") as log:
            popen = subprocess.Popen(
                ["bash", "-o", "pipefail", "-c", text],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        return Process(where, text, output, popen, exit_status)

    def _filled(self, text: str) -> str:
        runs = sorted((self.folder / "runs").glob("20*"), key=lambda path: path.stat().st_mtime)
        known = {f"uri{number}": uri for number, uri in enumerate(self.uris)} | {"folder": str(self.folder)}
        if runs:
            known["newest_run"] = str(runs[-1].relative_to(self.folder))
        for name, value in known.items():
            text = text.replace("{" + name + "}", value)
        return text

    def _await_background(self) -> None:
        while self.background:
            process = self.background[0]
            process.wait()
            print(f"{process.text}\n{process.printed()}", flush=True)
            self.background.pop(0)

    def _end_services(self) -> None:
        while self.services:
            self.services.pop().end()


def _environment() -> dict[str, str]:
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # Widths as on a screen, or tables are cut and uris in them broken into two lines.
    return {**os.environ, "PATH": programs, "COLUMNS": "160"}


def namespace() -> list[str]:
    """Return the command that gives what follows a network of its own, or nothing where that is not allowed."""
    for command in (_NAMESPACE, (*_NAMESPACE, "--map-root-user")):
        if shutil.which("unshare") and shutil.which("ip"):
            tried = subprocess.run([*command, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
            if tried.returncode == 0:
                return list(command)
    return []


def run_page(page: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page in a network namespace, in a process of its own; ``folder`` is empty."""
    command = [*namespace(), sys.executable, "-m", "tests.docs.runner", page, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def main(page: str, folder: str = "") -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False, capture_output=True)
    place = Path(folder or tempfile.mkdtemp(prefix="docs-"))
    try:
        PageRun(place).run(page)
    except StepError as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
