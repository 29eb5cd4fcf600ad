# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients for tests with Flower: they train as those of `fl_app train` do, and return models as Flower's do."""

from dataclasses import replace
from functools import cache

import numpy as np

from fl_app.config import Settings, load_settings
from fl_app.core.client import Broadcast, ClientGroup
from fl_app.runs.prepare import prepare_client

N_CLIENTS, ROUNDS = 3, 4


def small_settings(air: str = "waveform", scheme: str = "onebit", seed: int = 1) -> Settings:
    """A run of three clients on little data; the server's learning rate suits the scheme."""
    changes = [
        f"run.seed={seed}",
        f"run.rounds={ROUNDS}",
        "run.workers=0",
        f"clients.n={N_CLIENTS}",
        "clients.H=2",
        "clients.batch_size=10",
        "data.name=letters",
        "data.limit=300",
        "data.test_limit=200",
        "model.name=mlp",
        "model.args={hidden = 6}",
        f"server.lr={0.001 if scheme == 'onebit' else 0.01}",
        f"air.name={air}",
        f"air.mode={scheme}",
    ]
    return load_settings("quickstart", changes)


@cache
def _group(config: str, client: int) -> ClientGroup:
    settings = Settings.model_validate_json(config)
    prepared = prepare_client(settings, client)
    # Amplitudes of all entries are the gradients themselves.
    return ClientGroup(replace(prepared.local, scheme="analog"), {client: prepared.samples}, {})


def trained(settings: Settings, client: int, t: int, w: np.ndarray) -> np.ndarray:
    """Return the model of a client after round t: w minus the sum of its gradients, in double precision."""
    group = _group(settings.model_dump_json(), client)
    (report,) = group.train(Broadcast(t, w, np.arange(w.size)))
    return w.astype(np.float64) - report.payload
