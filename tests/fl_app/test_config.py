# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings: every fault is named with its place and a way out, and what is written reads back the same."""

import subprocess
import sys
import tomllib
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_app.air import AIR_NAMES, make_air
from fl_app.config import (
    ConfigError,
    DataSection,
    ModelSection,
    check,
    find_config,
    load_settings,
)
from fl_app.core.catalog import MODELS
from fl_app.core.selection import POLICY_NAMES
from fl_app.core.settings import RateSection, ServerSection
from fl_app.core.steps.schedules import SCHEDULES
from fl_app.core.steps.server_step import SERVER_STEPS, ServerOptions
from fl_app.data import PARTITION_NAMES, dataset_names
from fl_app.toml_text import parse_value, to_toml
from tests.support.paths import ROOT

CONFIGS = sorted((ROOT / "configs").glob("*.toml"))


def _radios(**changes):
    radios = {"server": "ip:a", "clients": ["ip:b", "usb:1.2.5"], "frequency_hz": 2.4e9, **changes}
    return {"air": {"name": "pluto"}, "radios": radios}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"run": {"ruonds": 3}}, "[run] ruonds: unknown key; did you mean 'rounds'?"),
        ({"air": {"snr": 3}}, "[air] snr: unknown key; did you mean 'snr_db'?"),
        ({"air": {"rounds": 3}}, "[air] rounds: unknown key; it belongs to [run]"),
        ({"airs": {}}, "[airs]: unknown section; did you mean 'air'?"),
        ({"air": 3}, "[air] must be a section, not 3"),
        ({"run": {"rounds": 0}}, "[run] rounds = 0: must be at least 1"),
        ({"run": {"rounds": 2.5}}, "[run] rounds = 2.5: must be a valid integer"),
        ({"run": {"rounds": True}}, "[run] rounds = True: must be a valid integer"),
        ({"clients": {"lr": "fast"}}, "[clients] lr = 'fast': must be a valid number"),
        ({"server": {"lr": float("inf")}}, "[server] lr = inf: must be a finite number"),
        ({"data": {"name": "fashion"}}, "[data] name = 'fashion': did you mean 'fashion-mnist'? There are letters,"),
        ({"selection": {"policy": "fare-k"}}, "did you mean 'fair-k'? There are fair-k, top-k,"),
        ({"selection": {"rho": 1.5}}, "[selection] rho = 1.5: must be at most 1"),
        ({"selection": {"rho": 0.1, "k": 3}}, "[selection] rho = 0.1 and k = 3 say the same thing"),
        ({"air": {"name": "waevform"}}, "[air] name = 'waevform': did you mean 'waveform'? There are ideal,"),
        ({"air": {"name": "pluto"}}, "[radios] server = '': the air pluto needs the uri of a radio"),
        ({"air": {"name": "pluto"}, "radios": {"server": "a", "clients": ["b"]}}, "a uri for each of [clients] n = 2"),
        (_radios(clients=["ip:b", "ip:a"]), "[radios] clients = ['ip:b', 'ip:a']: a radio is named twice"),
        (_radios(clients=["ip:b", "c"]), "[radios] uri must begin with one of ip:, usb:, serial:, local: as in ip:192"),
        (_radios(frequency_hz=0.0), "[radios] frequency_hz = 0: nothing is transmitted until you name a frequency"),
        (_radios(frequency_hz=30e6), "[radios] frequency_hz must be from 70000000"),
        (_radios(sample_rate_hz=-1.0), "[air] sample_rate_hz = -1.0: must be greater than 0"),
        (_radios(sample_rate_hz=1e5), "[radios] sample_rate_hz must be from 520833"),
        (_radios(transport="thread"), "[radios] transport = 'thread': did you mean 'threads'? There are threads,"),
        (_radios() | {"link": {"radio": "tcp://127.0.0.1:1"}}, "or 'pluto' with [radios] transport = 'flowgraphs'"),
        (_radios(tx_gain_db=1.0), "[radios] tx_gain_db must be from -89.75 to 0 dB"),
        ({"air": {"fading": "rayleich"}}, "[air] fading = 'rayleich': did you mean 'rayleigh'?"),
        ({"air": {"snr_db": 1e9}}, "[air] snr_db = 1000000000.0: must be at most 200"),
        ({"air": {"snr_db": "20"}}, "[air] snr_db = '20': must be a valid number"),
        ({"air": {"clock_ppm": "none"}}, "[air] clock_ppm = 'none': must be a valid number"),
        ({"air": {"cp_samples": 300}}, "[air] cp_samples must be at most fft_size = 256"),
        ({"air": {"mode": "analog", "repeats": 3}}, "[air] repeats must be 1 in analog mode, got 3"),
        ({"clients": {"fraction": 0.0}}, "[clients] fraction = 0.0: must be greater than 0"),
        ({"clients": {"fraction": 1.5}}, "[clients] fraction = 1.5: must be at most 1"),
        ({"clients": {"momentum": 1.0}}, "[clients] momentum = 1.0: must be less than 1"),
        ({"clients": {"nesterov": True}}, "[clients] nesterov = true: needs momentum above 0"),
        (
            {"clients": {"weighting": "sizes"}},
            "[clients] weighting = 'sizes': did you mean 'size'? There are equal, size",
        ),
        (
            {"clients": {"weighting": "size"}},
            "[clients] weighting = 'size': votes have no magnitude; use [air] mode = 'analog' or weighting = 'equal'",
        ),
        ({"clients": {"lr_floor": 0.02}}, "[clients] lr_floor = 0.02: must be at most lr = 0.01"),
        ({"server": {"lr_floor": 0.02}}, "[server] lr_floor = 0.02: must be at most lr = 0.01"),
        (
            {"run": {"rounds": 5}, "server": {"lr_warmup": 5}},
            "[server] lr_warmup = 5: must be less than [run] rounds = 5",
        ),
        (
            {"server": {"lr_schedule": "cosin"}},
            "[server] lr_schedule = 'cosin': did you mean 'cosine'? There are const",
        ),
        (
            {"server": {"optimizer": "adan"}},
            "[server] optimizer = 'adan': did you mean 'adam'? There are sgd, momentum,",
        ),
        ({"server": {"nesterov": True}}, "[server] nesterov = true: needs optimizer = 'momentum' and momentum above 0"),
        (
            {"server": {"nesterov": True, "optimizer": "momentum", "momentum": 0.0}},
            "[server] nesterov = true: needs optimizer = 'momentum' and momentum above 0",
        ),
        (
            _radios() | {"clients": {"fraction": 0.5}, "link": {"min_clients": 2}},
            "[clients] fraction = 0.5: 1 of 2 clients take part in a round, and the radios' rounds need [link] "
            "min_clients = 2; raise the fraction or lower min_clients",
        ),
    ],
)
def test_fault_is_named_with_its_place_and_a_way_out(tree, message):
    with pytest.raises(ConfigError) as caught:
        check(tree, "my.toml")
    assert str(caught.value).startswith("my.toml: ")
    assert message in str(caught.value)


