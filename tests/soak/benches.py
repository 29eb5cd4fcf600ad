# SPDX-License-Identifier: GPL-3.0-or-later
"""The benches that are disturbed: their processes, what a fault does to them, and how a user starts them again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable

from fl_app.config import Settings, check
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.run_folder import RunFolder
from tests.fl_app.link.lossy import LossyProxy
from tests.soak.schedule import Fault, Visit
from tests.soak.stage import Stage, Violation
from tests.support.ports import free_ports

N = 2  # clients
FREQUENCY = 2.4e9  # Hz: nothing leaves the computer
RATE = 1e6  # samples a second of the virtual Plutos
ENDLESS = 100_000  # rounds of a run that Ctrl-C ends
EXACT_ROUNDS = 80  # rounds of a run that is compared with an undisturbed one
RECOVER_ROUNDS = 3  # so many rounds with all clients, and a fault is over
RECOVER_SECONDS = 240.0  # until then at most; loading a model takes up to 20 s on a busy machine
END_SECONDS = 60.0  # for processes that were asked to end
STARTS_AGAIN = 4  # starts of one process after one fault

# Small: few entries, little data, and tiny steps, so that no run diverges however long it takes.
BASE = {
    "run": {"seed": 3, "rounds": ENDLESS, "eval_every": 50, "checkpoint_every": 3, "workers": 0},
    "data": {"name": "letters", "limit": 200, "test_limit": 60},
    "clients": {"n": N, "H": 2, "batch_size": 8},
    "server": {"lr": 1e-5},
    "selection": {"k": 500},
    "link": {
        "heartbeat_seconds": 0.2,
        "silent_seconds": 3.0,
        "round_seconds": 20.0,
        "join_seconds": 60.0,
        "patience_seconds": RECOVER_SECONDS,
    },
}


def settings_for(visit: Visit) -> Settings:
    """The config of a visit's run."""
    if visit.scenario in ("up-exact", "link-exact"):
        # All clients in every round: so the model is that of `fl_app train`, whatever happens on the way.
        exact = {"run": {"rounds": EXACT_ROUNDS}, "link": {"min_clients": N}}
        return check(BASE, "soak").with_values(air={"name": visit.variant}, **exact)
    return check(BASE, "soak").with_values(air={"name": "gnuradio", "profile": "indoor"})


