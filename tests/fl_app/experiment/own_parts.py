# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that a researcher brings: a model, data, a policy that copies FAIR-k, an air, a task, and broken ones."""

import numpy as np
import torch
from torch import nn

from fl_app import Data, Task, Uplink

FEATURES, CLASSES = 12, 3


def points(n, seed):
    """Return n points of FEATURES coordinates; the largest of the first three is the class."""
    inputs = np.random.default_rng(seed).normal(size=(n, FEATURES)).astype(np.float32)
    return inputs, inputs[:, :CLASSES].argmax(axis=1)


def load_points(n=240):
    return Data(points(n, 1), points(80, 2), name="points")


class PointSet(torch.utils.data.Dataset):
    """The same points item by item, with noise from torch's global generator as an augmentation has."""

    def __init__(self, n, seed, noise=0.0):
        (self.inputs, self.labels), self.noise = points(n, seed), noise

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        inputs = torch.from_numpy(self.inputs[index])
        return inputs + self.noise * torch.randn(FEATURES), int(self.labels[index])


class Net(nn.Module):
    def __init__(self, classes, width=16, dropout=0.0):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, classes)
        )

    def forward(self, inputs):
        return self.layers(inputs)


class FairKByHand:
    """FAIR-k as somebody would write it down, with its draws in the built-in one's order."""

    def __init__(self, k, k_m, rng):
        self.k, self.k_m, self.rng = k, k_m, rng

    def next(self, g, age):
        by_size = self._largest(np.abs(g), np.arange(g.size), self.k_m)
        rest = np.setdiff1d(np.arange(g.size), by_size)
        return np.concatenate([by_size, self._largest(age[rest], rest, self.k - self.k_m)])

    def _largest(self, values, indices, count):
        if count == 0:
            return indices[:0]
        threshold = np.sort(values)[-count]
        above, tied = indices[values > threshold], indices[values == threshold]
        places = count - above.size
        if places < tied.size:
            tied = tied[self.rng.choice(tied.size, places, replace=False, shuffle=False)]
        return np.concatenate([above, tied])


class PlainMean:
    """An air that has nothing but uplink; it counts its rounds."""

    def __init__(self):
        self.rounds = 0

    def uplink(self, payload, clients, t):
        self.rounds += 1
        return payload.mean(axis=0, dtype=np.float64)

    def state(self):
        return {"rounds": self.rounds}

    def load_state(self, state):
        self.rounds = state["rounds"]


def first_client_alone(n_clients):
    """Return an air that hears client 0 alone."""

    class One:
        scheme = "analog"

        def uplink(self, payload, clients, t):
            return Uplink(payload[0], clients[:1], symbols=1, air_seconds=1e-3)

    return One()


class Hinge(Task):
    name = "hinge"

    def loss(self, outputs, targets):
        return nn.functional.multi_margin_loss(outputs, targets)


def nothing_to_train():
    return nn.Identity()


def raises(classes):
    raise RuntimeError(f"no network for {classes} classes today")


def not_a_module():
    return 3


def wrong_shape():
    return nn.Linear(FEATURES + 1, CLASSES)