def test_all_faults_are_named_at_once():
    with pytest.raises(ConfigError) as caught:
        check({"run": {"rounds": 0, "sed": 1}, "clients": {"n": 0}, "air": {"groups": 0, "repeats": 0}}, "my.toml")
    assert len(str(caught.value).splitlines()) == 5


def test_names_are_those_of_the_packages():
    assert [DataSection(name=name).name for name in dataset_names()] == list(dataset_names())
    assert get_args(DataSection.model_fields["partition"].annotation) == PARTITION_NAMES
    assert [ModelSection(name=name).name for name in MODELS.names()] == list(MODELS.names())
    assert get_args(RateSection.model_fields["lr_schedule"].annotation) == SCHEDULES
    assert get_args(ServerSection.model_fields["optimizer"].annotation) == SERVER_STEPS


def test_defaults_are_the_papers():
    settings = check({}, "defaults")
    clients, server = settings.clients, settings.server
    assert (clients.fraction, clients.epochs, clients.weighting) == (1.0, 0, "equal")
    assert (clients.momentum, clients.nesterov, clients.weight_decay, clients.clip_norm) == (0.0, False, 0.0, 0.0)
    assert (server.optimizer, server.nesterov) == ("sgd", False)
    assert server.options(clients) == ServerOptions()
    assert server.options(clients.with_values(error_feedback=True)) == ServerOptions(fresh_only=True)
    for section in (clients, server):
        assert (section.lr_schedule, section.lr_warmup, section.lr_floor) == ("constant", 0, 0.0)
        assert not section.depends_on_rounds


