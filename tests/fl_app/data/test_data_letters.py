# SPDX-License-Identifier: GPL-3.0-or-later
"""The embedded data set: the same bits everywhere, honest, hard for a linear model, and safe in its cache."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
import torch
from torch import nn

from fl_app.core.models import build_model
from fl_app.data import cache, glyphs, letters, load_dataset
from fl_app.data.raw_stream import RawStream
from tests.support.sharing import made_once

# Of the whole set as version 1 draws it from the fonts of matplotlib 3.11 (their files have this hash).
# Made by `content_hash(letters._make())`; when it changes on purpose, raise letters.VERSION too.
FONTS_HASH = "0c78b410bee7bd00"
CONTENT_HASH = "9a5ecb1798d60b48075f427a7cce0e1e6caee6a8710f2906a9c36f3ade7bafa6"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a cache folder with letters that one worker has drawn for all; a file beside it has the CPU seconds."""

    def draw(path):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GR_OAC_CACHE", str(path / "cache"))
            start = time.process_time()
            load_dataset("letters")
            (path / "seconds").write_text(f"{time.process_time() - start}")

    path = made_once(tmp_path_factory, "drawn-letters", draw) / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GR_OAC_CACHE", str(path))
        yield path


@pytest.fixture(scope="module")
def dataset(folder):
    return load_dataset("letters")


pytestmark = pytest.mark.usefixtures("one_thread")


def arrays_of(data):
    names = ("train_images", "train_labels", "test_images", "test_labels")
    return {name: getattr(data, name) for name in names}


def test_shapes_and_shares(dataset):
    assert dataset.train_images.shape == (15_600, 1, 28, 28)
    assert dataset.test_images.shape == (2_600, 1, 28, 28)
    assert (np.bincount(dataset.train_labels) == 600).all()
    assert (np.bincount(dataset.test_labels) == 100).all()
    assert dataset.classes == 26
    assert dataset.class_names[0] == "A"
    assert dataset.class_names[-1] == "Z"


def test_drawing_is_quick_enough(folder):
    assert float((folder.parent / "seconds").read_text()) < 40  # CPU seconds; 7 to 12 where this was written


def test_the_same_bits_as_everywhere(dataset):
    if letters._fonts_hash() != FONTS_HASH:
        pytest.skip("this matplotlib ships other fonts")
    assert cache.content_hash(arrays_of(dataset)) == CONTENT_HASH


def test_training_and_test_share_no_font_and_no_image(dataset):
    assert not set(glyphs.TRAIN_FONTS) & set(glyphs.TEST_FONTS)
    train = {image.tobytes() for image in dataset.train_images}
    assert len(train) == 15_600, "no image twice"
    assert not train & {image.tobytes() for image in dataset.test_images}


def test_the_order_is_random(dataset):
    """A client that takes the first half must find all classes in it."""
    assert (np.bincount(dataset.train_labels[:1000], minlength=26) > 15).all()


def test_every_image_shows_something(dataset):
    images = dataset.train_images.reshape(-1, 784)
    assert images.max(axis=1).min() > 90
    assert images.std(axis=1).min() > 8
    assert (np.median(images, axis=1) < 128).all(), "bright letters on dark ground"


def test_normalised_images_have_mean_0_and_variance_1(dataset):
    values = dataset.normalise(dataset.train_images)
    assert values.dtype == np.float32
    assert values.mean(dtype=np.float64) == pytest.approx(0, abs=1e-5)
    assert values.std(dtype=np.float64) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("font", [glyphs.TRAIN_FONTS[0], glyphs.TEST_FONTS[-1]])
