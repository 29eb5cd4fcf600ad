# SPDX-License-Identifier: GPL-3.0-or-later
"""Training over the link, with real processes: the same bits as `fl_app train`, whatever the server goes through."""

import signal

import pytest
import torch
import zmq

from fl_app.link.router import LinkError, RouterLink
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.train import train
from tests.fl_app.link.processes import figures
from tests.support.runs import assert_every_round_once, assert_same_run


@pytest.fixture
def trained_here(tmp_path):
    """The same run by `fl_app train`."""
    before = torch.get_num_threads()

    def run(settings):
        folder = RunFolder.create(settings, tmp_path / "here")
        train(settings, folder, lambda _row: None, lambda: False)
        return folder

    yield run
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("air", "mode"),
    [
        ("waveform", "onebit"),
        ("fading", "analog"),
        ("waveform", "energy"),
        pytest.param("ideal", "onebit", marks=pytest.mark.slow),
    ],
)
def test_same_bits_as_without_the_link(site, link_settings, trained_here, air, mode):
    settings = link_settings(air={"name": air, "mode": mode})
    here = site(settings)
    server = here.server()
    clients = [here.client(number) for number in range(3)]
    assert server.wait() == 0, server.text
    assert [client.wait() for client in clients] == [0, 0, 0]
    assert all("the run is finished" in client.text for client in clients)
    assert_same_run(here.run, trained_here(settings), figures)
    d, k = 109_402, 21_880
    sizes = [row.downlink_bytes for row in here.run.rows()]
    if mode == "onebit":
        votes = k // 8  # three clients that all vote never tie: no zeros
        assert -(-d // 8) + votes <= sizes[3] < -(-d // 8) + votes + 300
        assert 4 * d / sizes[3] > 25
    else:
        assert -(-d // 8) + 4 * k <= sizes[3] < -(-d // 8) + 4 * k + 300
    assert sizes[0] > 4 * d  # at the join, the whole model
    assert "down to each client" in server.text


def test_same_bits_with_some_clients_a_falling_rate_and_adam(site, link_settings, trained_here):
    settings = link_settings(
        clients={"n": 4, "fraction": 0.5, "lr_schedule": "step", "lr_factor": 0.5, "momentum": 0.5},
        server={"optimizer": "adam", "lr_schedule": "cosine", "lr_warmup": 1},
        link={"min_clients": 3},  # more than take part: the server then waits for all that do
    )
    here = site(settings)
    server = here.server()
    clients = [here.client(number) for number in range(4)]
    assert server.wait() == 0, server.text
    assert [client.wait() for client in clients] == [0] * 4
    assert_same_run(here.run, trained_here(settings), figures)
    d = 109_402
    sizes = [row.downlink_bytes for row in here.run.rows()]
    assert sizes[0] > 12 * d  # at the join, the whole model and what Adam remembers
    assert max(sizes[1:]) < d  # and never again, though a client takes part in every second round only


@pytest.mark.parametrize("mode", ["onebit", "analog"])
def test_clients_keep_what_they_did_not_send_and_a_resumed_server_tells_them(site, link_settings, trained_here, mode):
    """The server is killed, and its clients too: what they had kept is in the checkpoint."""
    settings = link_settings(
        run={"rounds": 6, "checkpoint_every": 2, "eval_every": 100},
        clients={"n": 2, "error_feedback": True},
        air={"name": "fading", "mode": mode},
    )
    here = site(settings)
    server, clients = here.server(), [here.client(number) for number in range(2)]
    here.wait_for_rounds(3, server)
    server.kill()
    clients[1].kill()  # client 0 stays, and may be ahead of the checkpoint
    again = here.server()
    clients[1] = here.client(1)
    assert again.wait() == 0, again.text
    assert [client.wait() for client in clients] == [0, 0]
    assert_same_run(here.run, trained_here(settings), figures)


@pytest.mark.slow
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_batch_norm_over_the_link(site, link_settings, trained_here, fraction):
    """All clients measure statistics, also those that did not take part in the round."""
    settings = link_settings(
        run={"rounds": 2, "eval_every": 1},
        model={"name": "resnet18", "width": 1},
        data={"limit": 30, "test_limit": 10},
        clients={"n": 2, "H": 1, "batch_size": 4, "fraction": fraction},
    )
    here = site(settings)
    server = here.server()
    for number in range(2):
        here.client(number)
    assert server.wait() == 0, server.text
    assert_same_run(here.run, trained_here(settings), figures)


def test_server_killed_and_resumed_ends_with_the_same_model(site, link_settings, trained_here):
    settings = link_settings(run={"rounds": 12, "checkpoint_every": 2, "eval_every": 100}, clients={"H": 4})
    here = site(settings)
    server = here.server()
    clients = [here.client(number) for number in range(3)]
    here.wait_for_rounds(3, server)
    server.kill()
    done = here.run.latest().rounds_done
    assert 2 <= done < 12
    again = here.server()
    assert again.wait() == 0, again.text
    assert f"going on after round {done}" in again.text
    assert [client.wait() for client in clients] == [0, 0, 0]
    assert_every_round_once(here.run, 12)
    assert_same_run(here.run, trained_here(settings), figures)


@pytest.mark.slow
def test_server_stopped_by_a_signal_finishes_the_round_and_clients_wait_for_it(site, link_settings, trained_here):
    settings = link_settings(run={"rounds": 8, "checkpoint_every": 100}, clients={"H": 4})
    here = site(settings)
    server = here.server()
    clients = [here.client(number) for number in range(3)]
    here.wait_for_rounds(2, server)
    server.send(signal.SIGINT)
    assert server.wait() == 130
    assert f"To go on: fl_app server --bind {here.endpoint} --resume {here.run.path}" in server.text
    done = len(here.run.rows())
    assert here.run.latest().rounds_done == done < 8
    assert all(client.is_running for client in clients)
    again = here.server()
    assert again.wait() == 0, again.text
    assert [client.wait() for client in clients] == [0, 0, 0]
    assert_same_run(here.run, trained_here(settings), figures)


def test_more_clients_needed_than_there_are(site, link_settings):
    here = site(link_settings(link={"min_clients": 4}))
    server = here.server()
    assert server.wait() == 2
    assert "error: [link] min_clients = 4: there are only 3 clients" in server.text


def test_address_that_is_taken(tmp_path):
    context = zmq.Context()
    other = context.socket(zmq.ROUTER)
    other.bind("tcp://127.0.0.1:*")
    endpoint = other.get_string(zmq.LAST_ENDPOINT)
    with pytest.raises(LinkError, match=f"cannot listen on {endpoint}: Address already in use"):
        RouterLink(endpoint, None, lambda _text: None)
    context.destroy(linger=0)


def test_address_that_was_tried_is_free_at_once():
    """A server tries its address first and opens it when its data is loaded, which may be a moment later."""
    for _ in range(20):
        link = RouterLink("tcp://127.0.0.1:*", None, lambda _text: None)
        context = zmq.Context()
        try:
            context.socket(zmq.ROUTER).bind(link.endpoint)
        finally:
            context.destroy(linger=0)
            link.close()


def test_server_removes_the_file_of_its_unix_socket_and_no_other(tmp_path):
    file = tmp_path / "server"
    link = RouterLink(f"ipc://{file}", None, lambda _text: None)
    assert file.is_socket()
    link.close()
    assert not file.exists()
    first = RouterLink(f"ipc://{file}", None, lambda _text: None)
    second = RouterLink(f"ipc://{file}", None, lambda _text: None)  # Unix sockets can be taken over
    first.close()
    assert file.is_socket()
    second.close()
    assert not list(tmp_path.iterdir())
