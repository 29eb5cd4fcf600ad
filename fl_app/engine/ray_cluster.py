# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a Ray on this machine or join one that runs, and leave nothing behind.

A Ray that this module starts listens on loopback alone, lets in only who knows a random token, collects no usage
statistics and writes to one temporary folder, which is removed at the end.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from fl_app.engine.worker_process import WorkerError
from fl_app.processes.interrupt import blocked_for_children
from fl_app.processes.private_folder import PrivateFolder
from oac_blocks.bench.section import ConfigError

PREFIX = "oac-ray-"  # beginning of the temporary folder's name; Ray's sockets are below it, and must have short paths
STORE_SHARE = 0.25  # largest share of the machine's memory for the object store, which takes only what it holds
MAX_STORE_BYTES = 4 * 2**30
JOIN_SECONDS = 20.0  # seconds for which a machine of the cluster may take to accept a connection
NEARLY = 1e-6  # 4 CPUs / 0.4 CPUs are 10 workers, whatever the rounding


class RayCluster:
    """Connect this process to a Ray cluster.

    Parameters
    ----------
    address : str
        ``"auto"``, ``"host:port"`` or ``"ray://host:port"``; an empty string starts a Ray on this machine. A Ray that
        this process is connected to already is used as it is, and stays when the cluster is closed.
    cpus : int
        CPUs of a Ray that is started here.
    """

    def __init__(self, address: str, cpus: int) -> None:
        self.ray = import_ray()
        self._folder: PrivateFolder | None = None
        self._is_ours = not self.ray.is_initialized()
        if not self._is_ours:
            return
        try:
            with _own_handlers():
                if address:
                    _knock(address)
                    self.ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
                else:
                    self._start(cpus)
            # Ray would print to stdout that a worker has died, where `--json` promises one JSON object.
            self.ray._private.worker._worker_logs_enabled = False
        except BaseException as error:
            self.close()
            if not isinstance(error, Exception):
                raise
            # Ray raises errors of many kinds: ConnectionError, RuntimeError, ValueError, OSError.
            told = " ".join(str(error).split())
            if address:
                raise WorkerError(
                    f"[engine] address = {address!r}: no Ray cluster can be joined there ({told}); `ray status` on a "
                    'machine of the cluster tells whether it runs, and address = "" starts a Ray on this machine'
                ) from error
            raise WorkerError(f"Ray cannot start on this machine: {told}") from error

    def _start(self, cpus: int) -> None:
        self._folder = PrivateFolder(PREFIX)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        # Ctrl-C and a batch system's SIGTERM reach Ray's processes, too, and must not end them in mid-round.
        with closed_to_others(self.ray), blocked_for_children():
            self.ray.init(
                "local",
                num_cpus=cpus,
                object_store_memory=min(MAX_STORE_BYTES, int(STORE_SHARE * memory)),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=str(self._folder.path),
            )

    def places(self, cpus: float, gpus: float) -> int:
        """Return how many workers of this size fit on the nodes that are alive, other programs left aside."""
        places = 0
        for node in self.ray.nodes():
            if node["Alive"]:
                has = node["Resources"]
                fits = [has.get(kind, 0.0) / size for kind, size in (("CPU", cpus), ("GPU", gpus)) if size > 0]
                places += math.floor(min(fits) + NEARLY)
        return places

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        if self._is_ours and self.ray.is_initialized():
            self.ray._private.worker._worker_logs_enabled = True
            if self._folder is None:
                self.ray.shutdown()
            else:
                _end(self.ray)
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def import_ray() -> Any:
    """Return the package ray, or raise ConfigError that says how to install it."""
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            f"[engine] name = 'ray' needs the package ray ({error}): install it with pip install 'gr-oac[ray]', or "
            "set [engine] name = 'local'"
        ) from None
    return ray


@contextlib.contextmanager
def closed_to_others(ray: Any) -> Iterator[None]:
    """Let a Ray that is started inside the context listen on loopback and answer this process alone."""
    variables = {
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray runs whatever code it is sent, and loopback is open to other users of this machine; so it asks for a
        # token. Without this one, Ray would write one to the home folder.
        "RAY_AUTH_TOKEN": _token(),
    }
    before = {name: os.environ.get(name) for name in (*variables, "RAY_AUTH_MODE")}  # Ray sets the last one itself
    constants = ray._private.ray_constants
    makes_clusters = constants.ENABLE_RAY_CLUSTER
    os.environ.update(variables)
    constants.ENABLE_RAY_CLUSTER = False  # Ray's default on macOS and Windows: a new Ray listens on 127.0.0.1
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = makes_clusters
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@cache
def _token() -> str:
    return secrets.token_hex(32)  # one for the life of this process, since Ray keeps the first that it reads


def _knock(address: str) -> None:
    """Raise OSError if nobody listens at this address; Ray itself would search for a quarter of an hour."""
    host, _, port = address.rpartition("/")[2].partition(":")
    if port:
        socket.create_connection((host, int(port)), timeout=JOIN_SECONDS).close()


@contextlib.contextmanager
def _own_handlers() -> Iterator[None]:
    """Keep the program's handler of SIGTERM, which `ray.init` replaces by one that exits."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _end(ray: Any) -> None:
    """Disconnect from the Ray that was started here, and kill all of its processes.

    `ray.shutdown` alone would send SIGTERM, which is blocked in them, wait a second for each, and leave the children
    of the one that it kills then.
    """
    node = ray._private.worker._global_node
    started = [info.process for infos in node.all_processes.values() for info in infos]
    pids = [pid for process in started for pid in (process.pid, *_children(process.pid))]

    def kill(**_: Any) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in started:
            process.wait()

    node.kill_all_processes = kill
    ray.shutdown()


def _children(pid: int) -> list[int]:
    """Return the children of a process: those of Ray's scheduler are workers and helper processes."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return children
