# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in folders of their own."""

import pytest

from fl_app.runs.run_folder import RunFolder
from fl_app.runs.train import train


@pytest.fixture
def run(tmp_path):
    """Trains in a folder of its own, to the end or until `stop_after` rounds are done; returns the folder."""

    def start(settings, name="run", stop_after=None):
        folder = RunFolder(tmp_path / name)
        if not folder.config.exists():
            folder = RunFolder.create(settings, folder.path)
        done = []
        train(settings, folder, done.append, lambda: stop_after is not None and len(done) >= stop_after)
        return folder

    return start
