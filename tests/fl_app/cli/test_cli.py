# SPDX-License-Identifier: GPL-3.0-or-later
"""The command fl_app as its users and their scripts meet it."""

import csv
import json
import re
import socket
import tomllib
from datetime import UTC, datetime, timedelta

import matplotlib.image
import pytest

from fl_app.cli.app import app
from fl_app.cli.theory_command import theory
from fl_app.config import load_settings
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.versions import versions
from tests.support.cli import fl_app
from tests.support.html import assert_stands_alone
from tests.support.runs import assert_same_run

pytestmark = pytest.mark.usefixtures("own_folder")

CONTRACT = {"run", "policy", "rounds", "d", "k", "test_accuracy", "mean_aou", "vote_error_rate"}
CONTRACT |= {"seconds", "air_seconds"}
PICTURES = tuple(f"{name}.png" for name in ("curves", "aou", "participation", "partition", "confusion", "per_client"))


def test_train_prints_one_json_object_and_leaves_a_whole_run(tiny_options, tmp_path):
    result = fl_app("train", *tiny_options, "--json", "--out", "my-run")
    value = json.loads(result.stdout)
    assert value.keys() >= CONTRACT
    assert (value["run"], value["policy"], value["rounds"]) == ("my-run", "fair-k", 4)
    assert (value["d"], value["k"]) == (109_402, 21_880)
    assert 0 <= value["test_accuracy"] <= 1
    assert 0 <= value["vote_error_rate"] < 0.5
    assert value["air_seconds"] > 0
    assert "round    4/4" in result.stderr
    folder = RunFolder.open(tmp_path / "my-run")
    assert len(folder.rows()) == 4
    assert list(folder.events.glob("events.out.tfevents.*"))
    for picture in PICTURES:
        image = matplotlib.image.imread(folder.path / picture)
        assert min(image.shape[:2]) > 300, picture
        assert image[..., :3].std() > 0.02, f"{picture} is blank"
    assert_report_is_whole(folder.report.read_text())
    settings = load_settings(folder.config)
    assert (settings.run.rounds, settings.clients.n, settings.air.name) == (4, 3, "fading")


def assert_report_is_whole(page):
    """All pictures are inside, nothing is fetched from elsewhere, results, settings and versions are there."""
    shown = assert_stands_alone(page)
    assert shown.counts["svg"] == shown.counts["figcaption"] == len(PICTURES)
    assert "http" not in re.sub(r"base64,[^\"]+", "", page)
    for text in ("fair-k", "test accuracy", "k = 21,880 of d = 109,402", "[selection]", "k_m_ratio", "snr_db"):
        assert text in shown.words
    today = datetime.now(UTC)
    assert any(f"Trained {day:%Y-%m-%d}" in shown.words for day in (today, today - timedelta(days=1)))
    for name, own in versions().items():
        assert f"{name} {own}" in shown.words


def test_table_goes_to_stdout_without_json(tiny_options):
    result = fl_app("train", *tiny_options, "--set=run.rounds=1")
    assert "test accuracy" in result.stdout
    assert re.search(r"runs/\d{8}-\d{6}-letters-fair-k/report\.html", result.stdout)


def test_report_can_be_made_again_also_of_an_unfinished_run(tiny_options, tmp_path):
    fl_app("train", *tiny_options, "--out", "run")
    folder = RunFolder(tmp_path / "run")
    folder.report.unlink()
    folder.result.unlink()
    folder.metrics.write_text("".join(row.line() for row in folder.rows()[:3]))
    assert "run/report.html" in fl_app("report", "run", "--figures", "PDF, svg").stdout
    assert "not finished: 3 of 4 rounds" in folder.report.read_text()
    for picture in PICTURES:
        stem = folder.path / picture.removesuffix(".png")
        assert stem.with_suffix(".pdf").read_bytes().startswith(b"%PDF"), picture
        assert "<svg" in stem.with_suffix(".svg").read_text(), picture


