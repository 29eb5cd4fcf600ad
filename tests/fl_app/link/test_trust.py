# SPDX-License-Identifier: GPL-3.0-or-later
"""A server's config must not decide what a client's machine imports."""

import sys

import numpy as np
import pytest

from fl_app import Experiment
from fl_app.config import ConfigError, check
from fl_app.link.downlink import scheme_of
from fl_app.link.trust import check_trust, import_strings_of
from fl_app.link.wire import Message, WireError

IMPORTED = [("model", "name"), ("data", "name"), ("task", "name"), ("air", "mode"), ("air", "scheme")]


@pytest.mark.parametrize(("section", "key"), IMPORTED)
def test_an_import_string_is_refused_unless_it_was_named_here(section, key):
    tree = {section: {key: "mine.parts:build"}}
    with pytest.raises(ConfigError, match=rf"\[{section}\] {key} = 'mine.parts:build'.*--trust mine\.parts"):
        check_trust(tree, ["other", "mine.part", "mine.parts:buil"])
    for trusted in ("mine", "mine.parts", "mine.parts:build"):
        check_trust(tree, [trusted])


def test_names_and_the_parts_of_the_server_need_no_trust():
    check_trust({"model": {"name": "cnn"}, "selection": {"policy": "mine:Policy"}, "air": {"name": "mine:Air"}}, [])
    check_trust({"model": "no section", "data": {"name": 3}}, [])


def test_a_config_of_ones_own_is_trusted():
    settings = check({"model": {"name": "mine.nets:build"}, "selection": {"policy": "mine:Policy"}}, "own")
    assert import_strings_of(settings) == ["mine.nets:build"]


def test_a_message_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "harm_by_import.py").write_text("class Scheme: pass")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("harm_by_import:Scheme", "os:system"):
        with pytest.raises(WireError, match="scheme must be one of onebit, analog"):
            scheme_of(Message("model", -1, 0, 1, {"mode": name}))
    assert "harm_by_import" not in sys.modules


PARTS = "tests.fl_app.experiment.own_parts"
OWN = {"model": {"name": f"{PARTS}:Net"}, "data": {"name": f"{PARTS}:load_points", "limit": 0, "test_limit": 0}}


def test_a_client_refuses_a_server_that_names_code(site, link_settings):
    here = site(link_settings(**OWN))
    here.server()
    client = here.client(0)
    assert client.wait() == 2, client.text
    assert f"--trust {PARTS}" in client.text


def test_parts_by_import_string_train_over_the_link_as_the_built_in_policy_does(site, link_settings, one_thread):
    settings = link_settings(**OWN, selection={"policy": f"{PARTS}:FairKByHand"})
    here = site(settings)
    server = here.server()
    clients = [here.client(number, "--trust", PARTS) for number in range(3)]
    assert server.wait() == 0, server.text
    assert [client.wait() for client in clients] == [0, 0, 0], clients[0].text
    built_in = Experiment.from_settings(link_settings(**OWN))
    built_in.train()
    arrays = here.run.latest().arrays
    np.testing.assert_array_equal(arrays["selected"], built_in.server.selected)
    np.testing.assert_array_equal(arrays["w"], built_in.server.w)
