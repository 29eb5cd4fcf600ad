# SPDX-License-Identifier: GPL-3.0-or-later
"""Load data sets and divide them among clients."""

from fl_app.data.dataset import DataError, Dataset
from fl_app.data.load import load_dataset
from fl_app.data.partition import PARTITION_NAMES, partition
from fl_app.data.registry import canonical_dataset_name, dataset_names, register_dataset

__all__ = [
    "PARTITION_NAMES",
    "DataError",
    "Dataset",
    "canonical_dataset_name",
    "dataset_names",
    "load_dataset",
    "partition",
    "register_dataset",
]
