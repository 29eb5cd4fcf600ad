# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions and dates that reports state."""

import json
import platform
import shutil
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import torch

from fl_app.runs.versions import dates_text, session, versions, versions_text


def test_versions_are_those_of_the_packages_that_compute():
    found = versions()
    assert (found["Python"], found["torch"], found["numpy"]) == (
        platform.python_version(),
        torch.__version__,
        np.__version__,
    )


def test_gnu_radio_says_its_own_version():
    gnu_radio = pytest.importorskip("gnuradio.gr", reason="needs GNU Radio")
    if shutil.which("gnuradio-config-info") is None:
        pytest.skip("needs the program gnuradio-config-info")
    assert versions()["GNU Radio"] == gnu_radio.version()


def test_every_session_of_a_run_is_noted(run, tiny):
    folder = run(tiny(), stop_after=2)
    assert len(folder.read_sessions()) == 1
    run(tiny())
    first, second = folder.read_sessions()
    assert first["versions"] == second["versions"] == dict(versions())
    began = [datetime.fromisoformat(one["date"]) for one in (first, second)]
    now = datetime.now(UTC)
    assert now - timedelta(hours=1) < began[0] <= began[1] <= now
    folder.sessions.write_text("[{")  # half a file, of a version that was killed
    assert folder.read_sessions() == []


def test_a_version_that_changed_is_shown_with_both_values():
    one = {"date": "2026-01-31T14:25:30+00:00", "versions": {"torch": "2.1", "numpy": "1.26"}}
    other = {"date": "2026-02-01T09:00:00+00:00", "versions": {"torch": "2.2", "numpy": "1.26", "GNU Radio": "3.10"}}
    assert versions_text([one, other]) == "torch 2.1 and 2.2, numpy 1.26, GNU Radio none and 3.10"
    assert dates_text([one]) == "2026-01-31 14:25 UTC"
    assert dates_text([other, one]) == "2026-01-31 14:25 UTC to 2026-02-01 09:00 UTC"
    assert json.loads(json.dumps(session())) == session() | {"date": session()["date"]}
