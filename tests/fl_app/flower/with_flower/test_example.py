# SPDX-License-Identifier: GPL-3.0-or-later
"""The app in examples/flower_app learns as `fl_app train` does; here its clients are in this process."""

import json
import sys

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower: pip install 'gr-oac[flower]'")

import fl_app as oac
from tests.fl_app.flower.with_flower.local_grid import LocalGrid
from tests.support.paths import ROOT

APP = ROOT / "examples" / "flower_app"
CLIENTS, ROUNDS, SEEDS = 5, 60, (1, 2, 3)
CONFIG = {
    "rounds": ROUNDS,
    "air": "waveform",
    "policy": "fair-k",
    "rho": 0.2,
    "local-lr": 0.05,
    "local-steps": 5,
    "batch-size": 20,
}


@pytest.fixture
def letters(monkeypatch):
    """The modules of the app."""
    monkeypatch.syspath_prepend(str(APP))
    from flower_letters import client_app, server_app, task

    yield client_app.app, server_app.main, task
    for name in [name for name in sys.modules if name.startswith("flower_letters")]:
        del sys.modules[name]


def with_flower(letters, seed, folder, **more):
    from flwr.app import Context, RecordDict

    client, main, _task = letters
    result = folder / f"{seed}.json"
    config = {**CONFIG, **more, "seed": seed, "result": str(result)}
    main(LocalGrid(client, CLIENTS, run_config=config), Context(1, 1, {}, RecordDict(), config))
    return json.loads(result.read_text())[-1]


def without_flower(task, seed, scheme, server_lr):
    (train, labels), test = task.data(train=True), task.data(train=False)
    run = oac.Experiment(
        model=lambda: task.make_model(seed),
        data=oac.Data((train.numpy(), labels.numpy()), tuple(part.numpy() for part in test)),
        partition=[np.arange(len(labels))[client::CLIENTS] for client in range(CLIENTS)],
        clients=CLIENTS,
        local=oac.LocalSGD(steps=CONFIG["local-steps"], lr=CONFIG["local-lr"], batch_size=CONFIG["batch-size"]),
        server=server_lr,
        policy=CONFIG["policy"],
        rho=CONFIG["rho"],
        air=CONFIG["air"],
        scheme=scheme,
        seed=seed,
        eval_every=ROUNDS,
    )
    return list(run.rounds(ROUNDS))[-1].test_accuracy


# A client of the app sends its change, which is its learning rate times the sum of its gradients.
@pytest.mark.parametrize(("scheme", "lr", "lr_of_changes"), [("fsk-mv", 0.002, 0.002), ("analog", 0.05, 1.0)])
def test_accuracies_are_those_of_fl_app_train_within_the_scatter_of_seeds(
    letters, tmp_path, record_property, scheme, lr, lr_of_changes
):
    ours = np.array([without_flower(letters[2], seed, scheme, lr) for seed in SEEDS])
    more = {"scheme": scheme, "server-lr": lr_of_changes}
    flower = np.array([with_flower(letters, seed, tmp_path, **more) for seed in SEEDS])
    record_property("accuracies", f"fl_app {ours}, Flower {flower}")
    # Both sides draw other batches. This is the standard error of the difference of two means of three; the floor is
    # that of an accuracy on 1,000 test samples.
    error = max(np.sqrt((ours.var(ddof=1) + flower.var(ddof=1)) / len(SEEDS)), 0.5 / np.sqrt(1000))
    assert abs(ours.mean() - flower.mean()) < 3 * error
    assert min(ours.mean(), flower.mean()) > 4 / 26  # they have learned: four times what guessing gives
