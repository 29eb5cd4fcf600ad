# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of `fl_app` in processes of their own, which start quickly: forked from one that has imported torch."""

import multiprocessing
import os
import signal
from pathlib import Path

from fl_app.runs.metrics import without_times
from fl_app.runs.run_folder import RunFolder
from tests.support.polling import DEADLINE_SECONDS, until

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["fl_app.cli.app", "fl_app.runs.prepare", "fl_app.runs.report", "fl_app.link.server"])

# The process to fork from is one for all of this interpreter. If a pool of workers was its first user, it blocks the
# signals that a pool is not to see, and so would its children.
_RUN = """
import os, signal
fd = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.dup2(fd, 1); os.dup2(fd, 2)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])
{code}
"""


# Drawing takes longer than most of these runs, and has tests of its own.
_NO_PICTURES = "import fl_app.runs.report; fl_app.runs.report.write_report = lambda folder: None"


class Command:
    """One process, and what it printed."""

    def __init__(self, code, log):
        self.log = Path(log)
        self.log.touch()
        self.process = _context.Process(target=exec, args=(_RUN.format(log=str(log), code=code), {}))
        self.process.start()
        self.pid = self.process.pid

    @property
    def text(self):
        return self.log.read_text()

    @property
    def is_running(self):
        return self.process.is_alive()

    def send(self, number):
        os.kill(self.pid, number)

    def kill(self):
        """As `kill -9`, and gone when this returns."""
        self.process.kill()
        self.process.join()

    def wait(self, seconds=DEADLINE_SECONDS):
        """The exit code."""
        self.process.join(seconds)
        assert not self.is_running, f"still running after {seconds} s:\n{self.text}"
        return self.process.exitcode

    def says(self, text, count=1):
        """Wait until it has printed this."""
        until(lambda: self.text.count(text) >= count or not self.is_running, f"{text!r} in {self.log}")
        assert self.text.count(text) >= count, self.text


class Site:
    """A folder for one run: its server, its clients, their logs. What still runs in the end is killed."""

    def __init__(self, folder, settings, endpoint):
        self.folder, self.settings, self.endpoint = folder, settings, endpoint
        self.run = RunFolder(folder / "run")
        self.commands = []

    def command(self, name, *arguments):
        argv = [str(argument) for argument in arguments]
        return self.python(name, f"from fl_app.cli.app import app; app({argv!r})")

    def python(self, name, code):
        number = len(self.commands)
        self.commands.append(Command(code, self.folder / f"{number}-{name}.log"))
        return self.commands[-1]

    def server(self, *options):
        """A new run, or, where there is one, the same run once more."""
        if not self.run.config.exists():
            RunFolder.create(self.settings, self.run.path)
        argv = ["server", "--resume", str(self.run.path), "--bind", self.endpoint, *map(str, options)]
        return self.python("server", f"{_NO_PICTURES}; from fl_app.cli.app import app; app({argv!r})")

    def client(self, number, *options, endpoint=None):
        where = endpoint or self.endpoint
        return self.command(f"client-{number}", "client", "--server", where, "--id", number, *options)

    def voter(self, number, before="lambda t: None", **options):
        """A client that trains nothing; `before` is code of a function that is called in each round."""
        where = options.get("endpoint") or self.endpoint
        return self.python(f"voter-{number}", voter_code(where, number, before, options.get("radio")))

    def radio(self, address, *options):
        """The loopback flowgraph for all clients, as a process."""
        folder = address.removeprefix("ipc://")
        return self.command(
            "radio", "radio", self.run.config, "--loopback", self.settings.clients.n, "--folder", folder, *options
        )

    def wait_for_rounds(self, rounds, *alive):
        until(
            lambda: len(self.run.rows()) >= rounds or not all(command.is_running for command in alive),
            f"{rounds} rounds",
        )
        assert len(self.run.rows()) >= rounds, "\n".join(command.text for command in self.commands)

    def close(self):
        for command in self.commands:
            if command.is_running:
                command.send(signal.SIGCONT)
                command.kill()


def voter_code(endpoint, number, before="lambda t: None", radio=None):
    bench = "" if radio is None else "from fl_app.link.radio_bench import OwnRadio"  # it needs GNU Radio
    own_radio = "None" if radio is None else f"OwnRadio({radio!r}, {number})"
    return f"""
import os, signal, time
from fl_app.link.caller import Caller
from fl_app.link.client import Client
{bench}
from fl_app.link.trainer import RandomVoter
caller = Caller({number}, hand_to_radio={own_radio})
print(Client({endpoint!r}, caller, RandomVoter({number}, {before})).run(60), flush=True)
"""


def figures(row):
    """What does not depend on the clock, nor on how the model got to the clients."""
    return {name: value for name, value in without_times(row).items() if name != "downlink_bytes"}
