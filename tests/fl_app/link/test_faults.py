# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong on a bench, with real processes: training goes on, or stops with one clear sentence."""

import signal

import numpy as np
import pytest

from fl_app.link.keys import make_keys
from tests.fl_app.link.lossy import LossyProxy
from tests.support.runs import assert_every_round_once

FREE_PORT = "tcp://127.0.0.1:*"


def updates_of(run):
    """How often the model was moved, by the server's own count: round 0 sends all entries, each later one k of them."""
    arrays, rows = run.latest().arrays, run.rows()
    return arrays["times_sent"].sum(), sum(row.k for row in rows)


def assert_whole(run, rounds):
    assert_every_round_once(run, rounds)
    sent, asked = updates_of(run)
    assert sent == asked


def voters(rounds=8, **link):
    return {"run": {"rounds": rounds, "eval_every": 100, "checkpoint_every": 2}, "link": link}


def test_client_killed_in_mid_round(site, link_settings):
    here = site(link_settings(**voters(min_clients=2)))
    server = here.server()
    # Client 2 stops in the middle of round 3: the server has asked, and will never have an answer.
    there = [here.voter(0), here.voter(1)]
    victim = here.voter(2, "lambda t: t == 3 and (print('in round 3', flush=True), signal.pause())")
    victim.says("in round 3")
    assert len(here.run.rows()) == 3
    victim.kill()
    assert server.wait() == 0, server.text
    assert [one.wait() for one in there] == [0, 0]
    assert_whole(here.run, 8)
    assert [row.absent_clients for row in here.run.rows()] == [0, 0, 0, 1, 1, 1, 1, 1]


@pytest.mark.slow
def test_killed_client_comes_back_and_takes_part_again(site, link_settings):
    here = site(link_settings(**voters(min_clients=2)))
    server = here.server()
    flag = here.folder / "flag"
    # Client 0 holds round 6 until the other one is back.
    slow = here.voter(
        0, f"lambda t: t == 6 and [time.sleep(0.01) for _ in iter(lambda: os.path.exists({str(flag)!r}), True)]"
    )
    victim = here.voter(1, "lambda t: t == 3 and (print('in round 3', flush=True), signal.pause())")
    here.voter(2)
    victim.says("in round 3")
    victim.kill()
    here.wait_for_rounds(6, server)
    back = here.client(1, "--no-training")
    back.says("client 1: ready")
    flag.touch()
    assert server.wait() == 0, server.text
    assert [slow.wait(), back.wait()] == [0, 0]
    assert_whole(here.run, 8)
    assert [row.absent_clients for row in here.run.rows()] == [0, 0, 0, 1, 1, 1, 0, 0]


def test_frozen_client_abstains_and_comes_back(site, link_settings):
    here = site(link_settings(**voters(rounds=40, round_seconds=1.0, silent_seconds=0.8)))
    server = here.server()
    for number in (0, 1):
        # Some rounds last a little, so that the frozen client has rounds to come back to.
        here.voter(number, "lambda t: t > 20 and time.sleep(0.05)")
    frozen = here.voter(2, "lambda t: t == 3 and os.kill(os.getpid(), signal.SIGSTOP)")
    here.wait_for_rounds(20, server)
    frozen.send(signal.SIGCONT)
    assert server.wait() == 0, server.text
    assert frozen.wait() == 0
    assert_whole(here.run, 40)
    absent = [row.absent_clients for row in here.run.rows()]
    assert absent[:3] == [0, 0, 0]
    assert set(absent[3:20]) == {1}
    assert 0 in absent[20:], "the client did not come back"
    assert "Traceback" not in server.text
    assert "bad" not in server.text


def test_lossy_network(site, link_settings, tmp_path):
    settings = link_settings(**voters(rounds=3, heartbeat_seconds=0.15), clients={"n": 2})
    here = site(settings)
    server = here.server()
    front = here.endpoint + "f"
    with LossyProxy(front, here.endpoint, loss=0.3, delay_seconds=0.2, seed=1) as proxy:
        there = [here.voter(number, endpoint=front) for number in range(2)]
        assert server.wait() == 0, server.text
        assert proxy.lost > 0.15 * proxy.passed
    assert_whole(here.run, 3)
    # Every answer got through in the end, and the rounds are those of a perfect network.
    assert [row.absent_clients for row in here.run.rows()] == [0] * 3
    perfect = site(settings)
    server = perfect.server()
    for number in range(2):
        perfect.voter(number)
    assert server.wait() == 0
    np.testing.assert_array_equal(here.run.latest().arrays["w"], perfect.run.latest().arrays["w"])
    assert all("Traceback" not in one.text for one in there)


def test_too_few_clients_make_no_round(site, link_settings):
    here = site(link_settings(**voters(rounds=3, min_clients=3, round_seconds=0.5, join_seconds=0.5)))
    server = here.server()
    here.voter(0), here.voter(1)
    here.voter(2, "lambda t: t == 1 and time.sleep(2)")  # later than three deadlines: round 1 is tried again
    assert server.wait() == 0, server.text
    assert "round 1: 2 of at least 3 clients answered within 0.5 s; trying again" in server.text
    assert_whole(here.run, 3)
    assert [row.absent_clients for row in here.run.rows()] == [0, 0, 0]


