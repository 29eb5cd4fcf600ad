# SPDX-License-Identifier: GPL-3.0-or-later
"""Which runs a sweep has: values as on the command line, all combinations, folders, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_app.config import ConfigError
from fl_app.runs.run_folder import RunError, RunFolder
from fl_app.runs.sweeps.plan import folder_name, parse_vary, plan, refuse_other_settings, short_keys, value_text_of
from fl_app.toml_text import value_text


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("air.snr_db=0,10,20.5", [0, 10, 20.5]),
        ("air.snr_db = -5, none", [-5, "none"]),
        ("selection.policy=fair-k,top-k", ["fair-k", "top-k"]),
        ('data.root="a,b",c', ["a,b", "c"]),
        ("data.root='x=1', \"[\"", ["x=1", "["]),
        ("data.root=it's,b", ["it's", "b"]),
        ("air.cfo_correction=true,false", [True, False]),
        ("section.key=[1, 2],[3]", [[1, 2], [3]]),
    ],
)
def test_values_are_read_as_toml(text, values):
    assert parse_vary([text]) == {text.partition("=")[0].strip(): values}


scalars = st.one_of(
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12),
)


@given(st.lists(st.one_of(scalars, st.lists(scalars, max_size=3)), min_size=1, max_size=5))
def test_any_value_that_toml_can_write_is_read_back(values):
    text = ",".join(value_text(value) for value in values)
    assert parse_vary([f"section.key={text}"]) == {"section.key": values}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["air.snr_db"], r"^--vary air\.snr_db: write section\.key=value,value"),
        (["snr_db=1"], r"^--vary snr_db=1: write section\.key=value,value"),
        (["air.snr_db=1,,2"], r"^--vary air\.snr_db=1,,2: write"),
        (["air.snr_db="], r"^--vary air\.snr_db=: write"),
        (["air.snr_db=1", "air.snr_db=2"], r"^--vary air\.snr_db stands twice: write all values behind one --vary"),
    ],
)
def test_faults_in_a_text_are_said(texts, message):
    with pytest.raises(ConfigError, match=message):
        parse_vary(texts)


def test_all_combinations_seed_by_seed(tiny, tmp_path):
    vary = {"selection.k_m_ratio": [0, 0.5], "air.snr_db": [10, None]}
    runs = plan(tiny(run={"workers": 2, "out": "elsewhere"}), vary, [7, 3], tmp_path)
    assert [(run.seed, *run.values.values()) for run in runs] == [
        (seed, ratio, snr) for seed in (7, 3) for ratio in (0, 0.5) for snr in (10, None)
    ]
    for run in runs:
        own = run.settings
        assert own == tiny(
            run={"seed": run.seed},
            selection={"k_m_ratio": float(run.values["selection.k_m_ratio"])},
            air={"snr_db": "none" if run.values["air.snr_db"] is None else 10.0},
        )
    assert [run.name for run in runs[:2]] == ["k_m_ratio=0_snr_db=10-seed7", "k_m_ratio=0_snr_db=none-seed7"]
    assert runs[0].title == "k_m_ratio = 0, snr_db = 10, seed 7"
    assert [run.name for run in plan(tiny(), {}, [1], tmp_path)] == ["seed1"]


def test_rho_and_k_replace_each_other(tiny, tmp_path):
    (run,) = plan(tiny(selection={"rho": 0.2}), {"selection.k": [500]}, [1], tmp_path)
    assert (run.settings.selection.rho, run.settings.selection.k) == (None, 500)


@pytest.mark.parametrize(
    ("vary", "seeds", "message"),
    [
        ({"air.snr": [1]}, [1], r"^vary air\.snr=1: \[air\] snr: unknown key; did you mean 'snr_db'\?"),
        ({"run.rounds.x": [1]}, [1], r"^vary run\.rounds\.x=1: rounds is a value, not a section"),
        ({"selection.rho": [0.1, 2.0]}, [1], r"^vary selection\.rho=2: \[selection\] rho = 2\.0: must be"),
        ({"selection.policy": ["fare-k"]}, [1], r"^vary selection\.policy=fare-k: .*did you mean 'fair-k'"),
        ({"selection.policy": "fair-k"}, [1], r"^vary selection\.policy: 'fair-k' is no list of values"),
        ({"selection.policy": []}, [1], r"\[\] is no list of values"),
        ({"air.snr_db": [0, 0.0]}, [1], r"the same settings: snr_db = 0, seed 1; give each value once"),
        (
            {"selection.rho": [0.1, 0.2], "selection.k": [5]},
            [1],
            r"have the same settings: rho = none, k = 5, seed 1; give each value once",
        ),
        ({"run.workers": [1, 2]}, [1], r"two runs of the sweep have the same settings"),
        ({"run.seed": [1, 2]}, [1], r"^vary run\.seed=1: give the seeds as --seeds 1,2,3"),
        ({}, [], r"give at least one seed"),
        ({}, [1, 1], r"^seeds 1, 1: give at least one seed, and each seed once"),
        ({}, [-1], r"^seed -1: \[run\] seed = -1: must be at least 0"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(tiny, tmp_path, vary, seeds, message):
    with pytest.raises(ConfigError, match=message):
        plan(tiny(), vary, seeds, tmp_path)


def test_names_tell_keys_and_values_apart():
    assert short_keys(["clients.lr", "server.lr", "air.snr_db"]) == {
        "clients.lr": "clients.lr",
        "server.lr": "server.lr",
        "air.snr_db": "snr_db",
    }
    assert [value_text_of(value) for value in (10.0, 0.1 + 0.2, 1e-5, None, True, "a b")] == [
        "10",
        "0.30000000000000004",
        "1e-05",
        "none",
        "true",
        "a b",
    ]
    # A value that a folder's name cannot hold: two of them never share a name.
    assert folder_name({"data.root": "/a/b"}, 1) != folder_name({"data.root": "-a-b"}, 1)
    assert "/" not in folder_name({"data.root": "../a/b" * 100}, 1)
    assert len(folder_name({"data.root": "a" * 300}, 1)) < 160


def test_other_settings_in_the_folder_are_refused(tiny, tmp_path):
    vary = {"air.snr_db": [0, 10]}
    for run in plan(tiny(), vary, [1], tmp_path)[1:]:
        RunFolder.create(run.settings, run.folder.path)
    refuse_other_settings(plan(tiny(run={"workers": 5, "checkpoint_every": 3, "out": "x"}), vary, [1, 2], tmp_path))
    changed = plan(tiny(clients={"H": 3}), vary, [1], tmp_path)
    with pytest.raises(RunError, match=r"snr_db=10-seed1 holds a run with other settings \(\[clients\] H = 2, now 3\)"):
        refuse_other_settings(changed)
