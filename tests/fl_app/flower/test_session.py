# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's and the clients' part of Flower's training over the air, without Flower."""

import importlib.util

import numpy as np
import pytest

import fl_app.flower
from fl_app import Experiment
from fl_app.flower.layout import BUFFERS, Layout, update_of
from fl_app.flower.order import RoundOrder, packed, unpacked
from fl_app.flower.session import AirSession
from fl_app.flower.suitable import fault_of
from fl_app.runs.prepare import Objects
from fl_app.runs.run import TrainingError
from tests.support.flower import N_CLIENTS, ROUNDS, small_settings, trained


def model():
    rng = np.random.default_rng(1)
    return {
        "conv.weight": rng.normal(size=(2, 3)).astype(np.float32),
        "bn.running_mean": np.zeros(2, np.float32),
        "bn.num_batches_tracked": np.array(7),
        "fc.bias": rng.normal(size=5),
        "steps": np.arange(3),
    }


def session_of(settings, w):
    return AirSession(settings, Objects(), {"w": w}, BUFFERS, local_lr=1.0)


@pytest.mark.parametrize(
    ("air", "scheme"),
    [("waveform", "onebit"), ("waveform", "analog"), ("fading", "energy"), ("ideal", "analog"), ("digital", "onebit")],
)
def test_rounds_are_those_of_fl_app_train_bit_for_bit(air, scheme):
    settings = small_settings(air, scheme)
    run = Experiment.from_settings(settings)
    w = run.server.w.copy()
    session = session_of(settings, w)
    session.open(N_CLIENTS)
    for t, _row in enumerate(run.rounds(ROUNDS)):
        order = session.order({"w": w}, t)
        payloads = {
            n: order.payload({"w": w}, {"w": trained(settings, n, t, w)}, n) for n in reversed(range(N_CLIENTS))
        }
        assert session.deliver(payloads, t) is not None
        w = session.layout.rounded(session.arrays())["w"]
        np.testing.assert_array_equal(w, run.server.w)
        np.testing.assert_array_equal(session.server.g, run.server.g)
        np.testing.assert_array_equal(session.server.selected, run.server.selected)
    session.close()


def test_a_layout_leaves_statistics_and_integers_beside_the_air():
    arrays = model()
    layout = Layout.of(arrays, BUFFERS)
    assert layout.names == ("conv.weight", "fc.bias")
    assert layout.d == 11
    w = layout.vector(arrays)
    back = layout.rounded(layout.cut(w))
    np.testing.assert_array_equal(back["conv.weight"], arrays["conv.weight"])
    assert [array.dtype for array in back.values()] == [np.float32, np.float64]
    with pytest.raises(ValueError, match="no array of floating-point numbers for the air: it has steps"):
        Layout.of({"steps": arrays["steps"]}, BUFFERS)


def test_averages_of_one_model_round_to_that_model():
    """As a strategy forms them: the sum of weights that add up to one only nearly, times the same array."""
    layout = Layout.of({"w": np.zeros(1000, np.float32)}, ())
    w = np.random.default_rng(2).normal(size=1000).astype(np.float32)
    weights = np.random.default_rng(3).random(50)
    average = sum(layout.cut(w)["w"] * weight for weight in weights / weights.sum())
    np.testing.assert_array_equal(layout.rounded({"w": average})["w"], w)


def test_an_update_is_the_change_over_the_learning_rate():
    before = model()
    after = {name: array - 0.5 * (array.dtype.kind == "f") for name, array in before.items()}
    names = ["conv.weight", "fc.bias"]
    np.testing.assert_allclose(update_of(before, after, names, local_lr=0.1), np.full(11, 5.0), rtol=1e-6)
    with pytest.raises(ValueError, match=r"fc.bias \(missing, not \(5,\)\)"):
        update_of(before, {name: array for name, array in after.items() if name != "fc.bias"}, names, 1.0)


def test_an_order_survives_its_record_and_bits():
    selected = np.array([0, 3, 8])
    order = RoundOrder(2, 1, 0, "onebit", 1.0, 0.0, ["w"], packed(selected, 9))
    again = RoundOrder.from_record(order.for_client(4))
    assert (again.client, again.names) == (4, ["w"])
    np.testing.assert_array_equal(np.flatnonzero(unpacked(again.selected, 9)), selected)
    with pytest.raises(ValueError, match="2 bytes, but 20 entries need 3"):
        unpacked(again.selected, 20)
    with pytest.raises(ValueError, match="server and clients need the same gr-oac"):
        RoundOrder.from_record({"t": 1})


def test_votes_are_the_signs_of_the_selected_entries():
    order = RoundOrder(0, 1, 0, "fsk-mv", 1.0, 0.0, ["w"], packed(np.array([1, 2]), 3))
    before, after = {"w": np.zeros(3, np.float32)}, {"w": np.float32([5, -2, 3])}
    assert order.payload(before, after, 0).tolist() == [1, -1]
    assert order.payload(before, {"w": np.float32([np.nan, 0, 0])}, 0) is None


def test_rounds_without_an_update_leave_the_model_and_end_the_training():
    settings = small_settings("ideal", "analog")
    w = np.ones(8, np.float32)
    session = session_of(settings, w)  # no client has answered yet, so that there is no air
    assert session.deliver({}, 0) is None
    np.testing.assert_array_equal(session.arrays()["w"], w)
    assert session.deliver({}, 1) is None
    with pytest.raises(TrainingError, match="up to round 3, brought no finite update"):
        session.deliver({}, 2)


def test_what_is_no_strategy_is_refused():
    class Older:
        def configure_fit(self):
            """As strategies of Flower's older interface have it."""

    assert "older interface" in fault_of(Older())
    assert "write Older()" in fault_of(Older)
    assert "not int" in fault_of(3)


@pytest.mark.skipif(importlib.util.find_spec("flwr") is not None, reason="Flower is installed here")
def test_without_flower_the_way_to_it_is_told():
    with pytest.raises(ImportError, match=r"needs Flower 1.41 or later.*pip install 'gr-oac\[flower\]'"):
        fl_app.flower.OverTheAir  # noqa: B018
