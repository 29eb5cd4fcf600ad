# SPDX-License-Identifier: GPL-3.0-or-later
"""Experiments from Python: the same bits as the command line and as bare torch, and parts that users bring."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import fl_app as oac
from fl_app.cli.app import app
from fl_app.runs.run_folder import RunError, RunFolder
from oac_blocks.dsp.waveform.schemes.registry import SCHEMES
from tests.fl_app.experiment.own_parts import Net, PlainMean, PointSet, load_points, points
from tests.fl_app.schemes.ternary import Ternary
from tests.support.runs import assert_same_run

pytestmark = pytest.mark.usefixtures("one_thread")
PARTS = "tests.fl_app.experiment.own_parts"


def experiment(**changes):
    values = {
        "model": Net,
        "data": load_points(),
        "clients": 4,
        "local": oac.LocalSGD(steps=2, lr=0.05, batch_size=16),
        "rho": 0.3,
        "air": "ideal",
        "seed": 5,
    }
    return oac.Experiment(**{**values, **changes})


def trained(rounds=4, **changes):
    run = experiment(**changes)
    list(run.rounds(rounds))
    return run


def assert_equal_state(one, other):
    for name in ("w", "g", "age", "selected"):
        np.testing.assert_array_equal(getattr(one.server, name), getattr(other.server, name), err_msg=name)


# ---------------------------------------------------------------------------------------------------------------
# The same bits


@pytest.mark.parametrize("config", ["quickstart", "fashion-onebit", "cifar10-small"])
def test_the_same_bits_as_the_command_line(config, tmp_path):
    changes = ["data.name=letters", "data.limit=240", "data.test_limit=100", "clients.n=3", "run.rounds=3"]
    changes += ["clients.H=1", "clients.batch_size=8", "model.args={}", "run.workers=0", "run.eval_every=2"]
    if config == "cifar10-small":
        changes += ["model.args={width=2}"]
    options = [f"--set={change}" for change in changes]
    command = CliRunner().invoke(app, ["train", config, *options, "--json", "--out", str(tmp_path / "shell")])
    assert command.exit_code == 0, command.stderr
    result = oac.Experiment.from_config(config, changes).train(folder=tmp_path / "python")
    told = json.loads(command.stdout)
    for timing in ("run", "seconds", "train_seconds", "air_cpu_seconds"):
        told.pop(timing)
        result.pop(timing)
    assert told == result
    assert_same_run(RunFolder.open(tmp_path / "shell"), RunFolder.open(tmp_path / "python"))


def test_one_client_over_an_ideal_air_is_a_bare_torch_loop():
    inputs, labels = points(60, 3)
    net = Net(classes=3)
    run = experiment(
        model=net,
        data=((inputs, labels), points(20, 4)),
        clients=1,
        local=oac.LocalSGD(steps=1, lr=0.1, batch_size=60),
        policy="dense",
    )
    list(run.rounds(15))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(15):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(torch.from_numpy(inputs)), torch.from_numpy(labels)).backward()
        optimiser.step()
    bare = torch.cat([parameter.detach().reshape(-1) for parameter in net.parameters()]).numpy()
    np.testing.assert_array_equal(run.server.w, bare)
    for ours, theirs in zip(run.model.parameters(), net.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_many_clients_with_one_step_are_fedsgd():
    parts = [np.arange(0, 90), np.arange(90, 150), np.arange(150, 240)]
    net, data = Net(classes=3), load_points()
    local = oac.LocalSGD(steps=1, lr=0.2, batch_size=1000)
    run = trained(6, model=net, data=data, partition=parts, clients=3, local=local, policy="dense")
    inputs, labels = (torch.from_numpy(array) for array in points(240, 1))
    for _ in range(6):
        means = []
        for part in parts:
            loss = nn.functional.cross_entropy(net(inputs[part]), labels[part])
            means.append(torch.autograd.grad(loss, list(net.parameters())))
        with torch.no_grad():
            for number, parameter in enumerate(net.parameters()):
                parameter -= 0.2 * torch.stack([mean[number] for mean in means]).mean(dim=0)
    bare = torch.cat([parameter.detach().reshape(-1) for parameter in net.parameters()]).numpy()
    np.testing.assert_allclose(run.server.w, bare, rtol=0, atol=1e-6)


@pytest.mark.parametrize("data", ["arrays", "torch"])
def test_any_number_of_workers_gives_the_same_bits(data):
    """Dropout and random transforms draw from torch's global generator, which every process seeds alike."""
    sets = {"arrays": load_points(), "torch": oac.Data(PointSet(240, 1, noise=0.3), PointSet(80, 2))}
    changes = {"data": sets[data], "model_args": {"dropout": 0.4}, "air": oac.Fading(snr_db=10.0)}
    here, there = trained(workers=0, **changes), trained(workers=2, **changes)
    assert_equal_state(here, there)
    assert [row.test_loss for row in here.history] == [row.test_loss for row in there.history]


