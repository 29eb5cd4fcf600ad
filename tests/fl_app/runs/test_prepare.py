# SPDX-License-Identifier: GPL-3.0-or-later
"""Each role builds what it needs: a client has neither air nor server nor test set."""

import dataclasses
import json
import subprocess
import sys

import numpy as np

from fl_app.runs.prepare import prepare, prepare_client
from tests.support.paths import ROOT

WITHOUT_GNU_RADIO = """
import json, sys
sys.modules["gnuradio"] = sys.modules["pmt"] = None  # an import of either fails
from fl_app.config import check
from fl_app.runs.prepare import prepare_client
prepared = prepare_client(check(json.loads(sys.argv[1]), "test"), 1)
print(prepared.d, len(prepared.samples))
"""


def test_a_client_has_the_samples_and_the_fingerprint_of_its_server(tiny):
    server, client = prepare(tiny()), prepare_client(tiny(), 1)
    assert (client.d, client.fingerprint) == (server.server.d, server.fingerprint)
    described = {**vars(client.local), "model": vars(client.local.model), "task": type(client.local.task)}
    assert described == {**vars(server.local), "model": vars(server.local.model), "task": type(server.local.task)}
    np.testing.assert_array_equal(client.samples.inputs, server.data_of(1).inputs)
    np.testing.assert_array_equal(client.samples.targets, server.data_of(1).targets)
    assert {field.name for field in dataclasses.fields(client)} == {"local", "samples", "d", "fingerprint"}


def test_a_client_of_a_run_through_flowgraphs_needs_no_gnu_radio(tiny):
    settings = tiny(air={"name": "gnuradio"}).model_dump(mode="json", exclude_none=True)
    command = [sys.executable, "-c", WITHOUT_GNU_RADIO, json.dumps(settings)]
    told = subprocess.check_output(command, cwd=ROOT, text=True).split()
    assert int(told[0]) == prepare_client(tiny(), 1).d
