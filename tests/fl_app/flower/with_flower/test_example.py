# SPDX-License-Identifier: GPL-3.0-or-later
"""The app in examples/flower_app learns as `fl_app train` does, with clients in this process and by `flwr run .`."""

import json
import os
import shutil
import sys
import tomllib
import urllib.request
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower: pip install 'gr-oac[flower]'")

import fl_app as oac
from tests.fl_app.flower.with_flower.local_grid import LocalGrid
from tests.support.paths import ROOT
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

APP = ROOT / "examples" / "flower_app"
CONFIG = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
CLIENTS, SEEDS = 5, (1, 2, 3)
RUN_SECONDS = 600  # far more than sixty rounds take on a busy machine


@pytest.fixture
def letters(monkeypatch):
    """The modules of the app."""
    monkeypatch.syspath_prepend(str(APP))
    from flower_letters import client_app, server_app, task

    yield client_app.app, server_app.main, task
    for name in [name for name in sys.modules if name.startswith("flower_letters")]:
        del sys.modules[name]


def with_flower(letters, seed, folder, **more):
    """Return the accuracy after each round."""
    from flwr.app import Context, RecordDict

    client, main, _task = letters
    result = folder / f"{seed}.json"
    config = {**CONFIG, **more, "seed": seed, "result": str(result)}
    main(LocalGrid(client, CLIENTS, run_config=config), Context(1, 1, {}, RecordDict(), config))
    return json.loads(result.read_text())


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
        eval_every=CONFIG["rounds"],
    )
    return list(run.rounds(CONFIG["rounds"]))[-1].test_accuracy


# A client of the app sends its change, which is its learning rate times the sum of its gradients.
@pytest.mark.parametrize(("scheme", "lr", "lr_of_changes"), [("fsk-mv", 0.002, 0.002), ("analog", 0.05, 1.0)])
def test_accuracies_are_those_of_fl_app_train_within_the_scatter_of_seeds(letters, tmp_path, scheme, lr, lr_of_changes):
    ours = np.array([without_flower(letters[2], seed, scheme, lr) for seed in SEEDS])
    more = {"scheme": scheme, "server-lr": lr_of_changes}
    flower = np.array([with_flower(letters, seed, tmp_path, **more)[-1] for seed in SEEDS])
    print(f"\n{scheme}: fl_app train {ours.round(3)}, Flower {flower.round(3)}")  # pytest -s shows it
    # Both sides draw other batches. This is the standard error of the difference of two means of three, from the
    # scatter of the seeds. It is at least that of an accuracy on 1,000 test samples, and at most twice that, so that a
    # fault that scatters the results does not pass for chance.
    of_a_test = 0.5 / np.sqrt(1000)
    error = np.clip(np.sqrt((ours.var(ddof=1) + flower.var(ddof=1)) / len(SEEDS)), of_a_test, 2 * of_a_test)
    assert abs(ours.mean() - flower.mean()) < 3 * error
    assert min(ours.mean(), flower.mean()) > 4 / 26  # they have learned: four times what guessing gives


@pytest.fixture
def flwr(tmp_path, program):
    """Run `flwr` with a SuperLink of its own, which would start one itself and wait only 15 seconds for it."""
    address = f"127.0.0.1:{free_port()}"
    home, scripts = tmp_path / "home", Path(sys.executable).parent
    home.mkdir()
    connection = f'address = "{address}"\ninsecure = true\n'
    (home / "config.toml").write_text(f'[superlink]\ndefault = "local"\n\n[superlink.local]\n{connection}')
    variables = {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # Ray's own 15 lets clients starve on a busy machine
        "PYTHONPATH": str(ROOT),
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
    }
    run = partial(program, env={**os.environ, **variables})
    host, port = address.split(":")
    superlink = run([scripts / "flower-superlink", "--insecure", "--simulation", "--host", host, "--port", port])
    superlink.reaches(lambda: answers(f"http://{address}/health"), "the health of the SuperLink")
    return lambda *words, **options: run([scripts / "flwr", *words], **options)


def answers(url):
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_flwr_run_gives_the_accuracies_of_the_same_clients_in_one_process(letters, tmp_path, flwr):
    """`flwr run .` with Flower's own simulation: another engine, and the same bits."""
    rounds = 20
    app, result = tmp_path / "app", tmp_path / "result.json"
    shutil.copytree(APP, app, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--federation-config", f"num-supernodes={CLIENTS} client-resources-num-cpus=1"]
    run = flwr("run", ".", "--stream", *options, "--run-config", f'rounds={rounds} result="{result}"', cwd=app)
    assert run.wait(RUN_SECONDS) == 0, run.text
    assert result.exists(), run.text
    accuracies = json.loads(result.read_text())
    print(f"\nflwr run .: {accuracies[-1]:.3f} after {len(accuracies) - 1} rounds")
    assert accuracies == with_flower(letters, CONFIG["seed"], tmp_path, rounds=rounds)
    assert len(accuracies) == 1 + rounds
    assert accuracies[-1] > 2 * accuracies[0]