def test_finished_run_is_only_reported_by_resume(tiny_options):
    first = json.loads(fl_app("train", *tiny_options, "--json", "--out", "run").stdout)
    again = json.loads(fl_app("resume", "run", "--json").stdout)
    assert again == first


def test_longer_run_has_the_bits_of_one_that_was_begun_so(tiny_options, tmp_path):
    options = [
        *tiny_options,
        "--set=run.eval_every=3",
    ]  # so that the shorter run tests a round that the longer one does not
    fl_app("train", *options, "--set=run.rounds=2", "--out", "short")
    longer = json.loads(fl_app("resume", "short", "--rounds", 5, "--json").stdout)
    whole = json.loads(fl_app("train", *options, "--set=run.rounds=5", "--out", "whole", "--json").stdout)
    short, begun_so = RunFolder(tmp_path / "short"), RunFolder(tmp_path / "whole")
    assert_same_run(short, begun_so)
    assert longer["best_test_accuracy"] == whole["best_test_accuracy"]
    assert short.settings() == begun_so.settings()
    refused = fl_app("resume", "short", "--rounds", 4, code=1)
    assert "--rounds 4: short has played 5 rounds already; choose 6 or more" in refused.stderr
    assert json.loads(fl_app("resume", "short", "--rounds", 5, "--json").stdout) == longer


def test_folder_is_there_only_when_there_is_something_to_keep(tiny_options, tmp_path):
    """What fails before the first round leaves the same --out for the next try."""
    faults = (["--device", "abacus"], ["--set=data.name=mnist", "--data-root", tmp_path, "--set=data.download=false"])
    for fault in faults:
        assert fl_app("train", *tiny_options, *fault, "--out", "runs/mine", code=None).exit_code in (1, 2)
        assert list(tmp_path.iterdir()) == []
    fl_app("train", *tiny_options, "--set=run.rounds=1", "--out", "runs/mine")
    (tmp_path / "file").touch()
    refused = fl_app("train", *tiny_options, "--out", "file/run", code=1)
    assert "cannot make the run's folder file/run: Not a directory" in refused.stderr


def test_port_in_use_is_named_and_leaves_no_folder(tiny_options, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        result = fl_app("server", *tiny_options, "--bind", address, "--out", "run", code=1)
    assert f"error: cannot listen on {address}: Address already in use, perhaps by" in result.stderr
    assert "choose another --bind" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_options_have_their_place_in_the_settings(tiny_options, tmp_path):
    options = ("--workers", 1, "--air", "ideal", "--device", "cpu", "--data-root", tmp_path)
    fl_app("train", *tiny_options, "--set=run.rounds=1", *options, "--out", "run")
    settings = load_settings(tmp_path / "run" / "config.toml")
    assert (settings.run.workers, settings.air.name, settings.data.root) == (1, "ideal", str(tmp_path))


def test_show_config_prints_a_config_that_says_the_same(tmp_path):
    printed = fl_app("show-config", "cifar10-small", "--set", "air.snr_db=none").stdout
    (tmp_path / "mine.toml").write_text(printed)
    assert load_settings(tmp_path / "mine.toml") == load_settings("cifar10-small", ["air.snr_db=none"])
    assert set(tomllib.loads(printed)) == {
        "run",
        "engine",
        "data",
        "model",
        "task",
        "clients",
        "server",
        "selection",
        "air",
        "link",
        "radios",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "--set", "run.ruonds=3"], 2, "did you mean 'rounds'"),
        (["train", "--air", "wave"], 2, "did you mean 'waveform'"),
        (["train", "nowhere.toml"], 2, "there is no file nowhere.toml"),
        (["train", "--device", "abacus", "--set", "data.limit=50"], 2, "[run] device = 'abacus'"),
        (["train", "--set", "clients.n=70", "--set", "data.limit=50"], 2, "[clients] n = 70: there are only 50"),
        (
            ["train", "--set", "selection.k=200000", "--set", "data.limit=50"],
            2,
            "k = 200000: the model has only 109402",
        ),
        (["train", "--set", "data.name=mnist", "--data-root", "empty", "--set", "data.download=false"], 1, "empty"),
        (["compare", "--policies", "fare-k"], 2, "did you mean 'fair-k'"),
        (["compare", "--seeds", "1,x"], 2, "--seeds 1,x"),
        (["resume", "nowhere"], 1, "nowhere is not the folder of a run"),
        (["report", "nowhere"], 1, "nowhere is not the folder of a run"),
        (["report", ".", "--figures", "pdf,eps"], 2, "'eps' is no format; there are png, svg, pdf"),
        (["compare", "--figures", "jpg"], 2, "'jpg' is no format"),
        (["sweep", "--figures", "jpg"], 2, "'jpg' is no format"),
        (["reproduce", "fig4", "--figures", "jpg"], 2, "'jpg' is no format"),
    ],
)
def test_faults_are_said_in_a_sentence(arguments, code, message, tmp_path):
    (tmp_path / "empty").mkdir()
    result = fl_app(*arguments, "--json", code=code)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def names_of(group):
    return [(command.name or command.callback.__name__).replace("_", "-") for command in group.registered_commands]


