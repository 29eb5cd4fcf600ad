# SPDX-License-Identifier: GPL-3.0-or-later
"""The scores of a finished model: confusion matrix and clients, against closed forms and a count sample by sample."""

import csv
import json

import matplotlib.image
import numpy as np
import pytest
import torch

import fl_app as oac
from fl_app.core.models import get_parameters
from fl_app.runs.report import write_report
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.score_figures import clients_figure, confusion_figure
from fl_app.runs.scores import ClientScore, ModelScores, kept_scores, score_model
from tests.support.cli import fl_app
from tests.support.html import assert_stands_alone

NAMES = ("ant", "bee", "cat & co", "dog")
# Test samples of each class, and the class that the model answers for every sample of a class.
PER_CLASS, ANSWERS = (30, 20, 40, 10), (0, 2, 2, 1)


class Table(torch.nn.Linear):
    """Answers ANSWERS for one-hot inputs."""

    def __init__(self):
        super().__init__(4, 4, bias=False)
        with torch.no_grad():
            self.weight.copy_(torch.eye(4)[list(ANSWERS)].T)


def one_hot(labels):
    return np.eye(4, dtype=np.float32)[labels], np.array(labels)


def table_experiment(**more):
    """Two clients: 0 has three samples of class 0 and one of class 1, client 1 the classes 2 and 3 alike."""
    train = one_hot([0, 0, 0, 1] + [2, 3] * 60)
    test = one_hot(np.repeat(np.arange(4), PER_CLASS))
    parts = [np.arange(4), np.arange(4, 124)]
    data = oac.Data(train, test, class_names=NAMES)
    return oac.Experiment(Table, data, partition=parts, clients=2, k=4, air="ideal", **more)


def scores_of(experiment):
    run = experiment.run
    return score_model(run.prepared, get_parameters(run.model), run.training.buffers, 7)


def test_known_answers_give_a_known_confusion_matrix_and_known_rates():
    scores = scores_of(table_experiment())
    expected = np.zeros((4, 4), int)
    expected[range(4), ANSWERS] = PER_CLASS
    assert scores.confusion.tolist() == expected.tolist()
    assert (scores.rounds, scores.class_names, scores.main_figure) == (7, NAMES, "accuracy")
    assert scores.accuracy == (30 + 40) / 100
    first, second = scores.clients
    # Classes 0 and 2 are always right, 1 and 3 never: 3 of 4 samples here, every other one there.
    assert (first.samples, first.scored, first.figures, first.on_its_classes) == (4, 4, {"accuracy": 0.75}, 0.75)
    # A test set of 100 samples for two clients: 50 each, evenly spread over the 120, which take turns.
    assert (second.samples, second.scored, second.on_its_classes) == (120, 50, 0.5)
    at = np.arange(50) * 120 // 50
    assert second.figures == {"accuracy": float(np.mean(at % 2 == 0))}


def test_classes_that_the_test_set_lacks_leave_the_rate_open():
    data = oac.Data(one_hot([0, 1, 2, 3]), one_hot([0, 0, 1]))
    parts = [np.array([0, 1]), np.array([2, 3])]
    scores = scores_of(oac.Experiment(Table, data, partition=parts, clients=2, k=4, air="ideal"))
    assert scores.confusion.tolist() == [[2, 0, 0, 0], [0, 0, 1, 0], [0] * 4, [0] * 4]
    assert [one.on_its_classes for one in scores.clients] == [0.5, None]
    assert scores.clients_csv().splitlines()[2].endswith(",")


@pytest.fixture(scope="module")
def letters_run(tmp_path_factory):
    """A run of letters, uneven, with its workers' tests of the model."""
    changes = {"run": {"rounds": 3, "workers": 2}, "data": {"limit": 400, "test_limit": 230, "partition": "dirichlet"}}
    changes |= {"clients": {"n": 3, "H": 2, "batch_size": 8, "lr": 0.1}, "air": {"name": "ideal", "mode": "analog"}}
    experiment = oac.Experiment.from_settings(oac.load_settings("quickstart").with_values(**changes))
    folder = tmp_path_factory.mktemp("letters") / "run"
    result = experiment.train(folder=folder)
    return experiment, RunFolder(folder), result


