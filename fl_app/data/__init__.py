# SPDX-License-Identifier: GPL-3.0-or-later
"""Load data sets and divide them among clients."""

from fl_app.data.dataset import DataError, Dataset
from fl_app.data.load import DATASET_NAMES, canonical_dataset_name, load_dataset
from fl_app.data.partition import PARTITION_NAMES, partition

__all__ = [
    "DATASET_NAMES",
    "PARTITION_NAMES",
    "DataError",
    "Dataset",
    "canonical_dataset_name",
    "load_dataset",
    "partition",
]