def test_weights_by_size_need_amplitudes_and_few_radios_need_a_low_minimum():
    assert check({"clients": {"weighting": "size"}, "air": {"mode": "analog"}}, "").clients.weighting == "size"
    software = {"clients": {"n": 4, "fraction": 0.25}, "link": {"min_clients": 2}}
    assert check(software, "").clients.fraction == 0.25  # without radios a round needs all of its participants at most


changes = st.fixed_dictionaries(
    {},
    optional={
        "run": st.fixed_dictionaries({}, optional={"seed": st.integers(0, 2**63 - 1), "rounds": st.integers(1, 9999)}),
        "data": st.fixed_dictionaries({}, optional={"root": st.text(st.characters(exclude_categories=["Cs"]))}),
        "clients": st.fixed_dictionaries(
            {}, optional={"lr": st.floats(0, 1e6), "n": st.integers(1, 500), "abstain_below": st.floats(0, 1)}
        ),
        "server": st.fixed_dictionaries(
            {},
            optional={
                "optimizer": st.sampled_from(SERVER_STEPS),
                "beta2": st.floats(0, 1, exclude_max=True),
                "epsilon": st.floats(1e-300, 1),
                "lr_schedule": st.sampled_from(SCHEDULES),
                "lr_factor": st.floats(1e-300, 1),
            },
        ),
        "selection": st.one_of(
            st.fixed_dictionaries({"rho": st.floats(1e-9, 1), "policy": st.sampled_from(POLICY_NAMES)}),
            st.fixed_dictionaries({"k": st.integers(1, 10**9)}),
        ),
        "air": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from([name for name in AIR_NAMES if name != "pluto"]),  # it needs [radios]
                "snr_db": st.one_of(st.floats(-100, 200), st.just("none")),
                "adc_bits": st.one_of(st.integers(1, 24), st.just("none")),
                "cfo_correction": st.booleans(),
            },
        ).filter(lambda air: (air.get("name"), air.get("snr_db")) != ("digital", "none")),  # it needs noise
    },
)


def test_radios_read_back_from_their_toml():
    settings = check(_radios(clock="lock-step", rx_gain_db=50), "drawn")
    assert check(tomllib.loads(settings.toml()), "written") == settings


def _rate(air=None, radios=None, is_named=True):
    tree = {"air": {} if air is None else {"sample_rate_hz": air}}
    tree["radios"] = {"server": "ip:1.2.3.4"} if is_named else {}
    if radios is not None:
        tree["radios"]["sample_rate_hz"] = radios
    return check(tree, "drawn").air.sample_rate_hz


def test_the_sample_rate_has_one_home():
    assert _rate(is_named=False) == 20e6
    assert _rate() == 2.5e6  # with radios, and no rate said
    assert _rate(radios=1e6) == _rate(air=1e6) == _rate(air=1e6, radios=1e6) == 1e6
    assert _rate(radios=1e6, is_named=False) == 1e6  # a rehearsal in simulation has the rate of the radios
    with pytest.raises(ConfigError, match=r"\[air\] sample_rate_hz = 1000000.0 and \[radios\] sample_rate_hz = 4"):
        _rate(air=1e6, radios=4e6)