def test_nobody_comes(site, link_settings):
    here = site(link_settings(**voters(rounds=3, join_seconds=0.2, patience_seconds=0.6)))
    server = here.server()
    assert server.wait() == 1
    assert "error: only 0 of at least 1 clients are here in 0.6 s" in server.text
    assert "Traceback" not in server.text


def test_two_clients_with_one_id(site, link_settings):
    here = site(link_settings(**voters(rounds=6)))
    server = here.server()
    first = here.client(0, "--no-training")
    first.says("client 0: ready")
    second = here.client(0, "--no-training")
    assert second.wait() == 1
    assert "error: the server refused: client 0 is here already; give each client an --id of its own" in second.text
    here.client(1, "--no-training"), here.client(2, "--no-training")
    assert server.wait() == 0, server.text
    assert first.wait() == 0
    assert_whole(here.run, 6)


def test_number_that_the_run_does_not_have(site, link_settings):
    here = site(link_settings(**voters()))
    here.server()
    client = here.client(3, "--no-training")
    assert client.wait() == 1
    assert "error: the server refused: client 3: this run has the clients 0 to 2" in client.text


def test_client_with_another_model_size(site, link_settings):
    here = site(link_settings(**voters(rounds=4, join_seconds=0.3)))
    server = here.server()
    code = f"""
from fl_app.link.caller import Caller
from fl_app.link.client import Client
from fl_app.link.trainer import RandomVoter
class Other(RandomVoter):
    def prepare(self, welcome):
        return 1234, super().prepare(welcome)[1]
Client({here.endpoint!r}, Caller(2), Other(2)).run(60)
"""
    other = here.python("other", code)
    assert other.wait() == 1
    assert "the server refused: client 2 has a model of 1234 parameters, but this run's model has 109402" in other.text
    here.voter(0), here.voter(1)
    assert server.wait() == 0, server.text
    assert_whole(here.run, 4)


def test_client_with_another_config_or_other_data(site, link_settings, tmp_path):
    settings = link_settings(**voters())
    here = site(settings)
    here.server()
    config = tmp_path / "mine.toml"
    config.write_text(settings.toml())
    other = here.client(0, "--config", config, "--set", "clients.lr=0.5")
    same = here.client(1, "--config", config, "--set", "run.workers=7", "--no-training")
    assert other.wait() == 1
    assert "error: the server refused: client 0 has another config (" in other.text
    same.says("client 1: ready")
    code = f"""
from fl_app.link.caller import Caller
from fl_app.link.client import Client
from fl_app.link.trainer import ModelTrainer
Client({here.endpoint!r}, Caller(0), ModelTrainer(0, {{"data": {{"limit": 280}}}})).run(60)
"""
    wrong = here.python("wrong-data", code)
    assert wrong.wait() == 1
    assert "client 0 has other data, another split or other first weights than the server" in wrong.text


def test_wrong_key_is_not_let_in(site, link_settings, tmp_path):
    keys, strangers = tmp_path / "keys", tmp_path / "strangers"
    make_keys(keys, 3)
    make_keys(strangers, 3)
    (strangers / "server.pub").unlink()
    (strangers / "server.pub").write_text((keys / "server.pub").read_text())
    here = site(link_settings(**voters(rounds=4)), FREE_PORT)
    server = here.server("--keys", keys)
    server.says("listening on tcp://127.0.0.1:")
    here.endpoint = server.text.partition("listening on ")[2].partition(",")[0]
    stranger = here.client(0, "--no-training", "--keys", strangers, "--patience-seconds", 1.5)
    keyless = here.client(0, "--no-training", "--patience-seconds", 1.5)
    # A listed key is good for one client alone.
    (tmp_path / "stolen").mkdir()
    (tmp_path / "stolen" / "server.pub").write_text((keys / "server.pub").read_text())
    (keys / "client-1.key").rename(tmp_path / "stolen" / "client-2.key")
    thief = here.client(2, "--no-training", "--keys", tmp_path / "stolen")
    assert thief.wait() == 1
    assert "error: the server refused: client 2: this key is admitted for another client" in thief.text
    assert stranger.wait() == 1
    assert keyless.wait() == 1
    for one in (stranger, keyless):
        assert f"error: the server at {here.endpoint} was silent for 1.5 s" in one.text
    assert "refused a connection with a key that is not listed" in server.text
    (tmp_path / "stolen" / "client-2.key").rename(keys / "client-1.key")
    for number in range(3):
        here.client(number, "--no-training", "--keys", keys)
    assert server.wait() == 0, server.text
    assert_whole(here.run, 4)


def test_without_keys_the_server_stays_on_this_machine(site, link_settings):
    here = site(link_settings(**voters()), "tcp://0.0.0.0:*")
    server = here.server()
    server.says("listening on tcp://127.0.0.1:")
    assert "without keys the server listens on this machine alone: tcp://127.0.0.1:*" in server.text
    client = here.client(0, endpoint="tcp://192.0.2.1:7780")
    assert client.wait() == 2
    assert "error: tcp://192.0.2.1:7780 is another machine: a connection to it needs keys" in client.text


def test_client_that_is_told_to_stop_leaves(site, link_settings):
    here = site(link_settings(**voters(rounds=6)))
    server = here.server()
    leaver = here.client(0, "--no-training")
    leaver.says("client 0: ready")
    leaver.send(signal.SIGINT)
    assert leaver.wait() == 130
    for number in range(3):
        here.client(number, "--no-training")
    assert server.wait() == 0, server.text
    assert_whole(here.run, 6)
