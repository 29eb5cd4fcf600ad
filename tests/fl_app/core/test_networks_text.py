# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks for text and tables: their sizes, and that no network for text looks ahead."""

import itertools

import pytest
import torch
from torch import nn

from fl_app.core.models import ModelSpec, count_parameters, get_buffers
from oac_blocks.plugins import PluginError

pytestmark = pytest.mark.usefixtures("one_thread")

VOCABULARY, CONTEXT = 11, 9
FACTS = {"vocabulary": VOCABULARY, "context": CONTEXT, "input_shape": (CONTEXT,)}
TEXT_MODELS = ("gru", "char-transformer")


def model_of(name, facts=FACTS, **args):
    return ModelSpec(name, args, facts).build(seed=3)


def some_text(samples=4):
    return torch.randint(VOCABULARY, (samples, CONTEXT), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", TEXT_MODELS)
@pytest.mark.parametrize("place", range(CONTEXT))
def test_a_character_changes_no_output_before_it(name, place):
    model, text = model_of(name, width=8, layers=2), some_text()
    other = text.clone()
    other[:, place] = (text[:, place] + 1) % VOCABULARY
    with torch.no_grad():
        before, after = model(text), model(other)
    assert before.shape == (4, CONTEXT, VOCABULARY)
    assert torch.equal(before[:, :place], after[:, :place])
    assert (before[:, place:] != after[:, place:]).flatten(2).any(dim=2).all()


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_it_has_no_buffers_that_would_have_to_travel(name):
    assert get_buffers(model_of(name)) == {}


def test_the_gru_has_as_many_parameters_as_its_layers():
    embedding, last = 78 * 64, 64 * 78 + 78
    cell = 3 * (64 * 64 + 64 * 64 + 64 + 64)  # three gates, weights of input and state, two biases
    facts = {"vocabulary": 78, "context": 64}
    assert count_parameters(model_of("gru", facts)) == embedding + cell + last == 35_022
    assert count_parameters(model_of("gru", facts, layers=3)) == embedding + 3 * cell + last


def test_the_transformer_has_as_many_parameters_as_its_layers():
    norm = 2 * 64
    attention = 64 * 192 + 192 + 64 * 64 + 64
    feed = 64 * 256 + 256 + 256 * 64 + 64
    expected = 78 * 64 + 64 * 64 + 2 * (2 * norm + attention + feed) + norm + 64 * 78 + 78
    assert count_parameters(model_of("char-transformer", {"vocabulary": 78, "context": 64})) == expected == 114_254


def test_attention_weighs_by_the_softmax_of_scaled_products():
    """One block against the formula, written out with torch's softmax and an explicit mask."""
    from fl_app.core.networks.text import CausalBlock

    with torch.random.fork_rng():
        torch.manual_seed(5)
        block, states = CausalBlock(8, 2), torch.randn(3, CONTEXT, 8)
    query, key, value = block.query_key_value(block.norm_attention(states)).split(8, dim=2)
    later = torch.ones(CONTEXT, CONTEXT).triu(1).bool()
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        products = query[..., part] @ key[..., part].transpose(1, 2) / 4**0.5
        heads.append(products.masked_fill(later, -torch.inf).softmax(dim=2) @ value[..., part])
    states_after = states + block.attended(torch.cat(heads, dim=2))
    expected = states_after + block.feed(block.norm_feed(states_after))
    torch.testing.assert_close(block(states), expected)


@pytest.mark.parametrize(
    ("facts", "last"), [({"outputs": 1, "features": 10}, 1), ({"classes": 4}, 4), ({"classes": 4, "outputs": 9}, 4)]
)
@pytest.mark.parametrize("layers", [0, 2])
def test_the_perceptron_takes_its_ends_from_the_data(facts, last, layers):
    model = model_of("mlp", {"input_shape": (2, 5), **facts}, hidden=7, layers=layers)
    assert model(torch.zeros(3, 2, 5)).shape == (3, last)
    widths = [10] + [7] * layers + [last]
    expected = list(itertools.pairwise(widths))
    linear = [stage for stage in model if isinstance(stage, nn.Linear)]
    assert [(stage.in_features, stage.out_features) for stage in linear] == expected


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("gru", {"width": 0}, "width must be 1 or more, not 0"),
        ("gru", {"layers": 0}, "layers must be 1 or more, not 0"),
        ("gru", {"vocabulary": 1}, "vocabulary must be 2 or more, not 1"),
        ("char-transformer", {"heads": 3}, "width must be a multiple of heads = 3, not 64"),
        ("char-transformer", {"heads": 0}, "heads must be 1 or more, not 0"),
        ("mlp", {}, "mlp needs the number of outputs or of classes"),
        ("mlp", {"outputs": 1, "hidden": 0}, "hidden must be 1 or more, not 0"),
        ("mlp", {"outputs": 1, "layers": -1}, "layers must be 0 or more, not -1"),
    ],
)
def test_bad_arguments_are_named(name, args, message):
    with pytest.raises(PluginError, match=message):
        model_of(name, **args)