def test_configs_that_were_written_in_full_when_there_were_two_rates_are_still_read():
    assert _rate(air=20e6, radios=4e6) == 4e6
    assert _rate(air=1e6, radios=2.5e6, is_named=False) == 1e6
    assert "sample_rate_hz" not in check(_radios(sample_rate_hz=1e6), "").toml().partition("[radios]")[2]


def test_an_option_replaces_the_rate_of_either_section(tmp_path):
    path = tmp_path / "bench.toml"
    path.write_text('[radios]\nserver = "ip:1.2.3.4"\nsample_rate_hz = 4e6\n')
    for section in ("air", "radios"):
        assert load_settings(path, [f"{section}.sample_rate_hz=1e6"]).air.sample_rate_hz == 1e6
        assert load_settings(path).with_values(**{section: {"sample_rate_hz": 1e6}}).air.sample_rate_hz == 1e6
    with pytest.raises(ConfigError, match=r"^--set radios.sample_rate_hz=-1: \[air\] sample_rate_hz = -1: must be"):
        load_settings(path, ["radios.sample_rate_hz=-1"])


@given(changes)
def test_settings_read_back_from_their_toml(tree):
    settings = check(tree, "drawn")
    assert check(tomllib.loads(settings.toml()), "written") == settings
    assert settings.with_values() == settings


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
        st.recursive(
            st.one_of(
                st.booleans(),
                st.integers(-(2**63), 2**63 - 1),
                st.floats(allow_nan=False),
                st.text(st.characters(exclude_categories=["Cs"])),
            ),
            lambda inner: st.lists(inner, max_size=4),
        ),
    )
)
def test_toml_text_is_toml(values):
    assert tomllib.loads(to_toml({"section": values})) == {"section": values}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ('"a b"', "a b"),
        ("fair-k", "fair-k"),
        ("[1, 2]", [1, 2]),
        ("", ""),
        ("a=b", "a=b"),
        ("1\nother = 2", "1\nother = 2"),
    ],
)
def test_values_on_the_command_line(text, value):
    assert parse_value(text) == value


def test_overrides_change_single_values():
    settings = load_settings(None, ["run.rounds=7", "selection.policy=Top-K", "air.snr_db=none", "selection.k=12"])
    assert settings.run.rounds == 7
    assert settings.selection.policy == "top-k"
    assert settings.air.snr_db is None
    assert (settings.selection.k, settings.selection.rho) == (12, None)


@pytest.mark.parametrize(
    ("overrides", "start"),
    [
        (["run.ruonds=20"], "--set run.ruonds=20: [run] ruonds: unknown key"),
        (["clients.n=3", "run.rounds=0"], "--set run.rounds=0: [run] rounds = 0: must be at least 1"),
        (["airs.x=3"], "--set airs.x=3: [airs]: unknown section"),
        (["air.mode=analog", "air.repeats=3"], "--set air.mode=analog and --set air.repeats=3: [air] repeats"),
        (["air.name=pluto"], "--set air.name=pluto: [radios] server"),
    ],
)
def test_override_that_is_wrong_is_named_and_not_the_file(overrides, start):
    with pytest.raises(ConfigError) as caught:
        load_settings(None, overrides)
    assert str(caught.value).startswith(start)


def test_fault_of_the_file_is_not_blamed_on_an_override(tmp_path):
    (tmp_path / "mine.toml").write_text("[run]\nrounds = 0\n")
    with pytest.raises(ConfigError, match=r"mine\.toml: \[run\] rounds = 0"):
        load_settings(tmp_path / "mine.toml", ["run.seed=2"])