def test_a_torch_dataset_trains_as_its_arrays_do():
    arrays = oac.Data(points(240, 1), points(80, 2))
    assert_equal_state(trained(data=arrays), trained(data=oac.Data(PointSet(240, 1), PointSet(80, 2))))


def test_rounds_in_pieces_are_the_rounds_in_one():
    whole, pieces = trained(6, air=oac.Waveform()), experiment(air=oac.Waveform())
    for row in pieces.rounds(5):
        if row.round == 1:
            break
    assert len(pieces.history) == 2
    pieces.train(6)
    assert_equal_state(whole, pieces)
    assert [row.round for row in pieces.history] == list(range(6))


# ---------------------------------------------------------------------------------------------------------------
# Folders


def test_a_folder_goes_on_where_it_stopped(tmp_path):
    undisturbed = trained(5)
    with pytest.raises(RunError, match="stopped after round 2"):
        experiment().train(5, tmp_path / "mine", should_stop=lambda: len(RunFolder(tmp_path / "mine").rows()) == 2)
    again = experiment()
    result = again.train(5, tmp_path / "mine")
    assert result["rounds"] == 5
    assert_equal_state(undisturbed, again)
    assert (tmp_path / "mine" / "report.html").is_file()
    finished = experiment()
    assert finished.train(5, tmp_path / "mine")["test_accuracy"] == result["test_accuracy"]
    assert_equal_state(again, finished)


def test_rounds_that_were_played_without_a_folder_are_kept_in_one(tmp_path):
    run = trained(3)
    assert run.train(3, tmp_path / "mine")["rounds"] == 3
    assert len(RunFolder.open(tmp_path / "mine").rows()) == 3
    again = experiment()
    again.train(4, tmp_path / "mine")
    assert_equal_state(again, trained(4))


def test_a_folder_of_another_experiment_is_left_alone(tmp_path):
    experiment().train(1, tmp_path / "mine")
    with pytest.raises(RunError, match=r"holds another experiment: its clients\.lr is 0\.05, not 0\.1"):
        experiment(local=oac.LocalSGD(steps=2, lr=0.1, batch_size=16), server=0.05).train(2, tmp_path / "mine")
    with pytest.raises(RunError, match="other data"):
        experiment(data=load_points(200)).train(2, tmp_path / "mine")


def test_parts_with_an_import_string_go_on_from_the_command_line(tmp_path):
    run = experiment(data=f"{PARTS}:load_points", policy=f"{PARTS}:FairKByHand", seed=9)
    run.train(2, tmp_path / "mine")
    config = RunFolder.open(tmp_path / "mine").settings()
    assert (config.model.name, config.selection.policy) == (f"{PARTS}:Net", f"{PARTS}:FairKByHand")
    command = CliRunner().invoke(app, ["resume", str(tmp_path / "mine"), "--rounds", "4", "--json"])
    assert command.exit_code == 0, command.stderr
    undisturbed = trained(4, data=f"{PARTS}:load_points", policy=f"{PARTS}:FairKByHand", seed=9)
    arrays = RunFolder.open(tmp_path / "mine").latest().arrays
    np.testing.assert_array_equal(arrays["w"], undisturbed.server.w)


def test_objects_without_a_name_are_named_as_such_by_the_command_line(tmp_path):
    experiment(model=lambda classes: Net(classes)).train(1, tmp_path / "mine")
    command = CliRunner().invoke(app, ["resume", str(tmp_path / "mine"), "--rounds", "2"])
    assert command.exit_code == 2
    assert "[data] name = 'python:points' was an object of a Python program" in command.stderr


# ---------------------------------------------------------------------------------------------------------------
# Parts that users bring


