# SPDX-License-Identifier: GPL-3.0-or-later
"""A flowgraph as a process of its own, which an air starts, talks to over ZMQ, and never leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import weakref
from abc import abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import zmq

from fl_app.air.base import Air, Unseen, Uplink
from fl_app.air.live.flow_bursts import MAX_CLIENTS
from fl_app.air.payload import check_payload
from fl_app.air.settings import AirSettings
from fl_app.processes.child import ends_with_parent
from fl_app.processes.private_folder import PrivateFolder
from oac_blocks.bench.flows.endpoints import READY, flowgraph_environment
from oac_blocks.dsp.checks import integer
from oac_blocks.errors import OacError

_END_SECONDS = 60.0  # seconds that a process may take to end after it has closed its output
_ROUND_SECONDS = 120.0
_LOOK_MILLISECONDS = 200


class FlowgraphError(OacError, RuntimeError):
    """What happened to the flowgraph, in a sentence."""


class FlowgraphProcess:
    """``service`` is a module below ``oac_blocks.bench.flows``; it gets a folder for its sockets, and the settings."""

    def __init__(self, service: str, settings: dict[str, Any]) -> None:
        self._folder = PrivateFolder("gr-oac-")
        self.folder = self._folder.path
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"oac_blocks.bench.flows.{service}", str(self.folder), json.dumps(settings)],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=flowgraph_environment(),
            preexec_fn=ends_with_parent(signal.SIGTERM),
            process_group=0,  # Ctrl-C is for the training, which ends its round and then the flowgraph
        )
        self._context = zmq.Context()
        self._close = weakref.finalize(self, _clean_up, self._process, self._context, self._folder)
        self._await_start()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def socket(self, kind: int, endpoint: str) -> Any:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.connect(endpoint)
        return socket

    def _await_start(self) -> None:
        """Read what the process prints until it says that its flowgraph runs.

        GNU Radio logs to standard output, too: a word about FFT wisdom that another program is writing, say.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == READY:
                return
            sys.stderr.write(line)
        code = self._process.wait(_END_SECONDS)
        raise FlowgraphError(f"the flowgraph did not start (exit status {code}); what it said is above")

    def receive(self, socket: Any) -> bytes:
        """The next message; FlowgraphError if the process ends or says nothing for long."""
        deadline = time.monotonic() + _ROUND_SECONDS
        while not socket.poll(_LOOK_MILLISECONDS):
            self.look()
            if self._process.poll() is not None:
                raise FlowgraphError(
                    f"the flowgraph ended (exit status {self._process.returncode}); a resumed run starts a new one"
                )
            if time.monotonic() > deadline:
                raise FlowgraphError(f"the flowgraph gave no round within {_ROUND_SECONDS:.0f} s{self.about()}")
        self.look()
        message: bytes = socket.recv()
        return message

    def look(self) -> None:
        """Called now and then while a message is waited for."""

    def about(self) -> str:
        """What else is known when nothing comes."""
        return ""

    def close(self) -> None:
        self._close()


def _clean_up(process: subprocess.Popen[str], context: Any, folder: PrivateFolder) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
    context.destroy(linger=0)
    folder.cleanup()


Process = TypeVar("Process", bound=FlowgraphProcess)


class FlowgraphAir(Air, Generic[Process]):
    """An air whose flowgraph runs while the air is open. A resumed run starts a new one."""

    def __init__(self, settings: AirSettings, n_clients: int, seed: int) -> None:
        self.settings, self.scheme = settings, settings.scheme
        self.n_clients = integer("n_clients", n_clients, 1, MAX_CLIENTS)
        self.seed = integer("seed", seed, 0)
        self._flowgraph: Process | None = None

    @property
    def process_id(self) -> int | None:
        """Return that of the flowgraph; None while the air is closed."""
        return self._flowgraph.process_id if self._flowgraph else None

    def open(self) -> None:
        """Start the flowgraph, unless it runs; FlowgraphError if it does not start."""
        if self._flowgraph is None:
            self._flowgraph = self.make_flowgraph()

    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        """Send a round through the flowgraph; it starts now if ``open`` has not started it."""
        values, numbers = check_payload(payload, clients, t, self.scheme, self.n_clients)
        self.open()
        assert self._flowgraph is not None
        return self.send(self._flowgraph, values, numbers)

    @abstractmethod
    def make_flowgraph(self) -> Process: ...

    @abstractmethod
    def send(self, flowgraph: Process, values: npt.NDArray[Any], clients: npt.NDArray[np.int64]) -> Uplink: ...

    def close(self) -> None:
        if self._flowgraph is not None:
            self._flowgraph.close()
            self._flowgraph = None