def test_every_key_has_a_comment_that_says_what_is_allowed():
    for line in check({}, "").toml().splitlines():
        if line and not line.startswith("["):
            assert "  # " in line, line
    comments = dict(line.split(" = ", 1) for line in check({}, "").toml().splitlines() if " = " in line)
    assert comments["clock_ppm"].endswith("; 0 to 1000")  # of [air], which checks itself
    assert comments["partition"].endswith("; iid, dirichlet, shards")
    assert comments["lr"].endswith("; above 0")
    assert comments["beta1"].endswith("; at least 0, below 1")


@pytest.mark.parametrize("text", ["rounds=3", "run.rounds", "run.=3", "=", "run.rounds.x=3"])
def test_malformed_overrides_say_how_to_write_them(text):
    with pytest.raises(ConfigError, match="--set"):
        load_settings(None, [text])


def test_share_of_the_entries_becomes_their_number():
    entries = check({"selection": {"rho": 0.2}}, "").selection.entries
    assert entries(109_402) == 21_880
    assert entries(2) == 1
    with pytest.raises(ConfigError, match=r"k = 9: the model has only 8"):
        check({"selection": {"k": 9}}, "").selection.entries(8)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_config_is_valid_and_found_by_name(path):
    settings = load_settings(path)
    assert load_settings(path.stem) == settings
    assert find_config(path.name).name == path.name


def test_shipped_configs_are_what_they_are_named_for():
    names = {path.stem for path in CONFIGS}
    assert {"quickstart", "prototype", "cifar10-noniid", "cifar10-small", "fashion-onebit"} <= names
    quickstart = load_settings()
    assert (quickstart.data.name, quickstart.clients.n, quickstart.selection.rho) == ("letters", 2, 0.2)
    assert (quickstart.air.name, quickstart.air.mode) == ("waveform", "onebit")
    assert (quickstart.air.fading, quickstart.air.clock_ppm, quickstart.air.snr_db) == ("rayleigh", 20.0, 20.0)
    paper = load_settings("cifar10-noniid")
    assert (paper.clients.n, paper.clients.H, paper.clients.batch_size, paper.data.alpha) == (50, 5, 50, 0.3)
    assert (paper.selection.rho, paper.clients.lr, paper.server.lr) == (0.1, 0.01, 0.01)


def test_missing_and_broken_files_are_named(tmp_path):
    with pytest.raises(ConfigError, match="no file prototipe, and no config of that name: did you mean 'prototype'"):
        load_settings("prototipe")
    broken = tmp_path / "broken.toml"
    broken.write_text("[run\nrounds = 3")
    with pytest.raises(ConfigError, match=r"broken\.toml is not TOML: .*line 1"):
        load_settings(broken)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_settings(binary)


def test_settings_need_no_torch():
    code = "import sys, fl_app.cli.app; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("path", [path for path in CONFIGS if path.stem.startswith("schemes-")], ids=lambda p: p.stem)
def test_all_schemes_of_the_comparison_have_100_symbols_a_round(path):
    settings = load_settings(path)
    k, n = settings.selection.k, settings.clients.n
    scheme = settings.air.scheme
    payload = np.stack([scheme.random_payload(k, np.random.default_rng(client)) for client in range(n)])
    assert make_air(settings.air, n, 1).uplink(payload, np.arange(n), 1).symbols == 100
    if settings.air.name == "digital":  # one entry more does not fit
        more = np.concatenate([payload, payload[:, :1]], axis=1)
        assert make_air(settings.air, n, 1).uplink(more, np.arange(n), 1).symbols > 100


def test_schemes_of_the_comparison_differ_in_nothing_but_the_air():
    trees = [load_settings(path).model_dump() for path in CONFIGS if path.stem.startswith("schemes-")]
    assert len(trees) == 5
    for tree in trees:
        del tree["air"], tree["selection"]["k"], tree["server"]["lr"]
    assert all(tree == trees[0] for tree in trees)
