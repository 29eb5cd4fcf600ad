# SPDX-License-Identifier: GPL-3.0-or-later
"""MNIST, EMNIST letters and FashionMNIST from idx files: small ones of the test's own, and Debian's real ones."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from fl_app.core.torchvision_compat import load_torchvision
from fl_app.data import DataError, idx_sets, load_dataset
from fl_app.data.idx import check_idx, read_idx

RNG = np.random.default_rng(0)


def idx_bytes(array):
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def some_images(count):
    return RNG.integers(0, 256, (count, 28, 28), dtype=np.uint8)


def write_set(folder, names, first_label, classes, train=52, test=26, packed=False):
    """Four files as the originals are laid out; returns the arrays in the order of `names`."""
    folder.mkdir(parents=True)
    arrays = []
    for count in (train, test):
        arrays += [some_images(count), (np.arange(count) % classes + first_label).astype(np.uint8)]
    for name, array in zip(names, arrays, strict=True):
        raw = idx_bytes(array)
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(raw) if packed else raw)
    return arrays


@pytest.fixture
def no_debian(monkeypatch, tmp_path):
    monkeypatch.setattr(idx_sets, "DEBIAN_FASHION_MNIST", tmp_path / "not-there")


# ---------------------------------------------------------------------------------------------------------------
# The reader


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_what_was_written_is_read(tmp_path, pack):
    path = tmp_path / "file"
    for array in (some_images(3), np.arange(7, dtype=np.uint8), np.zeros((0, 28, 28), np.uint8)):
        path.write_bytes(pack(idx_bytes(array)))
        read = read_idx(path, array.ndim)
        assert read.dtype == np.uint8
        assert read.flags.writeable
        np.testing.assert_array_equal(read, array)


GOOD = idx_bytes(np.arange(200, dtype=np.uint8).reshape(2, 10, 10))
DAMAGE = {
    "empty": (b"", "truncated: 0 bytes"),
    "in the header": (GOOD[:10], "truncated: 10 bytes"),
    "one byte short": (GOOD[:-1], "truncated: 199 bytes of data"),
    "one byte long": (GOOD + b"x", "damaged: 201 bytes of data"),
    "labels for images": (idx_bytes(np.zeros(50, np.uint8)), "starts with 00000801, not with 00000803"),
    "floats": (b"\0\0\x0d\x03" + GOOD[4:], "starts with 00000d03"),
    "a web page": (b"<!DOCTYPE html><html><body>not found", "not an idx file"),
    "a huge size": (GOOD[:4] + b"\xff" * 12, "truncated: 0 bytes of data"),
}


@pytest.mark.parametrize(("raw", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named_with_the_file(tmp_path, raw, message):
    path = tmp_path / "train-images"
    path.write_bytes(raw)
    for reader in (read_idx, check_idx):
        with pytest.raises(DataError, match=message) as caught:
            reader(path, 3)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("cut", [5, 40, -8, -1])
def test_a_truncated_gzip_is_named(tmp_path, cut):
    path = tmp_path / "train-images.gz"
    path.write_bytes(gzip.compress(GOOD)[:cut])
    with pytest.raises(DataError, match=r"train-images\.gz is truncated or damaged"):
        read_idx(path, 3)


def test_a_damaged_gzip_is_named(tmp_path):
    raw = bytearray(gzip.compress(GOOD))
    raw[30] ^= 0xFF
    path = tmp_path / "train-images.gz"
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"train-images\.gz is truncated or damaged"):
        read_idx(path, 3)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*nothing: No such file"):
        read_idx(tmp_path / "nothing", 3)


# ---------------------------------------------------------------------------------------------------------------
# MNIST and EMNIST through torchvision


def test_mnist(tmp_path, offline):
    arrays = write_set(tmp_path / "MNIST" / "raw", idx_sets.MNIST_FILES, 0, 10)
    data = load_dataset("MNIST", tmp_path)
    np.testing.assert_array_equal(data.train_images[:, 0], arrays[0])
    np.testing.assert_array_equal(data.train_labels, arrays[1])
    np.testing.assert_array_equal(data.test_images[:, 0], arrays[2])
    np.testing.assert_array_equal(data.test_labels, arrays[3])
    assert (data.name, data.classes, data.channels, data.image_size) == ("mnist", 10, 1, 28)
    assert offline == [], "what is there is not downloaded"


def test_emnist_letters_are_put_right(tmp_path, offline):
    arrays = write_set(tmp_path / "EMNIST" / "raw", idx_sets.EMNIST_FILES, 1, 26)
    data = load_dataset("emnist-letters", tmp_path, download=False)
    assert data.classes == 26
    assert data.class_names[data.train_labels[0]] == "A"
    np.testing.assert_array_equal(data.train_labels, arrays[1].astype(int) - 1)
    np.testing.assert_array_equal(data.test_labels, arrays[3].astype(int) - 1)
    np.testing.assert_array_equal(data.train_images[:, 0], arrays[0].transpose(0, 2, 1))
    np.testing.assert_array_equal(data.test_images[:, 0], arrays[2].transpose(0, 2, 1))


def test_emnist_is_read_by_torchvisions_own_class(tmp_path, offline):
    write_set(tmp_path / "EMNIST" / "raw", idx_sets.EMNIST_FILES, 1, 26)
    theirs = load_torchvision().datasets.EMNIST(tmp_path, split="letters", train=True)
    ours = load_dataset("emnist-letters", tmp_path)
    assert (ours.train_labels + 1).tolist() == theirs.targets.tolist()
    assert theirs.classes[theirs.targets[3]].upper() == ours.class_names[ours.train_labels[3]]


@pytest.mark.parametrize(
    ("name", "folder", "files"),
    [
        ("mnist", "MNIST/raw", idx_sets.MNIST_FILES),
        ("fashion-mnist", "FashionMNIST/raw", idx_sets.MNIST_FILES),
        ("emnist-letters", "EMNIST/raw", idx_sets.EMNIST_FILES),
    ],
)
class TestMissingAndDamaged:
    def test_an_empty_folder_says_which_files_go_where(self, tmp_path, offline, no_debian, name, folder, files):
        with pytest.raises(DataError) as caught:
            load_dataset(name, tmp_path, download=False)
        message = str(caught.value)
        assert str(tmp_path / folder) in message
        assert all(file in message for file in files)
        assert "switched off" in message
        assert offline == []

    def test_without_a_network_it_says_so(self, tmp_path, offline, no_debian, name, folder, files):
        with pytest.raises(DataError, match=r"the download failed .*no network in tests") as caught:
            load_dataset(name, tmp_path)
        assert str(tmp_path / folder) in str(caught.value)
        assert offline, "it has tried"
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("which", range(4))
    def test_a_truncated_file_is_named(self, tmp_path, offline, no_debian, name, folder, files, which):
        write_set(tmp_path / folder, files, 1, 9)
        path = tmp_path / folder / files[which]
        path.write_bytes(path.read_bytes()[:-3])
        with pytest.raises(DataError, match="truncated") as caught:
            load_dataset(name, tmp_path)
        assert str(path) in str(caught.value)

    def test_one_missing_file_is_named(self, tmp_path, offline, no_debian, name, folder, files):
        write_set(tmp_path / folder, files, 1, 9)
        (tmp_path / folder / files[2]).unlink()
        with pytest.raises(DataError, match=files[2]):
            load_dataset(name, tmp_path, download=False)

    def test_labels_that_do_not_fit_the_images(self, tmp_path, offline, no_debian, name, folder, files):
        write_set(tmp_path / folder, files, 1, 9)
        (tmp_path / folder / files[1]).write_bytes(idx_bytes(np.ones(51, np.uint8)))
        with pytest.raises(DataError, match="52 training images do not fit 51 labels"):
            load_dataset(name, tmp_path)

    def test_a_label_out_of_range(self, tmp_path, offline, no_debian, name, folder, files):
        write_set(tmp_path / folder, files, 1, 9)
        (tmp_path / folder / files[3]).write_bytes(idx_bytes(np.full(26, 77, np.uint8)))
        with pytest.raises(DataError, match="test labels must be"):
            load_dataset(name, tmp_path)


def test_a_data_root_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="is not a folder"):
        load_dataset("mnist", tmp_path / "nowhere", download=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is not a folder"):
        load_dataset("mnist", tmp_path / "file")


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("leters", "letters"), ("fashion", "fashion-mnist"), ("cifar", "cifar10"), ("emnist", "mnist")],
)
def test_unknown_names_are_answered_with_the_nearest(wrong, nearest):
    with pytest.raises(ValueError, match=f"did you mean '{nearest}'"):
        load_dataset(wrong)


# ---------------------------------------------------------------------------------------------------------------
# FashionMNIST


@pytest.mark.parametrize("folder", ["FashionMNIST/raw", "fashion-mnist"])
@pytest.mark.parametrize("packed", [False, True])
def test_fashion_mnist_from_the_users_folder(tmp_path, offline, folder, packed):
    arrays = write_set(tmp_path / folder, idx_sets.MNIST_FILES, 0, 10, packed=packed)
    data = load_dataset("FashionMNIST", tmp_path)
    np.testing.assert_array_equal(data.train_images[:, 0], arrays[0])
    np.testing.assert_array_equal(data.test_labels, arrays[3])
    assert data.class_names[9] == "Ankle boot"


def test_fashion_mnist_folder_itself_may_be_named(tmp_path, offline):
    arrays = write_set(tmp_path / "my-fashion-mnist", idx_sets.MNIST_FILES, 0, 10, packed=True)
    data = load_dataset("fashion-mnist", tmp_path / "my-fashion-mnist")
    np.testing.assert_array_equal(data.train_images[:, 0], arrays[0])


def test_mnist_is_not_taken_for_fashion_mnist(tmp_path, offline, no_debian):
    write_set(tmp_path / "raw", idx_sets.MNIST_FILES, 0, 10)
    with pytest.raises(DataError, match="fashion-mnist is not in"):
        load_dataset("fashion-mnist", tmp_path / "raw")


debian = pytest.mark.skipif(
    not idx_sets.DEBIAN_FASHION_MNIST.is_dir(), reason="needs Debian's package dataset-fashion-mnist"
)


@debian
def test_the_real_fashion_mnist(tmp_path, offline):
    data = load_dataset("fashion-mnist", tmp_path)
    assert data.train_images.shape == (60_000, 1, 28, 28)
    assert data.test_images.shape == (10_000, 1, 28, 28)
    assert (np.bincount(data.train_labels) == 6_000).all()
    assert (np.bincount(data.test_labels) == 1_000).all()
    # As everyone who uses this set normalises it.
    assert data.mean == pytest.approx((0.2860,), abs=5e-5)
    assert data.std == pytest.approx((0.3530,), abs=5e-5)
    assert offline == []


@debian
def test_our_reader_agrees_with_torchvisions(tmp_path, offline):
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name in idx_sets.MNIST_FILES:
        (raw / name).write_bytes(gzip.decompress((idx_sets.DEBIAN_FASHION_MNIST / f"{name}.gz").read_bytes()))
    theirs = load_torchvision().datasets.FashionMNIST(tmp_path, train=False)
    ours = load_dataset("fashion-mnist")
    np.testing.assert_array_equal(ours.test_images[:, 0], theirs.data.numpy())
    np.testing.assert_array_equal(ours.test_labels, theirs.targets.numpy())
    assert tuple(theirs.classes) == ours.class_names


@debian
def test_a_truncated_copy_of_the_real_file_is_named(tmp_path, offline):
    for name in idx_sets.MNIST_FILES:
        source = idx_sets.DEBIAN_FASHION_MNIST / f"{name}.gz"
        target = tmp_path / "fashion-mnist" / source.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(source.read_bytes()[: 10_000 if "t10k-images" in name else None])
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte\.gz is truncated"):
        load_dataset("fashion-mnist", tmp_path)