def test_a_trained_model_is_counted_sample_by_sample(letters_run):
    experiment, folder, result = letters_run
    scores, prepared = kept_scores(folder), experiment.run.prepared
    model = experiment.model.eval()
    expected = np.zeros((26, 26), int)
    inputs, targets = prepared.test.batch(np.arange(230), np.random.default_rng(0))
    with torch.no_grad():
        for one, label in zip(inputs, targets, strict=True):
            expected[int(label), int(model(one[None]).argmax())] += 1
        own = prepared.data_of(2)
        inputs, targets = own.batch(np.arange(len(own)), np.random.default_rng(0))
        chosen = np.arange(scores.clients[2].scored) * len(own) // scores.clients[2].scored
        outputs = model(inputs[chosen])
    assert scores.confusion.tolist() == expected.tolist()
    assert scores.accuracy == result["test_accuracy"]
    last = scores.clients[2]
    assert (last.samples, last.scored) == (len(own), min(len(own), 230 // 3))
    assert last.figures["accuracy"] == int((outputs.argmax(1) == targets[chosen]).sum()) / last.scored
    assert last.loss == pytest.approx(float(torch.nn.functional.cross_entropy(outputs, targets[chosen])), rel=1e-5)
    recall = np.diag(expected) / expected.sum(axis=1)
    for client in scores.clients:
        shares = prepared.partition().counts[client.client] / client.samples
        assert client.on_its_classes == pytest.approx(float(recall @ shares))


def test_the_files_have_the_same_numbers(letters_run):
    _, folder, _ = letters_run
    scores = kept_scores(folder)
    (corner, *names), *rows = csv.reader((folder.path / "confusion.csv").open())
    assert (corner, names) == ("class by answer", list(scores.class_names))
    assert [row[0] for row in rows] == names
    assert [[int(number) for number in row[1:]] for row in rows] == scores.confusion.tolist()
    for line, one in zip(csv.DictReader((folder.path / "per_client.csv").open()), scores.clients, strict=True):
        assert (int(line["client"]), int(line["samples"]), int(line["scored"])) == (
            one.client,
            one.samples,
            one.scored,
        )
        assert float(line["accuracy"]) == one.figures["accuracy"]
        assert float(line["test_accuracy_of_its_classes"]) == one.on_its_classes
    for name in ("confusion", "per_client"):
        assert matplotlib.image.imread(folder.path / f"{name}.png")[..., :3].std() > 0.02


def test_report_computes_missing_scores_from_the_checkpoint(letters_run):
    _, folder, _ = letters_run
    names = ("scores.json", "confusion.csv", "per_client.csv")
    before = {name: (folder.path / name).read_bytes() for name in names}
    for name in names:
        (folder.path / name).unlink()
    write_report(folder)
    assert "Confusion matrix" not in folder.report.read_text()
    fl_app("report", folder.path)
    assert {name: (folder.path / name).read_bytes() for name in names} == before
    assert "Confusion matrix of the model after 3 rounds: 230 test samples" in folder.report.read_text()


def test_a_run_that_was_killed_while_it_was_scored_goes_on_there(tmp_path):
    table_experiment().train(1, tmp_path / "run")
    names = ("scores.json", "result.json")
    before = {name: (tmp_path / "run" / name).read_bytes() for name in names}
    for name in names:
        (tmp_path / "run" / name).unlink()
    table_experiment().train(1, tmp_path / "run")  # a program of its own, as after a restart
    assert {name: (tmp_path / "run" / name).read_bytes() for name in names} == before


def test_report_says_why_there_are_no_scores(tmp_path):
    table_experiment().train(1, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    assert kept_scores(folder).class_names == NAMES
    (folder.path / "scores.json").unlink()
    fl_app("report", folder.path)
    page = assert_stands_alone(folder.report.read_text())
    assert "No confusion matrix and no accuracy of the clients: " in page.words
    assert "run that program again" in page.words


def test_scores_of_an_earlier_round_do_not_count(tmp_path):
    experiment = table_experiment()
    experiment.train(1, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    old = (folder.path / "scores.json").read_text()
    experiment.train(2, tmp_path / "run")
    assert kept_scores(folder).rounds == 2
    (folder.path / "scores.json").write_text(old[:20])  # damaged
    assert kept_scores(folder) is None
    (folder.path / "scores.json").write_text(old)
    assert kept_scores(folder) is None


def test_a_regression_has_its_figures_for_each_client_and_no_confusion_matrix():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 2)).astype(np.float32)
    y = x @ np.array([1.0, -2.0], np.float32)
    data = oac.Data((x, y), (x[:20], y[:20]))
    parts = [np.arange(40), np.arange(40, 60)]

    class Half(torch.nn.Linear):
        def __init__(self):
            super().__init__(2, 1, bias=False)
            with torch.no_grad():
                self.weight.copy_(torch.tensor([[0.5, -1.0]]))

    scores = scores_of(oac.Experiment(Half, data, partition=parts, clients=2, k=1, air="ideal"))
    assert scores.confusion is None
    assert scores.accuracy is None
    for one, part in zip(scores.clients, parts, strict=True):
        # The model gives half of every target.
        assert one.loss == pytest.approx(float(np.mean((y[part] / 2) ** 2)), rel=1e-5)
        explained = 1 - np.mean((y[part] / 2) ** 2) / np.var(y[part])
        assert one.figures["r2"] == pytest.approx(float(explained), rel=1e-4)
        assert one.on_its_classes is None
    again = ModelScores.from_json(scores.json_text())
    assert (again.clients, again.confusion, again.main_figure) == (scores.clients, None, "r2")


def test_scoring_leaves_model_and_generator_as_they_are():
    experiment = table_experiment()
    experiment.train(1)
    before, state, threads = experiment.server.w.copy(), torch.get_rng_state(), torch.get_num_threads()
    scores_of(experiment)
    np.testing.assert_array_equal(experiment.server.w, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("classes", [2, 26, 100])
@pytest.mark.parametrize("clients", [1, 300])
def test_figures_show_something_for_few_and_many(classes, clients):
    confusion = np.eye(classes, dtype=int) * 5
    one = {"samples": 9, "scored": 9, "loss": 1.0, "on_its_classes": None}
    own = [ClientScore(client, figures={"accuracy": client / 300}, **one) for client in range(clients)]
    scores = ModelScores(1, confusion, tuple(f"class {number}" for number in range(classes)), "accuracy", own)
    for figure in (confusion_figure(scores), clients_figure(scores)):
        figure.canvas.draw()
        assert np.asarray(figure.canvas.buffer_rgba())[..., :3].std() > 4


def test_figures_that_are_not_finite_are_left_out(tmp_path):
    one = {"samples": 9, "scored": 9, "loss": None, "on_its_classes": None}
    scores = ModelScores(1, None, (), "r2", [ClientScore(0, figures={"r2": None}, **one)])
    assert json.loads(scores.json_text())["clients"][0]["figures"] == {"r2": None}
    clients_figure(scores).savefig(tmp_path / "empty.png")


def test_a_partition_of_very_many_bars_is_shown_as_a_picture_and_drawn_on_request(letters_run, monkeypatch):
    _, folder, _ = letters_run
    monkeypatch.setattr("fl_app.runs.report.MOST_BARS", 3 * 26 - 1)
    shown = assert_stands_alone(write_report(folder).read_text())
    assert (shown.counts["svg"], shown.counts["img"]) == (5, 1)
    assert not (folder.path / "partition.pdf").exists()
    write_report(folder, ("png", "pdf"))
    assert (folder.path / "partition.pdf").read_bytes().startswith(b"%PDF")
    folder.partition.unlink()  # a run of an older version
    assert assert_stands_alone(write_report(folder).read_text()).counts["img"] == 1
