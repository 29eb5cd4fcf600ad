# SPDX-License-Identifier: GPL-3.0-or-later
"""The example for Flower, as far as it goes without Flower; tests/fl_app/flower runs it with Flower."""

import ast
import tomllib

from tests.support.paths import ROOT

APP = ROOT / "examples" / "flower_app"


def test_the_components_that_flower_looks_for_are_there():
    project = tomllib.loads((APP / "pyproject.toml").read_text(encoding="utf-8"))
    components = project["tool"]["flwr"]["app"]["components"]
    assert set(components) == {"serverapp", "clientapp"}
    for place in components.values():
        module, _, name = place.partition(":")
        tree = ast.parse((APP / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
        defined = {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets}
        assert name in defined


def test_a_client_learns_without_the_air(monkeypatch):
    """Training of the app alone: a client reads far more letters rightly than chance does, 1 of 26."""
    monkeypatch.syspath_prepend(str(APP))
    from flower_letters import task

    model = task.make_model(seed=1)
    shares = [task.share(partition, 5) for partition in range(5)]
    assert sum(len(targets) for _, targets in shares) == task.TRAINING_SAMPLES
    losses = [task.train(model, *shares[0], steps=100, batch_size=20, lr=0.05, seed=seed) for seed in (1, 2)]
    assert losses[1] < losses[0]
    assert task.accuracy(model) > 0.2
