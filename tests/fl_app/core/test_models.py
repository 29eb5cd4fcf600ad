# SPDX-License-Identifier: GPL-3.0-or-later
"""The models' sizes, their flat view, their seeds, and batch-norm statistics over several clients."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from fl_app.core.models import (
    average_buffers,
    build_model,
    count_parameters,
    get_buffers,
    get_gradients,
    get_parameters,
    measure_buffers,
    parameter_layout,
    set_buffers,
    set_parameters,
)
from tests.fl_app.core.small_models import images, small_resnet
from tests.support.paths import ROOT

pytestmark = pytest.mark.usefixtures("one_thread")


def test_cnn_has_the_papers_number_of_parameters():
    model = build_model("cnn", 26)
    assert count_parameters(model) == get_parameters(model).size == 109_402
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 26)


def test_resnet18_has_the_papers_number_of_parameters():
    model = build_model("resnet18", 10, in_channels=3, image_size=32)
    assert count_parameters(model) == 11_173_962
    assert model.eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 10)


def test_resnet18_differs_from_torchvisions_in_the_stem_alone():
    from fl_app.core.torchvision_compat import load_torchvision

    theirs = {name: tuple(p.shape) for name, p in load_torchvision().models.resnet18().named_parameters()}
    ours = {name: tuple(p.shape) for name, p in build_model("resnet18", 1000, 3, 32).named_parameters()}
    assert theirs.pop("conv1.weight") == (64, 3, 7, 7)
    assert ours.pop("conv1.weight") == (64, 3, 3, 3)
    assert ours == theirs


def test_resnet18_keeps_the_full_picture_up_to_the_second_stage():
    model = small_resnet()
    shapes = []
    for layer in (model.conv1, model.layer1, model.layer2, model.layer3, model.layer4):
        layer.register_forward_hook(lambda _m, _i, output: shapes.append(tuple(output.shape[1:])))
    model.eval()(torch.zeros(1, 3, 32, 32))
    assert shapes == [(4, 32, 32), (4, 32, 32), (8, 16, 16), (16, 8, 8), (32, 4, 4)]


@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 32), (1, 8), (2, 17)])
@pytest.mark.parametrize("name", ["cnn", "ResNet-18"])
def test_models_take_other_image_shapes(name, channels, size):
    model = build_model(name, 7, in_channels=channels, image_size=size, width=4)
    assert model.eval()(torch.zeros(3, channels, size, size)).shape == (3, 7)


@pytest.mark.parametrize("name", ["cnn", "resnet18"])
def test_the_seed_decides_and_the_global_generator_is_left_alone(name):
    torch.manual_seed(99)
    before = torch.get_rng_state()
    first = get_parameters(build_model(name, 10, width=4, seed=1))
    assert (torch.get_rng_state() == before).all()
    torch.rand(3)
    assert (get_parameters(build_model(name, 10, width=4, seed=1)) == first).all()
    assert (get_parameters(build_model(name, 10, width=4, seed=2)) != first).any()


def test_weights_start_as_torchvision_starts_them():
    """Kaiming normal, fan out: the variance of a k x k convolution with n outputs is 2 / (k^2 n)."""
    model = build_model("resnet18", 10, in_channels=3, image_size=32, width=32)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 4:
            outputs, _, height, width = parameter.shape
            expected = 2 / (height * width * outputs)
            tolerance = 5 * (2 / parameter.numel()) ** 0.5  # five standard errors of a variance
            assert float(parameter.detach().var()) == pytest.approx(expected, rel=tolerance), name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "resnet19"}, "did you mean 'resnet18'"),
        ({"name": "CNNN"}, "did you mean 'cnn'"),
        ({"classes": 1}, "classes must be 2 or more, not 1"),
        ({"in_channels": 0}, "in_channels must be 1 or more, not 0"),
        ({"image_size": 7}, "image_size must be 8 or more, not 7"),
        ({"name": "resnet18", "width": 0}, "width must be 1 or more, not 0"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        build_model(**{"name": "cnn", "classes": 10, **arguments})


# ---------------------------------------------------------------------------------------------------------------
# The flat vector


def test_parameters_survive_the_round_trip():
    model = small_resnet(seed=1)
    vector = get_parameters(model)
    assert vector.dtype == np.float32
    assert vector.ndim == 1
    other = small_resnet(seed=2)
    set_parameters(other, vector)
    assert (get_parameters(other) == vector).all()
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_vector_is_a_copy():
    model = build_model("cnn", 10)
    vector = get_parameters(model)
    kept = vector.copy()
    vector[:] = 0
    assert (get_parameters(model) == kept).all()
    set_parameters(model, vector)
    vector[:] = 1
    assert (get_parameters(model) == 0).all()


def test_a_read_only_vector_is_fine():
    model = build_model("cnn", 10)
    vector = np.arange(count_parameters(model), dtype=np.float64)
    vector.flags.writeable = False
    set_parameters(model, vector)
    assert (get_parameters(model) == vector.astype(np.float32)).all()


def test_layout_names_every_entry_of_the_vector():
    model = small_resnet()
    vector, tensors = get_parameters(model), dict(model.named_parameters())
    layout = parameter_layout(model)
    assert layout[0].start == 0
    assert layout[-1].stop == vector.size
    for before, after in itertools.pairwise(layout):
        assert before.stop == after.start
    for slot in layout:
        piece = vector[slot.start : slot.stop].reshape(slot.shape)
        assert (piece == tensors[slot.name].detach().numpy()).all(), slot.name


def test_frozen_parameters_do_not_travel():
    model = build_model("cnn", 26)
    model[0].weight.requires_grad = False
    assert count_parameters(model) == 109_402 - 600
    assert "0.weight" not in [slot.name for slot in parameter_layout(model)]


def test_gradients_come_in_the_order_of_the_parameters():
    model = build_model("cnn", 10)
    with pytest.raises(ValueError, match="backward"):
        get_gradients(model)
    weights = np.random.default_rng(0).standard_normal(count_parameters(model)).astype(np.float32)
    loss = sum(
        (parameter * torch.from_numpy(weights[slot.start : slot.stop].reshape(slot.shape))).sum()
        for slot, parameter in zip(parameter_layout(model), model.parameters(), strict=True)
    )
    loss.backward()
    assert (get_gradients(model) == weights).all(), "the gradient of <c, w> is c"


def test_a_step_on_the_vector_is_sgds_step():
    model = build_model("cnn", 10, seed=3)
    twin = build_model("cnn", 10, seed=3)
    batch, labels = images(8, channels=1, size=28), torch.arange(8)
    for network in (model, twin):
        nn.functional.cross_entropy(network(batch), labels).backward()
    torch.optim.SGD(twin.parameters(), lr=0.1).step()
    set_parameters(model, get_parameters(model) - np.float32(0.1) * get_gradients(model))
    np.testing.assert_allclose(get_parameters(model), get_parameters(twin), rtol=0, atol=1e-7)


def test_unreached_parameters_have_zero_gradient():
    model = build_model("cnn", 10)
    model[-1].bias.sum().backward()
    gradient = get_gradients(model)
    assert (gradient[-10:] == 1).all()
    assert (gradient[:-10] == 0).all()


@pytest.mark.parametrize("shape", [(5,), (109_401,), (109_402, 1)])
def test_a_vector_of_the_wrong_size_is_refused(shape):
    with pytest.raises(ValueError, match=r"\(109402,\)"):
        set_parameters(build_model("cnn", 26), np.zeros(shape))


# ---------------------------------------------------------------------------------------------------------------
# torchvision


def fresh_interpreter(code):
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_the_cnn_needs_no_torchvision():
    code = (
        "import sys; from fl_app.core import models; models.build_model('cnn', 26); print('torchvision' in sys.modules)"
    )
    assert fresh_interpreter(code) == ["False"]


def test_torchvision_imports_with_its_operators_or_without():
    code = (
        "from fl_app.core.torchvision_compat import load_torchvision, _declarations\n"
        "tv = load_torchvision(); assert load_torchvision() is tv\n"
        "import torchvision; assert torchvision is tv\n"
        "from torchvision.extension import _has_ops\n"
        "print(_has_ops(), len(_declarations))"
    )
    has_operators, declarations = fresh_interpreter(code)
    assert (has_operators, declarations) in {("True", "0"), ("False", "1")}, "declared where needed, and only there"


@pytest.mark.slow
def test_statistics_measured_by_the_clients_evaluate_as_well_as_central_ones():
    """Federated training of a small network with batch norm on uneven clients, with large steps and without any air.

    The server's test accuracy with statistics that each client measures on one batch of its own and the server pools,
    against statistics measured in one place on 1,000 training images; and with the clients' running averages.
    """
    from fl_app.data import load_dataset, partition

    data = load_dataset("letters")
    rng = np.random.default_rng(0)
    parts = partition(data.train_labels, 4, "dirichlet", rng, alpha=0.3)
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 5, stride=2), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(32 * 5 * 5, 26)),
    )
    set_parameters(model, torch.randn(count_parameters(model), generator=generator).numpy() * 0.05)
    weights, buffers = get_parameters(model), get_buffers(model)
    test_images, labels = torch.from_numpy(data.normalise(data.test_images)), torch.from_numpy(data.test_labels)

    def batch(indices):
        return torch.from_numpy(data.normalise(data.train_images[indices]))

    def gradient(indices):
        model.zero_grad()
        nn.functional.cross_entropy(model(batch(indices)), torch.from_numpy(data.train_labels[indices])).backward()
        return get_gradients(model)

    for _ in range(60):
        total, statistics = np.zeros_like(weights), []
        for part in parts:
            local = weights.copy()
            set_buffers(model.train(), buffers)
            for _ in range(5):
                set_parameters(model, local)
                step = gradient(rng.choice(part, 50))
                local -= np.float32(0.1) * step
                total += step / 4
            statistics.append(get_buffers(model))
        weights -= np.float32(0.2) * total
        buffers = average_buffers(statistics)
    set_parameters(model, weights)

    def accuracy(chosen):
        set_buffers(model.eval(), chosen)
        with torch.no_grad():
            predicted = torch.cat([model(block) for block in test_images.split(650)]).argmax(1)
        return float((predicted == labels).float().mean())

    running = accuracy(buffers)
    pooled = accuracy(average_buffers([measure_buffers(model, [batch(rng.choice(part, 50))]) for part in parts]))
    everywhere = rng.choice(len(data.train_labels), 1000, replace=False)
    central = accuracy(measure_buffers(model, [batch(some) for some in np.split(everywhere, 4)]))
    print(f"running averages {running:.3f}, measured by the clients {pooled:.3f}, measured centrally {central:.3f}")
    assert pooled > 0.3, "it has learnt something (chance is 0.04)"
    assert pooled > central - 0.03
