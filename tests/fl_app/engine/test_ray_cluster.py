# SPDX-License-Identifier: GPL-3.0-or-later
"""A Ray of one's own: it keeps to itself, outlives Ctrl-C and leaves nothing behind; and what is told without one."""

import contextlib
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from fl_app.config import ConfigError, check
from fl_app.engine.pool import make_workers
from fl_app.engine.ray_cluster import RayCluster
from fl_app.engine.settings import EngineSection
from fl_app.engine.worker_process import WorkerError
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.run_hash import config_hash
from fl_app.runs.train import train
from tests.support.ports import free_port
from tests.support.processes import FL_APP, assert_all_end, family_of, is_running
from tests.support.ray_cluster import ray_cluster
from tests.support.runs import assert_same_run


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        ConfigError, match=r"\[engine\] name = 'ray' needs the package ray .*pip install 'gr-oac\[ray\]'"
    ):
        make_workers(2, 2, EngineSection(name="ray"))


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_address_where_nobody_listens_is_named(form):
    address, handler = form.format(free_port()), signal.getsignal(signal.SIGTERM)
    with pytest.raises(WorkerError, match=rf"\[engine\] address = '{address}': no Ray cluster can be joined"):
        RayCluster(address, 1)
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.parametrize("address", ["ray://host", "http://host:1", "a host:1", "host:port"])
def test_wrong_address_is_refused(address):
    with pytest.raises(ConfigError, match=r"\[engine\] address = .*write \"auto\", HOST:PORT, ray://HOST:PORT"):
        EngineSection(address=address)


@pytest.mark.parametrize("address", ["", "auto", "10.0.0.1:6379", "ray://head.cluster:10001"])
def test_addresses_of_ray_are_taken(address):
    assert EngineSection(address=address).address == address


def test_several_gpus_are_a_whole_number():
    assert EngineSection(gpus_per_client=0.25).gpus_per_client == 0.25
    with pytest.raises(ConfigError, match=r"gpus_per_client = 1\.5: more than one GPU must be a whole number"):
        EngineSection(gpus_per_client=1.5)


def test_gpu_of_a_worker_must_be_asked_for():
    tree = {"run": {"device": "cuda"}, "engine": {"name": "ray"}}
    with pytest.raises(ConfigError, match=r"\[run\] device = 'cuda': .*set \[engine\] gpus_per_client above 0"):
        check(tree, "here")
    check({**tree, "engine": {"name": "ray", "gpus_per_client": 1.0}}, "here")


def test_engine_is_no_part_of_what_server_and_clients_compare(tiny):
    assert config_hash(tiny()) == config_hash(tiny(engine={"name": "ray", "retries": 7}))


def listening_addresses(pids):
    """Return the local addresses of all TCP sockets on which these processes listen, in the kernel's notation."""
    own = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was closed in the meantime
                own.add(str(link.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                found.add(words[1].partition(":")[0])
    return found


def is_worker(pid):
    """Say whether a process is an actor of Ray; Ray gives its processes titles."""
    return is_running(pid) and Path(f"/proc/{pid}/cmdline").read_text().startswith("ray::_Actor")


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}  # 127.0.0.1 in the tables of IPv4 and IPv6


@pytest.mark.slow
def test_ray_of_one_run_keeps_to_itself_and_leaves_nothing(program, tiny_options, tmp_path, short_folder):
    environment = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(short_folder)}
    many = ["--set=run.rounds=100000", "--set=run.workers=2", "--set=run.checkpoint_every=1000"]
    run = program(
        [*FL_APP, "train", *tiny_options, *many, "--engine", "ray", "--out", tmp_path / "run"], env=environment
    )
    run.says("round", count=2)
    family = family_of(run.pid)
    addresses = listening_addresses(family)
    assert addresses
    assert addresses <= LOOPBACK
    assert list(short_folder.glob("oac-ray-*"))
    os.kill(next(filter(is_worker, family)), signal.SIGKILL)
    run.says("a worker was lost while")
    run.says("round", count=len(re.findall("round", run.err)) + 1)
    family = {*family, *family_of(run.pid)}
    for pid in [*family, run.pid]:  # as batch systems do
        with contextlib.suppress(ProcessLookupError):  # a process that Ray starts and ends by itself
            os.kill(pid, signal.SIGTERM)
    assert run.wait() == 130
    assert "stopped after a whole round, and saved" in run.err
    assert run.out == ""  # for the result alone
    assert_all_end(family)
    assert list(short_folder.iterdir()) == []
    assert not (tmp_path / ".ray").exists()


@pytest.mark.slow
def test_run_through_the_client_server_of_a_cluster_has_the_same_bits(program, tiny, tmp_path):
    port, whole = free_port(), RunFolder(tmp_path / "whole")
    train(tiny(), whole, lambda _row: None, lambda: False)
    (tmp_path / "run.toml").write_text(tiny().toml())
    with ray_cluster(num_cpus=2, ray_client_server_port=port):
        there = ["--engine", "ray", "--workers", "2", f"--set=engine.address=ray://127.0.0.1:{port}"]
        run = program([*FL_APP, "train", tmp_path / "run.toml", *there, "--out", tmp_path / "run"])
        assert run.wait() == 0, run.text
    assert_same_run(whole, RunFolder.open(tmp_path / "run"))