@pytest.mark.parametrize("workers", [0, 2])
def test_a_policy_by_import_string_selects_as_the_built_in_that_it_copies(workers):
    own, built_in = [], []
    for policy, seen in ((f"{PARTS}:FairKByHand", own), ("fair-k", built_in)):
        run = experiment(policy=policy, workers=workers, air=oac.Waveform())
        seen += [run.server.selected.copy() for _ in run.rounds(6)]
    for one, other in zip(own, built_in, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_policy_object_may_choose_any_number_of_entries():
    class Growing:
        def next(self, g, age):
            return np.arange(int(age.max()) + 3)

    assert [row.k for row in trained(policy=Growing()).history][1:] == [3, 4, 5]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (np.array([1, 1]), "not an index twice"),
        (np.array([0, 10**6]), "not indices from 0 to 1000000"),
        (np.array([]), "not float64 of shape"),
        (np.zeros(0, int), "not no index"),
        (np.array([0.5]), "not float64 of shape"),
    ],
)
def test_a_policy_that_errs_is_named(answer, fault):
    class Wrong:
        def next(self, g, age):
            return answer

    with pytest.raises(oac.OacError, match=f"the policy Wrong must return different indices.*{fault}"):
        trained(policy=Wrong())


def test_an_air_object_needs_uplink_alone_and_keeps_its_state(tmp_path):
    air = PlainMean()
    run = trained(air=air)
    assert air.rounds == 4
    assert_equal_state(run, trained(air=oac.Ideal()))
    experiment(air=PlainMean()).train(2, tmp_path / "mine")
    again = PlainMean()
    experiment(air=again).train(3, tmp_path / "mine")
    assert again.rounds == 3


def test_an_air_by_import_string_says_who_was_heard():
    run = trained(2, air=f"{PARTS}:first_client_alone", scheme="analog")
    assert [row.absent_clients for row in run.history] == [3, 3]
    assert run.history[-1].symbols == 1


def test_a_scheme_by_class_object_or_name_is_the_same():
    runs = [
        trained(2, air="fading", scheme=one) for one in (Ternary, Ternary(), "tests.fl_app.schemes.ternary:Ternary")
    ]
    SCHEMES.unregister("ternary")  # the object's name, in this process
    assert_equal_state(runs[0], runs[1])
    assert_equal_state(runs[0], runs[2])
    assert not np.array_equal(runs[0].server.w, trained(2, air="fading").server.w)


def test_a_loss_and_metrics_stand_for_a_task():
    hinge = oac.LocalSGD(
        steps=2,
        lr=0.05,
        loss=nn.functional.multi_margin_loss,
        metrics={"confidence": lambda outputs, _targets: outputs.softmax(1).max(1).values.mean()},
    )
    run = trained(local=hinge)
    last = run.history[-1]
    assert last.test_accuracy is None
    assert 1 / 3 <= last.test_figures["confidence"] <= 1
    assert run.history.columns[-1] == "confidence"
    named = trained(task=f"{PARTS}:Hinge", local=oac.LocalSGD(steps=2, lr=0.05))
    assert_equal_state(run, named)


def test_regression_learns_a_line():
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(200, 4))
    targets = inputs @ [1.0, -2.0, 0.5, 0.0] + 0.1 * rng.normal(size=200)
    run = experiment(
        model=lambda features, outputs: nn.Linear(features, outputs),
        data=((inputs[:150], targets[:150]), (inputs[150:], targets[150:])),
        local=oac.LocalSGD(steps=10, lr=0.05),
        policy="dense",
    )
    figures = list(run.rounds(10))[-1].test_figures
    # The noise has a standard deviation of 0.1, and the targets' variance is 5.25 + 0.01.
    assert figures["rmse"] == pytest.approx(0.1, rel=0.3)
    assert figures["r2"] == pytest.approx(1 - 0.01 / 5.26, abs=0.002)


def test_callbacks_are_told_of_rounds_and_tests():
    told = []

    class Watch(oac.Callback):
        def on_round(self, run, row):
            told.append(("round", row.round, run.server.age.max()))

        def on_evaluate(self, run, row):
            told.append(("evaluate", row.round, row.test_accuracy))

        def on_end(self, run, result):
            told.append(("end", result["rounds"], None))

    rows = []
    run = experiment(callbacks=[Watch(), lambda _run, row: rows.append(row.round)], eval_every=2)
    run.train(4)
    kinds = [(kind, number) for kind, number, _ in told]
    tested = [("round", 0), ("evaluate", 0), ("round", 1), ("evaluate", 1), ("round", 2), ("round", 3), ("evaluate", 3)]
    assert kinds == [*tested, ("end", 4)]
    assert rows == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="a callback must have on_round"):
        experiment(callbacks=[3])