class Bench:
    """One run and its processes. `main` is the role of the process that owns the run's folder."""

    main: str
    exact = False  # is the model promised to be that of an undisturbed run?

    def __init__(self, stage: Stage, visit: Visit) -> None:
        self.stage, self.visit, self.settings = stage, visit, settings_for(visit)
        self.run = RunFolder(stage.disk / "run")
        self.config = stage.folder / "bench.toml"
        self.config.write_text(self.settings.toml())
        self._again: dict[str, Callable[[], object]] = {}

    # What a kind of bench says about itself

    def start(self) -> None:
        """Start all processes."""
        raise NotImplementedError

    def may_end(self, fault: Fault) -> set[str]:
        """Return the roles of our own processes that may end because of this fault; a user starts them again."""
        raise NotImplementedError

    def stop(self) -> None:
        """Take down what is left when the main process has ended."""

    def close(self) -> None:
        """Free what this process holds for the bench."""

    # What they have in common

    def launch(self, role: str, program: str, *arguments: object, again: tuple[object, ...] | None = None) -> None:
        """Start a program, and keep how it is started once more: with `again` where that differs."""
        later = arguments if again is None else again
        self._again[role] = lambda: self.stage.start(role, program, *later)
        self.stage.start(role, program, *arguments)

    def rows(self) -> list[RoundFigures]:
        with contextlib.suppress(FileNotFoundError):
            return self.run.rows()
        return []

    @property
    def is_finished(self) -> bool:
        """Has the run come to its last round?"""
        return self.stage.processes[self.main].poll() == 0 and self.run.read_result() is not None

    def wait_for_rounds(self, rounds: int, fault: Fault | None, all_present: bool = True) -> None:
        """Wait for so many rounds, start again what may have ended, and complain about what may not."""
        may_end = self.may_end(fault) if fault else set()
        deadline, starts = time.monotonic() + RECOVER_SECONDS, dict.fromkeys(may_end, 0)
        while not self.is_finished:
            # The main process first: when it ends, others end for that reason.
            for role, process in sorted(self.stage.processes.items(), key=lambda item: item[0] != self.main):
                if process.poll() is not None:
                    self._ended(role, process.returncode, may_end, starts)
            rows = self.rows()
            if len(rows) >= rounds and (not all_present or rows[-1].absent_clients == 0):
                return
            if time.monotonic() > deadline:
                absent = f", {rows[-1].absent_clients} clients absent" if rows else ""
                raise Violation(
                    f"{len(rows)} rounds{absent} after {RECOVER_SECONDS:.0f} s, waiting for round {rounds} with all "
                    f"clients; {self.main} said last: {self.stage.last_words(self.main)}"
                )
            time.sleep(0.1)

    def _ended(self, role: str, code: int, may_end: set[str], starts: dict[str, int]) -> None:
        words = self.stage.last_words(role)
        if role not in may_end:
            raise Violation(f"{role} ended with code {code}: {words}")
        if starts[role] == STARTS_AGAIN:
            raise Violation(f"{role} ended again, with code {code}, after {STARTS_AGAIN} new starts: {words}")
        if code not in (0, 1, 2, -signal.SIGKILL):
            raise Violation(f"{role} ended with code {code} instead of a sentence: {words}")
        starts[role] += 1
        self._again[role]()

    def inject(self, fault: Fault) -> None:
        """Do it, and undo it where it has a duration."""
        getattr(self, f"_{fault.kind}")(fault)

    def _kill(self, fault: Fault) -> None:
        pid = self.stage.find(fault.target)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.stage.until(lambda: pid not in self.stage.ours(), f"end of {fault.target} after kill -9", END_SECONDS)
        if fault.target == "up":
            self.stage.until(lambda: not self.stage.ours(), "end of all processes after kill -9 of up", END_SECONDS)

    def _freeze(self, fault: Fault) -> None:
        pid = self.stage.find(fault.target)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(fault.seconds)
            os.kill(pid, signal.SIGCONT)

    def _fill(self, fault: Fault) -> None:
        process = self.stage.processes[self.main]
        self.stage.fill_disk()
        try:
            self.stage.until(lambda: process.poll() is not None, f"end of {self.main} on a full disk", RECOVER_SECONDS)
            words = self.stage.last_words(self.main)
            if process.returncode == 0 and self.is_finished:
                return
            if process.returncode != 1 or not any(word in words for word in ("disk is full", "No space left")):
                raise Violation(f"on a full disk {self.main} ended with code {process.returncode}: {words}")
        finally:
            self.stage.free_disk()

    def finish(self) -> None:
        """Bring the run to its end: the last round, or Ctrl-C."""
        process = self.stage.processes[self.main]
        if self.exact:
            self.wait_for_rounds(EXACT_ROUNDS, None)
            self.stage.until(lambda: process.poll() is not None, f"end of {self.main}", RECOVER_SECONDS)
            wanted = 0
        else:
            process.send_signal(signal.SIGINT)
            self.stage.until(lambda: process.poll() is not None, f"end of {self.main} after Ctrl-C", END_SECONDS)
            wanted = 130
        if process.returncode != wanted:
            words = self.stage.last_words(self.main)
            raise Violation(f"{self.main} ended with code {process.returncode} instead of {wanted}: {words}")
        self.stop()

    def ask_to_end(self, role: str, number: signal.Signals, allowed: tuple[int, ...]) -> None:
        """Send a signal to one of our processes; it must end with one of these codes."""
        process = self.stage.processes[role]
        process.send_signal(number)
        self.stage.until(lambda: process.poll() is not None, f"end of {role} after {number.name}", END_SECONDS)
        if process.returncode not in allowed:
            words = self.stage.last_words(role)
            raise Violation(f"{role} ended with code {process.returncode} after {number.name}: {words}")


class Up(Bench):
    """`fl_app up`: it starts everything else, and starts clients and flowgraph again by itself."""

    main = "up"

    def start(self) -> None:
        again = ("up", "--resume", self.run.path)
        self.launch("up", "fl_app", "up", self.config, "--out", self.run.path, again=again)

    def may_end(self, fault: Fault) -> set[str]:
        return {"up"} if fault.target in ("up", "server", "disk") else set()


class UpExact(Up):
    exact = True


class LinkExact(Bench):
    """A server and clients, each started by hand, with a bad network between them."""

    main, exact = "server", True

    def __init__(self, stage: Stage, visit: Visit) -> None:
        super().__init__(stage, visit)
        sockets = stage.folder / "s"
        sockets.mkdir()
        self.sockets = sockets
        self.endpoint, front = f"ipc://{sockets}/server", f"ipc://{sockets}/front"
        self._front = front
        self.proxy = LossyProxy(front, self.endpoint, loss=0.0, delay_seconds=0.02, seed=visit.number)

    def start(self) -> None:
        self.proxy.__enter__()
        self.start_server()
        for number in range(N):
            self.start_client(number)

    def start_server(self, *options: object) -> None:
        common = ("--bind", self.endpoint, *options)
        again = ("server", "--resume", self.run.path, *common)
        self.launch("server", "fl_app", "server", self.config, "--out", self.run.path, *common, again=again)

    def start_client(self, number: int, *options: object) -> None:
        self.launch(f"client-{number}", "fl_app", "client", "--server", self._front, "--id", number, *options)

    def may_end(self, fault: Fault) -> set[str]:
        if fault.kind == "fill":  # the server tells its clients that it stops
            return {"server", *(f"client-{number}" for number in range(N))}
        return {fault.target} if fault.kind == "kill" else set()

    def _lose(self, fault: Fault) -> None:
        self.proxy.loss = fault.amount
        time.sleep(fault.seconds)
        self.proxy.loss = 0.0

    def stop(self) -> None:
        for number in range(N):
            process = self.stage.processes[f"client-{number}"]
            self.stage.until(lambda one=process: one.poll() is not None, f"end of client {number}", END_SECONDS)

    def close(self) -> None:
        self.proxy.__exit__()