@pytest.mark.parametrize("command", names_of(app) + [f"theory {name}" for name in names_of(theory)])
def test_help_has_an_example(command):
    assert f"Example: fl_app {command}" in fl_app(*command.split(), "--help").stdout


def test_compare_makes_one_table_and_repeats_no_finished_run(tiny_options, tmp_path):
    options = ["compare", *tiny_options, "--set=run.rounds=2", "--policies", "fair-k,rand-k", "--seeds", "1,2"]
    options.append("--figures=svg")
    result = fl_app(*options, "--json", "--out", "cmp")
    value = json.loads(result.stdout)
    assert value["policies"].keys() == {"fair-k", "rand-k"}
    assert len(value["policies"]["fair-k"]["test_accuracies"]) == 2
    # Same seed: same split and same first weights, so that round 0, which sends all, is the same for every policy.
    for seed in (1, 2):
        first, other = (RunFolder(tmp_path / "cmp" / f"{name}-seed{seed}").rows()[0] for name in ("fair-k", "rand-k"))
        assert (first.loss, first.test_accuracy) == (other.loss, other.test_accuracy)
    for number in range(1, 5):
        assert f"run {number} of 4\n" in result.stderr
    assert re.search(r"1/4 fair-k: round +2/2 .* ETA 0:00, all \d+:\d\d", result.stderr)
    assert (tmp_path / "cmp" / "compare.md").read_text().count("\n") == 4
    assert matplotlib.image.imread(tmp_path / "cmp" / "compare.png").std() > 0.02
    assert matplotlib.image.imread(tmp_path / "cmp" / "compare-air.png").std() > 0.02
    assert not list((tmp_path / "cmp").glob("*.pdf"))
    shown = assert_stands_alone((tmp_path / "cmp" / "compare.html").read_text())
    assert all((tmp_path / "cmp" / link).is_file() for link in shown.links)
    assert {f"{name}-seed{seed}/report.html" for name in ("fair-k", "rand-k") for seed in (1, 2)} <= {*shown.links}
    assert "compare.tex" in shown.links
    with (tmp_path / "cmp" / "compare.csv").open() as table:
        rows = {row["selection.policy"]: row for row in csv.DictReader(table)}
    for policy, one in value["policies"].items():
        assert float(rows[policy]["test_accuracy_mean"]) == one["test_accuracy"]
    best = max(value["policies"], key=lambda policy: value["policies"][policy]["test_accuracy"])
    body = (tmp_path / "cmp" / "compare.tex").read_text().partition("\\midrule\n")[2]
    assert body.startswith(f"{best} & ")
    again = fl_app(*options, "--json", "--out", "cmp")
    assert json.loads(again.stdout) == value
    assert "round" not in again.stderr
    changed = fl_app(*options, "--set=clients.H=1", "--out", "cmp", code=1)
    assert "holds a run with other settings" in changed.stderr