def test_history_is_a_table(tmp_path):
    history = trained(3).history
    assert len(history) == 3
    assert history.column("round") == [0, 1, 2]
    assert history[1:].column("k") == [row.k for row in history][1:]
    history.to_csv(tmp_path / "history.csv")
    lines = (tmp_path / "history.csv").read_text().splitlines()
    assert lines[0].startswith("round,k,loss")
    assert len(lines) == 4
    with pytest.raises(ValueError, match="name must be one of round, k"):
        history.column("accuracy")


# ---------------------------------------------------------------------------------------------------------------
# Errors


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": "nowhere.nets:build"}, r"\[model\] name = 'nowhere\.nets:build': there is no module 'nowhere'"),
        ({"model": f"{PARTS}:Nett"}, r"\[model\] name = .*has no 'Nett'; did you mean 'Net'\?"),
        ({"model": f"{PARTS}:raises"}, r"raises\(\) raised RuntimeError: no network for 3 classes today"),
        ({"model": f"{PARTS}:nothing_to_train"}, "the model has no parameters that can be trained"),
        ({"model": f"{PARTS}:not_a_module"}, r"it must return a torch\.nn\.Module, not int"),
        ({"model": f"{PARTS}:wrong_shape"}, r"does not fit \[data\] name = 'points'.*inputs of shape \(12,\)"),
        ({"model": Net, "model_args": {"widht": 3}}, r"Net\(\) has no argument 'widht'; there are dropout, width"),
        ({"model": "cnnn"}, r"\[model\] name = 'cnnn': did you mean 'cnn'\?"),
        ({"model": 3}, "model must be a name, an import string or a function"),
        ({"data": "cnn"}, r"\[data\] name = 'cnn'"),
        ({"data": 3}, "data must be a name, an import string, a Data or a pair"),
        ({"partition": "even"}, "partition = 'even': there are iid, dirichlet, shards"),
        ({"partition": [[1]], "clients": 2}, "partition has 1 lists of indices, but there are 2 clients"),
        ({"policy": f"{PARTS}:Net"}, r"\[selection\] policy = .*needs a value for 'classes'"),
        ({"policy": object()}, "object has no method next"),
        ({"air": object()}, "air must be a name, settings such as"),
        ({"air": f"{PARTS}:first_client_alone"}, r"this air is for the scheme 'analog', but \[air\] scheme = 'onebit'"),
        ({"air": "wave"}, r"\[air\] name = 'wave': did you mean 'waveform'\?"),
        ({"rho": 0.1, "k": 5}, "rho = 0.1 and k = 5 say the same thing"),
        ({"clients": 0}, r"\[clients\] n = 0: must be at least 1"),
        ({"task": f"{PARTS}:Net"}, r"\[task\] name = .*needs a value for 'classes'"),
    ],
)
def test_an_error_is_one_sentence_that_names_the_key(changes, sentence):
    with pytest.raises(oac.OacError, match=sentence) as caught:
        trained(1, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("train", "sentence"),
    [
        ((np.zeros((3, 2)), np.zeros(4)), "training: 3 inputs do not fit 4 targets"),
        ((np.zeros((0, 2)), np.zeros(0)), "training: 0 inputs do not fit 0 targets"),
        ((np.full((3, 2), np.nan), np.zeros(3)), "training inputs have 6 values that are not finite"),
        ((np.array(["a", "b"]), np.zeros(2)), "training inputs must be numbers"),
        (5, "must be a torch Dataset with a length, or a pair"),
    ],
)
def test_data_that_do_not_fit_are_refused(train, sentence):
    with pytest.raises(oac.OacError, match=sentence):
        oac.Data(train, (np.zeros((3, 2)), np.zeros(3)))


def test_workers_cannot_receive_a_lambda_and_say_so():
    with pytest.raises(oac.OacError, match=r"worker processes cannot receive .*set workers = 0"):
        trained(1, model=lambda classes: Net(classes), workers=1)