class Plutos:
    """The virtual Plutos of a bench, and their console."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._port = bench, free_ports(1 + N)
        self.uris: list[str] = []

    def start(self) -> None:
        stage = self._bench.stage
        # An indoor channel that stays, and clocks of +-10 ppm, as in the last section of docs/radios.md.
        air = ("--ppm", 10, "--snr", 25, "--channel", "indoor", "--clock", self._bench.visit.variant)
        ports = ("--radios", 1 + N, "--base-port", self._port, "--console")
        stage.start("plutos", "oac-virtual-pluto", *ports, *air, stdin=subprocess.PIPE)
        stage.until(lambda: "ready" in stage.log("plutos").split("\n"), "virtual Plutos", 60)
        lines = stage.log("plutos").splitlines()
        self.uris = [line.removeprefix("uri ") for line in lines if line.startswith("uri ")]

    def say(self, line: str) -> None:
        stream = self._bench.stage.processes["plutos"].stdin
        assert stream is not None
        stream.write(line.encode() + b"\n")
        stream.flush()


class PlutoBench(Bench):
    """What benches on virtual Plutos share."""

    def __init__(self, stage: Stage, visit: Visit) -> None:
        super().__init__(stage, visit)
        self.plutos = Plutos(self)
        self._again["plutos"] = self.plutos.start

    def _unplug(self, fault: Fault) -> None:
        number = fault.target.removeprefix("radio-")
        self.plutos.say(f"unplug {number}")
        time.sleep(fault.seconds)
        self.plutos.say(f"plug {number}")

    def _gap(self, fault: Fault) -> None:
        self.plutos.say(f"underflow {fault.target.removeprefix('radio-')}")

    def stop(self) -> None:
        self.ask_to_end("plutos", signal.SIGTERM, (0,))


class TrainPluto(PlutoBench):
    """`fl_app train --air pluto`: one process drives all radios."""

    main = "train"

    def start(self) -> None:
        self.plutos.start()
        server, *clients = self.plutos.uris
        radios = {
            "server": server, "clients": clients, "frequency_hz": FREQUENCY, "rx_gain_db": 50.0, "tx_gain_db": -10.0,
            "clock": self.visit.variant, "sample_rate_hz": RATE,
        }  # fmt: skip
        self.config.write_text(self.settings.with_values(air={"name": "pluto"}, radios=radios).toml())
        train = ("train", self.config, "--out", self.run.path)
        self.launch("train", "fl_app", *train, again=("resume", self.run.path))

    def may_end(self, fault: Fault) -> set[str]:
        if fault.target == "plutos" and fault.kind == "kill":
            return {"plutos", "train"}
        # Without the server's radio the run ends with a sentence, and goes on when it is asked to.
        return {"train"} if fault.target in ("train", "disk", "radio-0") else set()


class BenchPluto(PlutoBench, LinkExact):
    """The bench of docs/radios.md: a flowgraph for each radio, a server, and clients."""

    main, exact = "server", False

    def start(self) -> None:
        self.plutos.start()
        self.proxy.__enter__()
        port = free_ports(8 + N)
        address = f"tcp://127.0.0.1:{port}"
        for uri, client in zip(self.plutos.uris, (None, *range(N)), strict=True):
            own = () if client is None else ("--client", client)
            role = "server" if client is None else client
            common = ("--frequency", FREQUENCY, "--rate", RATE, "--votes", 4096, "--port", port, *own)
            self.launch(f"radio-command-{role}", "fl_app", "radio", "--uri", uri, *common)
        self.start_server("--radio", address, "--audit-votes")
        for number in range(N):
            self.start_client(number, "--radio", address)

    def may_end(self, fault: Fault) -> set[str]:
        commands = [f"radio-command-{role}" for role in ("server", *range(N))]
        if fault.kind == "kill" and fault.target == "plutos":
            return {"plutos", *commands}
        if fault.kind == "kill" and fault.target.startswith("flowgraph-"):
            return {fault.target.replace("flowgraph-", "radio-command-")}
        return {fault.target} if fault.kind == "kill" else set()

    def stop(self) -> None:
        for number in range(N):
            self.ask_to_end(f"client-{number}", signal.SIGINT, (0, 130))
        for role in ("server", *range(N)):
            self.ask_to_end(f"radio-command-{role}", signal.SIGINT, (0, 130))
        PlutoBench.stop(self)


BENCHES = {
    "up-gnuradio": Up,
    "up-exact": UpExact,
    "link-exact": LinkExact,
    "train-pluto": TrainPluto,
    "bench-pluto": BenchPluto,
}
