# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples for the tests of the engines. Workers import this module, so it imports little."""

import os
import signal

import numpy as np
import torch

from fl_app.core.samples import ArraySamples


def arrays(n, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 1, 8, 8)).astype(np.float32), rng.integers(0, 4, n)


def make_samples(n, seed):
    return ArraySamples(*arrays(n, seed))


class TorchData(torch.utils.data.Dataset):
    def __init__(self, n):
        self.inputs, self.targets = arrays(n, 50)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.inputs[index] + torch.rand(1).numpy(), self.targets[index]


class Deadly(ArraySamples):
    """Kill the process that reads them, as long as fewer than `times` processes have died of it."""

    def __init__(self, folder, times, seed):
        super().__init__(*arrays(20, seed))
        self.folder, self.times = folder, times

    def batch(self, indices, rng):
        if len(list(self.folder.iterdir())) < self.times:
            (self.folder / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().batch(indices, rng)


class StuckOn(ArraySamples):
    """Wait for ever on one node of the cluster, once its process has written its number into a folder."""

    def __init__(self, folder, node, seed):
        super().__init__(*arrays(20, seed))
        self.folder, self.node = folder, node

    def batch(self, indices, rng):
        import ray

        if ray.get_runtime_context().get_node_id() == self.node:
            (self.folder / str(os.getpid())).touch()
            signal.pause()
        return super().batch(indices, rng)