def test_distance_fields_agree_with_matplotlibs_own_outline(font):
    """Another way to the same letters: matplotlib's point-in-path test on its own, scaled path of the glyph."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    fields = glyphs.distance_fields(font)
    grid = (np.arange(glyphs.FIELD_CELLS) + 0.5 - glyphs.FIELD_CELLS / 2) / glyphs.GLYPH_CELLS
    for letter in "AgQi":
        path = TextPath((0, 0), letter, size=100, prop=FontProperties(fname=str(glyphs.font_path(font))))
        low, high = path.get_extents().get_points()
        points = np.stack(np.meshgrid(grid, -grid), axis=-1).reshape(-1, 2) * (high - low).max() + (high + low) / 2
        inside = np.zeros(len(points), bool)
        for contour in path.to_polygons():  # contains_points knows no holes: the second contour takes away
            inside ^= Path(contour).contains_points(points)
        inside = inside.reshape(glyphs.FIELD_CELLS, glyphs.FIELD_CELLS)
        field = fields[glyphs.LETTERS.index(letter)]
        clear = np.abs(field) > 1 / glyphs.GLYPH_CELLS  # more than a cell away from the edge
        assert clear.mean() > 0.8
        assert ((field < 0) == inside)[clear].all(), letter


def test_fonts_draw_different_letters():
    """All but upper-case I and lower-case l, which sans-serif fonts draw alike: docs/data.md says so."""
    for font in ("DejaVuSans.ttf", "cmti10.ttf"):
        fields = glyphs.distance_fields(font)
        assert fields.shape == (52, glyphs.FIELD_CELLS, glyphs.FIELD_CELLS)
        shapes = {letter: (field < 0).tobytes() for letter, field in zip(glyphs.LETTERS, fields, strict=True)}
        if font == "DejaVuSans.ttf":
            assert shapes["I"] == shapes.pop("l")
        assert len(set(shapes.values())) == len(shapes)


def test_installed_fonts_do_not_matter(monkeypatch):
    from matplotlib import font_manager

    def forbidden(*_args, **_kwargs):
        raise AssertionError("asked the system for a font")

    monkeypatch.setattr(font_manager, "findfont", forbidden)
    images, _ = letters.draw_letters(glyphs.TEST_FONTS[:1], 52, RawStream(1))
    assert images.shape == (52, 1, 28, 28)


def test_the_stream_is_uniform_and_depends_on_its_seed():
    numbers = RawStream(1, 0).uniform(100_000)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert numbers.mean() == pytest.approx(0.5, abs=5 / np.sqrt(12 * 100_000))
    assert (RawStream(1, 0).uniform(10) == numbers[:10]).all()
    assert (RawStream(1, 1).uniform(10) != numbers[:10]).all()


# ---------------------------------------------------------------------------------------------------------------
# The cache


def test_the_cache_is_used(dataset, folder, monkeypatch):
    def forbidden():
        raise AssertionError("drawn again")

    monkeypatch.setattr(letters, "_make", forbidden)
    again = load_dataset("letters")
    assert cache.content_hash(arrays_of(again)) == cache.content_hash(arrays_of(dataset))
    assert [path.suffix for path in folder.iterdir()] == [".npz"], "no temporary file is left"


def small():
    return {"numbers": np.arange(1000, dtype=np.int64), "name": np.array("x")}


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda _raw: b"",
        lambda _raw: b"not a zip file",
        lambda raw: raw[:1000] + bytes([raw[1000] ^ 1]) + raw[1001:],
        lambda raw: raw[:-40],
    ],
    ids=["half", "empty", "rubbish", "one bit", "no end"],
)
def test_a_damaged_file_is_made_again(tmp_path, damage, caplog):
    path = tmp_path / "deep" / "file.npz"
    cache.load_or_make(path, small)
    path.write_bytes(damage(path.read_bytes()))
    calls = []

    def make():
        calls.append(1)
        return small()

    assert (cache.load_or_make(path, make)["numbers"] == np.arange(1000)).all()
    assert calls == [1]
    assert "damaged" in caplog.text
    cache.load_or_make(path, make)
    assert calls == [1], "whole again"


def test_a_swapped_content_is_noticed(tmp_path):
    path = tmp_path / "file.npz"
    np.savez(path, sha256=np.array(cache.content_hash(small())), numbers=np.zeros(1000, np.int64), name=np.array("x"))
    assert (cache.load_or_make(path, small)["numbers"] == np.arange(1000)).all()


def test_a_pickle_in_the_cache_is_not_opened(tmp_path):
    path = tmp_path / "file.npz"
    np.savez(path, sha256=np.array("x"), numbers=np.array([{}], dtype=object))
    assert (cache.load_or_make(path, small)["numbers"] == np.arange(1000)).all()


def test_a_full_disk_costs_time_only(tmp_path, monkeypatch, caplog):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "file.npz"
    assert (cache.load_or_make(path, small)["numbers"] == np.arange(1000)).all()
    assert "No space left" in caplog.text
    assert list(tmp_path.iterdir()) == [], "no half-written file is left"


def test_a_cache_that_is_no_folder_costs_time_only(tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert (cache.load_or_make(tmp_path / "cache" / "file.npz", small)["numbers"] == np.arange(1000)).all()


def test_the_cache_folder_is_a_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("GR_OAC_CACHE", str(tmp_path / "mine"))
    assert cache.datasets_folder() == tmp_path / "mine" / "datasets"
    monkeypatch.delenv("GR_OAC_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / ".cache" / "gr-oac"


# ---------------------------------------------------------------------------------------------------------------
# Hard enough for a convolutional network, too hard for a linear one


def accuracy_after(model, dataset, epochs, learning_rate, batch=50, weight_decay=0.0, samples=None):
    """Test accuracy of plain SGD with momentum 0.9 after some epochs; the best of them, which favours the linear."""
    images = torch.from_numpy(dataset.normalise(dataset.train_images[:samples]))
    labels = torch.from_numpy(dataset.train_labels[:samples])
    test_images = torch.from_numpy(dataset.normalise(dataset.test_images))
    test_labels = torch.from_numpy(dataset.test_labels)
    generator = torch.Generator().manual_seed(0)
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9, weight_decay=weight_decay)
    best = 0.0
    for _ in range(epochs):
        for chosen in torch.randperm(len(images), generator=generator).split(batch):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimiser.step()
        with torch.no_grad():
            predicted = torch.cat([model(block) for block in test_images.split(500)]).argmax(1)
        best = max(best, float((predicted == test_labels).float().mean()))
    return best


def linear_model():
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 26))
    nn.init.zeros_(model[1].weight)
    nn.init.zeros_(model[1].bias)
    return model


def test_a_linear_model_stays_well_below_the_cnn(dataset):
    """The linear one at its best on everything, the CNN after one pass over half of it."""
    linear = accuracy_after(linear_model(), dataset, epochs=6, learning_rate=0.003, weight_decay=1e-3)
    convolutional = accuracy_after(
        build_model("cnn", 26), dataset, epochs=1, learning_rate=0.02, batch=26, samples=7800
    )
    assert 0.45 < linear < 0.65
    assert convolutional > linear + 0.15, f"linear {linear:.3f}, CNN {convolutional:.3f}"


@pytest.mark.slow
def test_the_cnn_learns_it_with_a_few_epochs(dataset):
    assert accuracy_after(build_model("cnn", 26), dataset, epochs=3, learning_rate=0.02) > 0.89
