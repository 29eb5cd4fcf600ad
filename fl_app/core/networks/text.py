# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the networks that predict the next character. Neither looks ahead, and neither has buffers."""

from __future__ import annotations

import torch
from torch import nn

from fl_app.core.sizes import check_sizes


class CharacterGRU(nn.Module):
    """Read characters one after the other with gated recurrent units, and score every successor at each of them."""

    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.recurrent = nn.GRU(width, width, layers, batch_first=True)
        self.scores = nn.Linear(width, vocabulary)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        states, _ = self.recurrent(self.embedding(characters))
        scores: torch.Tensor = self.scores(states)
        return scores


class CausalBlock(nn.Module):
    """Apply causal self-attention and a feed-forward layer, each after a layer norm and around a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        samples, length, width = states.shape
        triple = self.query_key_value(self.norm_attention(states)).reshape(samples, length, 3, self.heads, -1)
        query, key, value = triple.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        states = states + self.attended(mixed.transpose(1, 2).reshape(samples, length, width))
        result: torch.Tensor = states + self.feed(self.norm_feed(states))
        return result


class CharacterTransformer(nn.Module):
    """Predict characters by causal self-attention over a window, with a learned vector for each position."""

    def __init__(self, vocabulary: int, context: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks = nn.Sequential(*(CausalBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, vocabulary)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        states = self.embedding(characters) + self.positions[: characters.shape[1]]
        scores: torch.Tensor = self.scores(self.norm(self.blocks(states)))
        return scores


def gru(vocabulary: int, width: int = 64, layers: int = 1) -> nn.Module:
    """Build a recurrent network for text: embedding, GRU, linear.

    It has 35,022 parameters for 78 characters.

    Parameters
    ----------
    vocabulary
        Number of different characters, 2 or more.
    width
        Number of units of a layer, and length of a character's embedding.
    layers
        Number of GRU layers.
    """
    check_sizes(2, vocabulary=vocabulary)
    check_sizes(1, width=width, layers=layers)
    return CharacterGRU(vocabulary, width, layers)


def char_transformer(vocabulary: int, context: int, width: int = 64, layers: int = 2, heads: int = 4) -> nn.Module:
    """Build a small causal transformer for text, with layer norm before each part.

    It has 114,254 parameters for 78 characters and windows of 64.

    Parameters
    ----------
    vocabulary
        Number of different characters, 2 or more.
    context
        Largest number of characters in a window.
    width
        Length of a character's vector; a multiple of `heads`.
    layers
        Number of blocks of attention and feed-forward layer.
    heads
        Number of attention heads of a block.
    """
    check_sizes(2, vocabulary=vocabulary)
    check_sizes(1, context=context, width=width, layers=layers, heads=heads)
    if width % heads:
        raise ValueError(f"width must be a multiple of heads = {heads}, not {width}")
    return CharacterTransformer(vocabulary, context, width, layers, heads)
