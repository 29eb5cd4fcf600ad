# SPDX-License-Identifier: GPL-3.0-or-later
"""The suite's own helpers: ports that stay free, programs that end, waits that fail in the end."""

import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.support import cifar10, vote_theory
from tests.support.cifar10 import NoCifar10Error, cifar10_folder
from tests.support.order import early_first
from tests.support.paths import ROOT
from tests.support.polling import until
from tests.support.ports import free_port, free_ports
from tests.support.processes import assert_all_end, children_of, family_of, is_running
from tests.support.statistics import assert_mean, share_std

SIGNALLED = """
import multiprocessing, signal, sys
from multiprocessing import forkserver, resource_tracker
from fl_app.processes.interrupt import blocked_for_children
from tests.fl_app.link.processes import Command
multiprocessing.get_context("forkserver").set_forkserver_preload([])
resource_tracker.ensure_running()
with blocked_for_children():
    forkserver.ensure_running()
command = Command("print('begun', flush=True); signal.pause()", sys.argv[1])
try:
    command.says("begun")
    command.send(signal.SIGTERM)
    print(command.wait())
finally:
    command.kill()
"""
SLEEPER = [sys.executable, "-c", "print('begun', flush=True); import signal; signal.pause()"]


def test_until_returns_what_it_waited_for():
    values = iter((None, 0, "", [7]))
    assert until(lambda: next(values)) == [7]


def test_until_fails_in_the_end_and_says_what_was_missing():
    with pytest.raises(pytest.fail.Exception, match=r"the flag was not reached within 0 s\nthe log"):
        until(lambda: False, "the flag", 0, lambda: "the log")


def test_ports_are_never_handed_out_twice_not_even_by_two_processes():
    ask = "from tests.support.ports import free_port; print([free_port() for _ in range(60)])"
    there = [subprocess.Popen([sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    here = [free_port() for _ in range(60)]
    first = free_ports(7)
    ports = [*here, *range(first, first + 7)]
    assert len(set(ports)) == 67
    for process in there:
        others = set(map(int, process.communicate()[0].strip("[]\n").split(",")))
        assert len(others) == 60
        assert not others & set(here)


def test_a_port_that_somebody_listens_on_is_left_out():
    taken = free_ports(2) + 2  # the next one that would be handed out, unless a block ends here
    with socket.create_server(("127.0.0.1", taken)):
        assert free_port() != taken


def test_a_forked_command_takes_signals_also_after_a_pool_of_workers(tmp_path):
    """The pool blocks them for its children, and may have started the process that both fork from."""
    ran = subprocess.run([sys.executable, "-c", SIGNALLED, tmp_path / "log"], cwd=ROOT, capture_output=True, text=True)
    assert ran.stdout == f"{-signal.SIGTERM}\n", ran.stderr


def test_a_program_and_its_children_end_with_the_test(program):
    parent = f"import subprocess, sys; subprocess.Popen({SLEEPER!r}); subprocess.Popen({SLEEPER!r}).wait()"
    one = program([sys.executable, "-c", parent])
    one.says("begun", 2)
    family = family_of(one.pid)
    assert family == children_of(one.pid)
    assert len(family) == 2
    assert all(map(is_running, family))
    one.close()
    assert_all_end([one.pid, *family])


def test_a_program_that_ends_too_early_fails_the_wait_with_its_words(program):
    one = program([sys.executable, "-c", "print('out'); import sys; sys.exit('no radio')"])
    with pytest.raises(AssertionError, match=r"ended with code 1 before 'ready' (?s:.*)out\nno radio"):
        one.says("ready")
    assert (one.out, one.err) == ("out\n", "no radio\n")


def test_a_signal_to_a_program(program):
    one = program(SLEEPER)
    one.says("begun")
    one.send(signal.SIGTERM)
    assert one.wait() == -signal.SIGTERM


def test_cifar10_is_where_the_variable_says(tmp_path, monkeypatch):
    batches = tmp_path / "data" / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    (batches / "batches.meta").write_text("names")
    archive = tmp_path / "cifar.tar.gz"
    subprocess.run(["tar", "czf", archive, "-C", batches.parent, batches.name], check=True)
    for given in (batches, batches.parent, archive):
        monkeypatch.setenv("GR_OAC_CIFAR10", str(given))
        folder = cifar10_folder(tmp_path / "cache")
        assert (folder / "cifar-10-batches-py" / "batches.meta").read_text() == "names"
    assert folder == tmp_path / "cache" / "cifar10"


def test_cifar10_that_is_missing_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar10, "BESIDE", tmp_path / "none")
    monkeypatch.delenv("GR_OAC_CIFAR10", raising=False)
    with pytest.raises(NoCifar10Error, match="set GR_OAC_CIFAR10 to its archive"):
        cifar10_folder(tmp_path)
    monkeypatch.setenv("GR_OAC_CIFAR10", str(tmp_path / "wrong"))
    with pytest.raises(FileNotFoundError, match="wrong, which does not exist"):
        cifar10_folder(tmp_path)
    monkeypatch.setenv("GR_OAC_CIFAR10", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="must hold a folder cifar-10-batches-py"):
        cifar10_folder(tmp_path)


def test_a_mean_is_not_excused_by_a_scatter_that_theory_does_not_allow():
    rates = np.where(np.arange(24) % 2, 0.045, 0.25)  # a fault in every second round
    assert abs(rates.mean() - 0.045) < 5 * rates.std(ddof=1) / np.sqrt(len(rates))  # a bound that loosens with it
    with pytest.raises(AssertionError, match=r"off by 0\.1"):
        assert_mean(rates, 0.045, 0.02, 5)
    assert_mean(rates - 0.1, 0.045, 0.02, 5)


def test_no_share_scatters_more_than_all_or_nothing():
    assert share_std(0.25) == pytest.approx(np.std([0, 0, 0, 1]))


def test_the_scatter_of_votes_in_one_fade_is_that_of_its_closed_form(monkeypatch):
    """One flat fade, one client, many votes: the share is exp(-x snr / 2) / 2 with x exponential."""
    monkeypatch.setattr(vote_theory, "EVA_NS", np.zeros(1))
    monkeypatch.setattr(vote_theory, "EVA_DB", np.zeros(1))
    half = 10.0 / 2
    variance = (1 / (1 + 2 * half) - 1 / (1 + half) ** 2) / 4
    assert vote_theory.vote_rate_std.__wrapped__(1, 2000, 10.0) == pytest.approx(np.sqrt(variance), rel=0.2)


@pytest.mark.parametrize("workers", [1, 2, 3, 20])
def test_each_worker_begins_with_its_share_of_the_early_tests(workers):
    items = list(range(32))
    ordered = early_first(items, workers, lambda item: item % 5 == 4)
    assert sorted(ordered) == items
    begins = [len(items) * worker // workers for worker in range(workers)]
    early = [4, 9, 14, 19, 24, 29]
    assert {ordered[begin] for begin in begins[: len(early)]} == set(early[:workers])
    assert [item for item in ordered if item not in early] == [item for item in items if item not in early]
