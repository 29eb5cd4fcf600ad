# SPDX-License-Identifier: GPL-3.0-or-later
"""CIFAR-10 from the real files where tests/support/cifar10.py finds them; CIFAR-100 from small files of its format."""

from __future__ import annotations

import hashlib
import os
import pickle

import numpy as np
import pytest

from fl_app.core.torchvision_compat import load_torchvision
from fl_app.data import DataError, load_dataset

pytestmark = pytest.mark.usefixtures("offline")


# ---------------------------------------------------------------------------------------------------------------
# CIFAR-100 and CIFAR-10 in small


@pytest.fixture
def small_cifar(tmp_path, monkeypatch):
    """Writes a small set, and gives torchvision's class the checksums of these files; all else is its own."""

    def write(kind, batches, label_key, names_key, classes):
        folder = tmp_path / kind.base_folder
        folder.mkdir()
        rng = np.random.default_rng(5)
        arrays, sums = {}, {}
        contents = {kind.meta["filename"]: {names_key: [f"class {number}" for number in range(classes)]}}
        for name, count in batches.items():
            pixels = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
            arrays[name] = pixels, (np.arange(count) * 7 % classes).tolist()
            contents[name] = {"data": pixels, label_key: arrays[name][1], "coarse_labels": [0] * count}
        for name, content in contents.items():
            raw = pickle.dumps(content, protocol=2)
            (folder / name).write_bytes(raw)
            sums[name] = hashlib.md5(raw, usedforsecurity=False).hexdigest()
        monkeypatch.setattr(kind, "train_list", [[name, sums[name]] for name, _ in kind.train_list])
        monkeypatch.setattr(kind, "test_list", [[name, sums[name]] for name, _ in kind.test_list])
        monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": sums[kind.meta["filename"]]})
        return folder, arrays

    return write


def test_cifar100(tmp_path, small_cifar, offline):
    kind = load_torchvision().datasets.CIFAR100
    _, arrays = small_cifar(kind, {"train": 200, "test": 100}, "fine_labels", "fine_label_names", 100)
    data = load_dataset("CIFAR-100", tmp_path)
    assert (data.name, data.classes, data.channels, data.image_size) == ("cifar100", 100, 3, 32)
    np.testing.assert_array_equal(data.train_images.reshape(200, -1), arrays["train"][0])
    np.testing.assert_array_equal(data.train_labels, arrays["train"][1])
    np.testing.assert_array_equal(data.test_images.reshape(100, -1), arrays["test"][0])
    assert data.train_images.flags.c_contiguous
    assert data.class_names[99] == "class 99"
    assert offline == []


def test_cifar10_batches_come_in_order(tmp_path, small_cifar):
    kind = load_torchvision().datasets.CIFAR10
    batches = {f"data_batch_{number}": 10 + number for number in range(1, 6)} | {"test_batch": 12}
    _, arrays = small_cifar(kind, batches, "labels", "label_names", 10)
    data = load_dataset("cifar10", tmp_path, download=False)
    expected = np.concatenate([arrays[f"data_batch_{number}"][0] for number in range(1, 6)])
    np.testing.assert_array_equal(data.train_images.reshape(len(expected), -1), expected)


@pytest.mark.parametrize("download", [False, True])
@pytest.mark.parametrize("name", ["train", "test", "meta"])
def test_a_truncated_batch_is_named(tmp_path, small_cifar, name, download):
    kind = load_torchvision().datasets.CIFAR100
    folder, _ = small_cifar(kind, {"train": 200, "test": 100}, "fine_labels", "fine_label_names", 100)
    path = folder / name
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="truncated or damaged") as caught:
        load_dataset("cifar100", tmp_path, download=download)
    assert str(path) in str(caught.value)


def test_a_foreign_pickle_is_not_opened(tmp_path, small_cifar):
    """Batches are pickles, which can run code when loaded: what the checksum does not know is never loaded."""
    kind = load_torchvision().datasets.CIFAR100
    folder, _ = small_cifar(kind, {"train": 200, "test": 100}, "fine_labels", "fine_label_names", 100)
    marker = tmp_path / "was opened"

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(marker),)

    (folder / "train").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataError, match="damaged"):
        load_dataset("cifar100", tmp_path, download=False)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("name", "folder", "file"),
    [("cifar10", "cifar-10-batches-py", "data_batch_3"), ("cifar100", "cifar-100-python", "train")],
)
def test_an_empty_folder_says_which_files_go_where(tmp_path, offline, name, folder, file):
    for download, reason in ((False, "switched off"), (True, "no network in tests")):
        with pytest.raises(DataError, match=reason) as caught:
            load_dataset(name, tmp_path, download=download)
        assert file in str(caught.value)
        assert str(tmp_path / folder) in str(caught.value)
    assert len(offline) == 1


# ---------------------------------------------------------------------------------------------------------------
# The real CIFAR-10


def test_the_real_cifar10(cifar10_root, offline):
    data = load_dataset("cifar10", cifar10_root)
    assert data.train_images.shape == (50_000, 3, 32, 32)
    assert data.test_images.shape == (10_000, 3, 32, 32)
    assert (np.bincount(data.train_labels) == 5_000).all()
    assert (np.bincount(data.test_labels) == 1_000).all()
    assert data.class_names[:3] == ("airplane", "automobile", "bird")
    # The figures that are published with most training recipes.
    assert data.mean == pytest.approx((0.4914, 0.4822, 0.4465), abs=6e-5)
    assert data.std == pytest.approx((0.2470, 0.2435, 0.2616), abs=6e-5)
    assert offline == []


def test_a_truncated_real_batch_is_named(cifar10_root, tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for path in (cifar10_root / "cifar-10-batches-py").iterdir():
        (folder / path.name).symlink_to(path)
    batch = folder / "data_batch_4"
    batch.unlink()
    with (cifar10_root / "cifar-10-batches-py" / "data_batch_4").open("rb") as source:
        batch.write_bytes(source.read(1_000_000))
    with pytest.raises(DataError, match=r"data_batch_4 is truncated or damaged \(1000000 bytes"):
        load_dataset("cifar10", tmp_path, download=False)
