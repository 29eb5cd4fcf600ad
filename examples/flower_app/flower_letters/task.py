# SPDX-License-Identifier: GPL-3.0-or-later
"""The model, the data and the training of the app. Nothing here knows of the air."""

from functools import cache

import torch
from torch import nn

from fl_app.data import load_dataset

TRAINING_SAMPLES, TEST_SAMPLES = 2000, 1000


def make_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 32), nn.ReLU(), nn.Linear(32, 26))


@cache
def data(train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return some of the drawn letters; nothing is downloaded."""
    letters = load_dataset("letters")
    count = TRAINING_SAMPLES if train else TEST_SAMPLES
    images, labels = (
        (letters.train_images, letters.train_labels) if train else (letters.test_images, letters.test_labels)
    )
    chosen = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))[:count]
    return (torch.from_numpy(images)[chosen] / 255 - 0.2) / 0.35, torch.from_numpy(labels)[chosen]


def share(partition: int, partitions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the letters of one client: every N-th of them."""
    inputs, targets = data(train=True)
    return inputs[partition::partitions], targets[partition::partitions]


def train(model: nn.Module, inputs, targets, steps: int, batch_size: int, lr: float, seed: int) -> float:
    """Run steps of SGD, and return the mean loss."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr), []
    order = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        batch = torch.randperm(len(targets), generator=order)[:batch_size]
        loss = nn.functional.cross_entropy(model(inputs[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def accuracy(model: nn.Module) -> float:
    inputs, targets = data(train=False)
    with torch.no_grad():
        return (model(inputs).argmax(dim=1) == targets).float().mean().item()
