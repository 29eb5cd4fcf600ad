# SPDX-License-Identifier: GPL-3.0-or-later
"""What `oac-blocks loopback` says: measured error rate, closed form, standard error, and what to make of them."""

import dataclasses
import json
import os
import pty
import subprocess
import sys

import pytest

from oac_blocks.bench.flows.loopback_report import table, verdict
from oac_blocks.bench.flows.loopback_trial import Trial, expected_error_rate

TRIAL = Trial(
    rounds=50, payload_rounds=48, error_rate=0.321, standard_error=0.002, expected_error_rate=0.32,
    first_payload_round=2, states=("tracking",) * 5, offset_rms_samples=0.1, offset_max_samples=0.3, triggers_missed=0,
    slips=0, dropped=0, seconds=5.0, samples=10**7, decisions="ab" * 32,
)  # fmt: skip
COMMAND = "from oac_blocks.cli import app; app()"
SHORT = ["loopback", "--rounds", "6", "--votes", "960", "--snr", "10"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "32.10% of the votes are wrong, as the closed form says (32.00%)"),
        ({"error_rate": 0.48}, "48.00% of the votes are wrong, more than noise and fading explain (32.00%"),
        ({"error_rate": 0.30}, "fewer than noise and fading explain (32.00%"),
        ({"expected_error_rate": None}, "The closed form needs Rayleigh fading and noise."),
        ({"standard_error": float("nan")}, "32.00% by the closed form. Run more rounds to compare."),
        ({"payload_rounds": 0, "error_rate": float("nan")}, "No round carried votes"),
    ],
)
def test_the_verdict_says_whether_it_is_the_closed_form(changes, says):
    trial = dataclasses.replace(TRIAL, **changes)
    assert says in verdict(trial)
    assert table(trial).endswith(verdict(trial))


def test_the_table_has_measured_closed_form_and_standard_error():
    text = table(TRIAL)
    for part in ("0.3210", "0.0020", "0.3200", "+0.5 standard errors"):
        assert part in text


def test_a_terminal_sees_a_bar_and_json_stays_alone_on_standard_output():
    """Standard error is a terminal, as in a shell; standard output is a pipe."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", COMMAND, *SHORT, "--json"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, text=True, env=environment)
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # Linux says so when the other side has closed
            break
        if not part:
            break
        shown += part
    os.close(leader)
    result = json.loads(run.communicate(timeout=60)[0])
    assert run.returncode == 0
    assert result["rounds"] == 6
    assert result["expected_error_rate"] == pytest.approx(expected_error_rate(2, 10.0))
    assert {"error_rate", "standard_error", "standard_errors_off", "decisions"} <= result.keys()
    text = shown.decode()
    assert "6 rounds of 960 votes, clients: 2" in text
    assert "0/6" in text
    assert "6/6" in text
