# SPDX-License-Identifier: GPL-3.0-or-later
"""The server as a plain HTTP client sees it: events, files, who may see them."""

import http.client
import json
import re
import signal
import socket
import time

import pytest

from fl_app.runs.dashboard import serve
from tests.support.cli import fl_app
from tests.support.polling import DEADLINE_SECONDS


@pytest.fixture
def runs_root(page_server):
    return page_server.root


def get(port, path, host="127.0.0.1", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
    connection.request("GET", path, headers={"Host": f"{host}:{port}", **headers})
    answer = connection.getresponse()
    return answer, answer.read()


class Events:
    """Read server-sent events one by one."""

    def __init__(self, port, *names, **headers):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
        self._connection.request("GET", "/api/events?" + "&".join(f"run={name}" for name in names), headers=headers)
        self.answer = self._connection.getresponse()

    def next(self, kind):
        """Return the data of the next event of this kind."""
        found = None
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            assert line or found is not None or self.answer.fp, "the stream has ended"
            if line.startswith("event: "):
                found = line.removeprefix("event: ")
            elif line.startswith("data: ") and found == kind:
                return json.loads(line.removeprefix("data: "))

    def close(self):
        self._connection.close()


def test_a_round_is_told_after_it_is_written(page_server, write_run):
    run = write_run("told")
    run.play(2)
    events = Events(page_server.port, "told")
    assert events.answer.headers["content-type"].startswith("text/event-stream")
    first = events.next("run")
    assert (first["id"], first["curves"]["x"], first["snapshot"]["round"]) == ("told", [1, 2], 1)
    waits = []
    for t in range(2, 5):
        began = time.monotonic()
        run.play(1)
        while (news := events.next("run")).get("curves") is None:
            pass
        waits.append(time.monotonic() - began)
        assert (news["curves"]["first"], news["curves"]["x"]) == (t, [t + 1])
    print(f"seconds from a round to its event: {waits}")
    events.close()


def test_a_run_that_appears_later_is_followed(page_server, write_run):
    events = Events(page_server.port, "later")
    events.next("runs")
    write_run("later").play(1)
    assert events.next("run")["curves"]["x"] == [1]
    events.close()


def test_no_address_of_another_machine_is_in_the_page(page_server):
    """Fonts, scripts and styles come from this server; the policy in the header makes browsers hold to it."""
    answer, page = get(page_server.port, "/")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    files = re.findall(r'(?:src|href)="([^"]+)"', page.decode())
    assert len(files) >= 4
    scripts = {name for name in files if name.startswith("static/")}
    while scripts:
        name = scripts.pop()
        answer, text = get(page_server.port, f"/{name}")
        assert answer.status == 200, name
        assert not re.search(rb"https?://(?!www\.w3\.org/2000/svg)", text), name
        files.append(name)
        scripts |= {f"static/{one}" for one in re.findall(r'from "\./([^"]+)"', text.decode())} - set(files)
    answer, text = get(page_server.port, "/plotly.min.js", **{"Accept-Encoding": "gzip"})
    assert (answer.status, answer.headers["content-encoding"], text[:2]) == (200, "gzip", b"\x1f\x8b")
    assert len(text) < 2_000_000


def test_on_loopback_a_name_of_elsewhere_is_refused(page_server):
    assert get(page_server.port, "/api/runs")[0].status == 200
    assert get(page_server.port, "/api/runs", host="localhost")[0].status == 200
    assert get(page_server.port, "/api/runs", host="evil.example")[0].status == 403
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/../../etc/passwd"):
        assert get(page_server.port, path)[0].status == 404


def test_off_loopback_every_request_needs_the_token(start_server):
    server = start_server("--host", "0.0.0.0")
    token = re.search(r"token=(\w+)", server.url)[1]
    assert len(token) >= 32
    for path in ("/", "/api/runs", "/api/events", "/plotly.min.js", "/static/main.js", "/?token=wrong"):
        assert get(server.port, path)[0].status == 401, path
    assert get(server.port, "/api/runs", Authorization=f"Bearer {token}")[0].status == 200
    answer, _ = get(server.port, f"/?token={token}")
    cookie = answer.headers["set-cookie"]
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert get(server.port, "/api/runs", Cookie=cookie.partition(";")[0])[0].status == 200
    assert token not in get(server.port, "/", Cookie=cookie.partition(";")[0])[1].decode()
    server.send(signal.SIGINT)
    assert server.wait() == 130


def test_an_open_stream_does_not_hold_up_the_end(start_server):
    server = start_server()
    events = Events(server.port)
    events.next("runs")
    server.send(signal.SIGTERM)
    assert events.next("end") == {}
    server.wait()


def test_ports_and_tokens_that_do_not_do_are_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port}" in fl_app("dashboard", tmp_path, "--port", port, code=1).stderr
    assert "8 or more letters and digits" in fl_app("dashboard", tmp_path, "--token", "short", code=2).stderr
    assert "give --web too" in fl_app("train", "--port", 8000, "--out", tmp_path / "run", code=2).stderr
    (tmp_path / "file").touch()
    assert "is a file" in fl_app("dashboard", tmp_path / "file", code=2).stderr


def test_without_the_extra_the_command_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "uvicorn" else object())
    error = fl_app("dashboard", tmp_path, code=2).stderr
    assert "uvicorn" in error
    assert "pip install 'gr-oac[web]'" in error
    assert "gr-oac[web]" in fl_app("train", "--web", "--out", tmp_path / "run", code=2).stderr


def test_the_default_port_gives_way_to_a_server_that_has_it(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(serve, "DEFAULT_PORT", taken.getsockname()[1])
        listening, address = serve.listen()
        listening.close()
        assert address.port != taken.getsockname()[1]
        assert address.url("a b") == f"http://127.0.0.1:{address.port}/#run=a%20b"
