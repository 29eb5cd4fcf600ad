# SPDX-License-Identifier: GPL-3.0-or-later
"""A client that finds no server says what may be wrong."""

import pytest

from fl_app.link import client as client_module
from fl_app.link.caller import Caller
from fl_app.link.client import Client, ClientError
from fl_app.link.trainer import RandomVoter


def test_client_without_a_server_says_where_it_looks_and_what_to_check(tmp_path, monkeypatch):
    monkeypatch.setattr(client_module, "LONELY_SECONDS", 0.05)  # instead of 15
    told, endpoint = [], f"ipc://{tmp_path}/nobody"
    client = Client(endpoint, Caller(0), RandomVoter(0), tell=told.append)
    try:
        with pytest.raises(ClientError, match=f"the server at {endpoint} was silent for 1 s"):
            client.run(patience_seconds=1.0)
    finally:
        client.close()
    hint = " ".join(told)
    assert f"no server answers at {endpoint} yet: is `fl_app server` running there?" in hint
    assert "--keys" in hint
