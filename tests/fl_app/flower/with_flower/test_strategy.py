# SPDX-License-Identifier: GPL-3.0-or-later
"""`OverTheAir` and `over_the_air_mod` with Flower's own messages, apps and strategies, all in this process.

These tests run where Flower is installed: ``test_environment.py`` runs them in an environment of its own.
"""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower: pip install 'gr-oac[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import strategy as strategies

from fl_app import ConfigError, Experiment, LearningRate, Waveform
from fl_app.flower import OverTheAir, over_the_air_mod
from fl_app.flower.order import ORDER
from fl_app.flower.suitable import AVERAGING, REFUSED
from fl_app.runs.run import TrainingError
from tests.fl_app.flower.with_flower.local_grid import ClientError, LocalGrid
from tests.support.flower import N_CLIENTS, ROUNDS, small_settings, trained


def app_of(change, mods=(over_the_air_mod,), examples=None):
    """A client app whose training is ``change(arrays, number, server_round)``; client n has n + 1 examples."""
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message, context):
        assert ORDER not in message.content  # the app sees what the wrapped strategy sent
        number, config = context.node_config.get("partition-id", 0), message.content["config"]
        arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
        after = {
            name: Array(np.asarray(array)) for name, array in change(arrays, number, config["server-round"]).items()
        }
        metrics = MetricRecord({"num-examples": examples or number + 1, "loss": float(number)})
        return Message(RecordDict({"arrays": ArrayRecord(after), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        metrics = MetricRecord({"num-examples": 1, "mean": float(message.content["arrays"]["w"].numpy().mean())})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def record(**arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def less(by):
    """A client that subtracts ``by[number]`` from w."""
    return lambda arrays, number, _round: {**arrays, "w": arrays["w"] - by[number]}


@pytest.mark.parametrize(("air", "scheme"), [("waveform", "onebit"), ("fading", "analog"), ("ideal", "energy")])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_training_is_that_of_fl_app_train_bit_for_bit(air, scheme, seed):
    settings = small_settings(air, scheme, seed)
    run = Experiment.from_settings(settings)
    first = run.server.w.copy()
    app = app_of(lambda arrays, number, t: {"w": trained(settings, number, t - 1, arrays["w"])})
    strategy = OverTheAir(
        strategies.FedAvg(), settings.air, "fair-k", settings.selection.rho, lr=settings.server.lr, seed=seed
    )
    result = strategy.start(LocalGrid(app, N_CLIENTS), record(w=first), num_rounds=ROUNDS)
    rows = list(run.rounds(ROUNDS))
    np.testing.assert_array_equal(result.arrays["w"].numpy(), run.server.w)
    assert result.arrays["w"].dtype == "float32"
    metrics = result.train_metrics_clientapp
    assert [metrics[t]["air-entries"] for t in metrics] == [row.k for row in rows]
    assert [metrics[t]["air-symbols"] for t in metrics] == [row.symbols for row in rows]


def test_a_dense_ideal_air_is_fedavg():
    """With all entries, amplitudes and clients of equal weight, the air forms FedAvg's average."""
    by = np.random.default_rng(1).normal(size=(4, 30)).astype(np.float32)
    start = record(w=np.zeros(30, np.float32))
    equal = {"examples": 5}
    plain = strategies.FedAvg().start(LocalGrid(app_of(less(by), mods=(), **equal), 4), start, num_rounds=3)
    air = OverTheAir(strategies.FedAvg(), air="ideal", policy="dense")
    result = air.start(LocalGrid(app_of(less(by), **equal), 4), start, num_rounds=3)
    np.testing.assert_allclose(result.arrays["w"].numpy(), plain.arrays["w"].numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", AVERAGING)
def test_strategies_apply_their_own_step(name):
    """Over a dense ideal air each of them computes what it computes without the air."""
    by = np.random.default_rng(2).normal(size=(3, 20)).astype(np.float32)
    options = {"FedAvgM": {"server_momentum": 0.9}, "FedProx": {"proximal_mu": 0.1}}.get(name, {})
    make = lambda: getattr(strategies, name)(**options)  # noqa: E731
    start, equal = record(w=np.ones(20, np.float32)), {"examples": 2}
    plain = make().start(LocalGrid(app_of(less(by), mods=(), **equal), 3), start, num_rounds=4)
    air = OverTheAir(make(), air="ideal", policy="dense")
    result = air.start(LocalGrid(app_of(less(by), **equal), 3), start, num_rounds=4)
    np.testing.assert_allclose(result.arrays["w"].numpy(), plain.arrays["w"].numpy(), rtol=1e-4, atol=1e-5)


def test_evaluation_and_metrics_stay_with_the_strategy():
    by = np.ones((3, 8), np.float32)
    air = OverTheAir(strategies.FedAvg(), air="ideal", policy="dense")
    result = air.start(LocalGrid(app_of(less(by)), 3), record(w=np.zeros(8, np.float32)), num_rounds=2)
    # Examples 1, 2, 3 and losses 0, 1, 2: the weighted mean is 8 / 6.
    assert result.train_metrics_clientapp[1]["loss"] == pytest.approx(8 / 6)
    assert result.evaluate_metrics_clientapp[2]["mean"] == pytest.approx(-2)


def test_batch_norm_statistics_are_averaged_beside_the_air():
    start = record(w=np.zeros(4, np.float32), **{"bn.running_var": np.ones(2, np.float32), "bn.num_batches_tracked": 0})

    def change(arrays, number, _round):
        return {
            "w": arrays["w"] - 1,
            "bn.running_var": arrays["bn.running_var"] + number,
            "bn.num_batches_tracked": arrays["bn.num_batches_tracked"] + 2,
        }

    air = OverTheAir(strategies.FedAvg(), air="ideal", policy="fair-k", rho=0.5, scheme="fsk-mv", lr=0.25)
    arrays = air.start(LocalGrid(app_of(change), 3), start, num_rounds=1).arrays
    assert arrays["w"].numpy().tolist() == [-0.25] * 4
    np.testing.assert_allclose(arrays["bn.running_var"].numpy(), 1 + 8 / 6, rtol=1e-6)  # weighted by 1, 2, 3 examples
    assert arrays["bn.num_batches_tracked"].numpy() == pytest.approx(2)
    assert set(arrays) == {"w", "bn.running_var", "bn.num_batches_tracked"}


def test_nodes_without_partitions_are_numbered_and_payloads_are_small():
    seen = []

    def watch(message, context, call_next):
        reply = call_next(message, context)
        seen.append((reply.content[ORDER]["client"], reply.content["arrays"]))
        return reply

    by = np.ones((1, 1000), np.float32)
    app = app_of(less(by), mods=(watch, over_the_air_mod))
    air = OverTheAir(strategies.FedAvg(fraction_evaluate=0.0), Waveform(snr_db=20.0), rho=0.1)
    result = air.start(LocalGrid(app, 4, partitions=False), record(w=np.zeros(1000, np.float32)), num_rounds=2)
    assert sorted(number for number, _ in seen) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [len(arrays["over-the-air.payload"].numpy()) for _, arrays in seen] == [1000] * 4 + [100] * 4
    assert all(arrays["over-the-air.payload"].dtype == "int8" for _, arrays in seen)
    assert result.train_metrics_clientapp[2]["air-heard"] == 4
    assert result.train_metrics_clientapp[2]["air-seconds"] > 0


def test_a_client_that_diverges_sends_nothing():
    by = np.ones((3, 8), np.float32)
    by[1, 3] = np.nan
    air = OverTheAir(strategies.FedAvg(), air="ideal", policy="dense")
    result = air.start(LocalGrid(app_of(less(by)), 3), record(w=np.zeros(8, np.float32)), num_rounds=1)
    assert result.train_metrics_clientapp[1]["air-heard"] == 2
    np.testing.assert_array_equal(result.arrays["w"].numpy(), np.full(8, -1, np.float32))


def test_the_others_go_on_without_a_client_that_fails(caplog):
    by = np.diag([1.0, 2, 4, 8]).astype(np.float32)

    def change(arrays, number, t):
        if (number, t) == (1, 2):
            raise ClientError("out of memory")
        return {"w": arrays["w"] - by[number]}

    air = OverTheAir(strategies.FedAvg(), air="ideal", policy="dense")
    result = air.start(LocalGrid(app_of(change), 4), record(w=np.zeros(4, np.float32)), num_rounds=3)
    assert [result.train_metrics_clientapp[t]["air-heard"] for t in (1, 2, 3)] == [4, 3, 4]
    # The mean of those who sent: over four, over three, over four.
    np.testing.assert_allclose(
        result.arrays["w"].numpy(), [-(1 / 4 + 1 / 3 + 1 / 4), -1.0, -(2 + 4 / 3), -(4 + 8 / 3)], rtol=1e-6
    )
    assert "out of memory" in caplog.text


def test_rounds_in_which_all_clients_fail_leave_the_model_and_end_the_training(caplog):
    def change(arrays, _number, t):
        if t > 1:
            raise ClientError("no such file")
        return {"w": arrays["w"] - 1}

    air, seen = OverTheAir(strategies.FedAvg(), air="ideal", policy="dense"), {}
    grid, start = LocalGrid(app_of(change), 2), record(w=np.zeros(4, np.float32))
    with pytest.raises(TrainingError, match=r"up to round 4, brought no finite update.*errors of the clients"):
        air.start(grid, start, num_rounds=9, evaluate_fn=lambda t, arrays: seen.update({t: arrays["w"].numpy()[0]}))
    assert seen == {0: 0, 1: -1, 2: -1, 3: -1}
    assert caplog.text.count("no such file") == 4, "two clients in two rounds; the third round raises"


@pytest.mark.parametrize("partitions", [True, False])
def test_some_of_the_clients_train_in_each_round(partitions):
    """Three of six; without partition-ids the air is made for all nodes that are connected."""
    by = np.ones((6, 8), np.float32)
    air = OverTheAir(strategies.FedAvg(fraction_train=0.5), Waveform(snr_db=30.0), policy="dense", lr=0.5)
    grid = LocalGrid(app_of(less(by)), 6, partitions)
    result = air.start(grid, record(w=np.zeros(8, np.float32)), num_rounds=4)
    assert [metrics["air-heard"] for metrics in result.train_metrics_clientapp.values()] == [3] * 4
    assert air.session.n_clients == 6
    np.testing.assert_array_equal(result.arrays["w"].numpy(), np.full(8, -2, np.float32))  # all vote alike


@pytest.mark.parametrize(("places", "heard"), [(None, [2, 2, 2]), (3, [2, 3, 3])])
def test_a_client_that_comes_later_needs_a_place_on_the_air(caplog, places, heard):
    class Growing(strategies.FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            grid.connected = 2 if server_round == 1 else 3
            return super().configure_train(server_round, arrays, config, grid)

    by = np.ones((1, 4), np.float32)
    air = OverTheAir(Growing(), air="ideal", policy="dense", n_clients=places)
    grid = LocalGrid(app_of(less(by)), 3, partitions=False)
    grid.connected = 2
    result = air.start(grid, record(w=np.zeros(4, np.float32)), num_rounds=3)
    assert [result.train_metrics_clientapp[t]["air-heard"] for t in (1, 2, 3)] == heard
    assert ("update of client 2 is left out: the air was made for 2 clients" in caplog.text) is (places is None)


def test_two_nodes_with_one_partition_are_named():
    grid = LocalGrid(app_of(less(np.ones((2, 4), np.float32))), 2)
    grid.configs[1] = grid.configs[0]
    with pytest.raises(ConfigError, match="two nodes are client 0 on the air"):
        OverTheAir(strategies.FedAvg(), air="ideal").start(grid, record(w=np.zeros(4, np.float32)), num_rounds=1)


def test_a_mod_behind_sees_the_models_and_may_change_the_update():
    """As Flower's own mods that clip an update do."""

    def halves(message, context, call_next):
        before = message.content["arrays"]["w"].numpy()
        reply = call_next(message, context)
        reply.content["arrays"]["w"] = Array((before + reply.content["arrays"]["w"].numpy()) / 2)
        return reply

    app = app_of(less(np.ones((2, 4), np.float32)), mods=(over_the_air_mod, halves))
    air = OverTheAir(strategies.FedAvg(fraction_evaluate=0.0), air="ideal", policy="dense")
    result = air.start(LocalGrid(app, 2), record(w=np.zeros(4, np.float32)), num_rounds=1)
    np.testing.assert_array_equal(result.arrays["w"].numpy(), np.full(4, -0.5, np.float32))


def test_learning_rates_have_schedules():
    by = np.ones((2, 4), np.float32)
    rate = LearningRate(0.5, "step", factor=0.5, every=1)
    air = OverTheAir(strategies.FedAvg(), air="ideal", policy="dense", lr=rate)
    result = air.start(LocalGrid(app_of(less(by)), 2), record(w=np.zeros(4, np.float32)), num_rounds=3)
    np.testing.assert_allclose(result.arrays["w"].numpy(), -(0.5 + 0.25 + 0.125), rtol=1e-6)


def test_a_missing_mod_is_named():
    app = ClientApp()

    @app.train()
    def train(message, _context):
        content = {"arrays": message.content["arrays"], "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    air = OverTheAir(strategies.FedAvg(), air="ideal")
    with pytest.raises(ConfigError, match=r"ClientApp\(mods=\[over_the_air_mod\]\)"):
        air.start(LocalGrid(app, 2), record(w=np.zeros(4, np.float32)), num_rounds=1)


def test_the_mod_lets_other_messages_pass():
    by = np.ones((2, 4), np.float32)
    result = strategies.FedAvg().start(LocalGrid(app_of(less(by)), 2), record(w=np.zeros(4)), num_rounds=1)
    assert result.arrays["w"].numpy().tolist() == [-1] * 4


def test_a_second_start_begins_anew():
    by = np.random.default_rng(3).normal(size=(2, 50)).astype(np.float32)
    air = OverTheAir(strategies.FedAvg(), air="fading", rho=0.2)
    runs = [
        air.start(LocalGrid(app_of(less(by)), 2), record(w=np.zeros(50, np.float32)), num_rounds=3) for _ in range(2)
    ]
    np.testing.assert_array_equal(*(run.arrays["w"].numpy() for run in runs))


@pytest.mark.parametrize("name", REFUSED)
def test_strategies_that_need_each_model_are_refused(name):
    kind = getattr(strategies, name)
    made = kind.__new__(kind)  # its arguments do not matter
    with pytest.raises(ConfigError, match=f"{name} makes no sense over the air: .*Use one of FedAvg"):
        OverTheAir(made)


def test_every_strategy_of_flower_is_known():
    known = {*AVERAGING, *REFUSED, "Strategy", "Result"}
    assert set(strategies.__all__) - known == set()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"air": "wavefrom"}, "did you mean 'waveform'"),
        ({"policy": "fairk2"}, "fair-k"),
        ({"rho": 1.5}, "must be at most 1"),
        ({"air": "pluto"}, "Flower's clients do not hold"),
        ({"scheme": "fsk"}, "There are onebit, analog, energy"),
    ],
)
def test_wrong_arguments_are_named(arguments, told):
    with pytest.raises(ConfigError) as caught:
        OverTheAir(strategies.FedAvg(), **arguments)
    assert told in str(caught.value)


def test_flower_takes_the_order_as_a_config_record():
    """A ConfigRecord refuses what it cannot carry."""
    order = OverTheAir(strategies.FedAvg(), air="ideal")
    grid = LocalGrid(app_of(less(np.ones((2, 4), np.float32))), 2)
    messages = order.configure_train(1, record(w=np.zeros(4, np.float32)), ConfigRecord(), grid)
    assert {message.content[ORDER]["client"] for message in messages} == {0, 1}
