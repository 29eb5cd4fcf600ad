# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw `letters`, the embedded data set of 26 classes of 28x28 pixels, at first use from matplotlib's fonts.

Upper and lower case of a letter are one class, as in EMNIST letters. Every image has its own slant, rotation, size,
position, stroke thickness, elastic warp, contrast, clutter and noise. The test images come from fonts that no
training image uses, and from their own random stream.

Every machine draws the same pixels, bit for bit: random numbers are the raw output of PCG64 (NumPy guarantees that
stream, but not the streams of its distributions), and all arithmetic on them is +, -, *, / element by element.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fl_app.data.cache import Arrays, cache_folder, load_or_make
from fl_app.data.dataset import Dataset, Images, Labels
from fl_app.data.glyphs import FIELD_CELLS, GLYPH_CELLS, TEST_FONTS, TRAIN_FONTS, distance_fields, font_path
from fl_app.data.raw_stream import RawStream

VERSION = 1  # increase it whenever a pixel changes
CLASSES = 26
IMAGE_PIXELS = 28
TRAIN_IMAGES = 26 * 600
TEST_IMAGES = 26 * 100
BLOCK = 520  # number of images that are drawn together

LETTER_PIXELS = 19.0  # longer side of a letter before it is scaled
WARP_KNOTS = 5  # number of knots of the elastic warp, a quadratic spline, in each direction

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """Bound the deviation of an image from the font's letter; most values are uniform in minus to plus the bound."""

    slant: float = 0.3  # horizontal shift per unit of height
    half_angle_tangent: float = 0.13  # tangent of half the rotation angle; 0.13 is 15 degrees
    log2_size: float = 0.25
    log2_aspect: float = 0.2
    shift_pixels: float = 2.0
    stroke_pixels: float = 0.55  # distance by which the edge of the stroke moves outwards
    warp_pixels: float = 1.6
    noise: float = 0.10  # largest standard deviation, as a share of full scale; drawn from 0 up
    clutter_share: float = 0.25  # share of the images that have clutter


def load_letters(_root: Path | None = None, _download: bool = False) -> Dataset:
    """Return the data set from the cache; if the cache is missing or damaged, draw it anew (about 15 s)."""
    path = cache_folder() / f"letters-v{VERSION}-{_fonts_hash()}.npz"
    arrays = load_or_make(path, _make)
    names = tuple(chr(ord("A") + number) for number in range(CLASSES))
    return Dataset("letters", **arrays, class_names=names)


def _make() -> Arrays:
    train_images, train_labels = draw_letters(TRAIN_FONTS, TRAIN_IMAGES, RawStream(VERSION, 0))
    test_images, test_labels = draw_letters(TEST_FONTS, TEST_IMAGES, RawStream(VERSION, 1))
    return {
        "train_images": train_images,
        "train_labels": train_labels,
        "test_images": test_images,
        "test_labels": test_labels,
    }


@functools.cache
def _fonts_hash() -> str:
    """Return a hash of the fonts, so that letters drawn with other fonts are kept in another cache file."""
    digest = hashlib.sha256()
    for name in TRAIN_FONTS + TEST_FONTS:
        digest.update(font_path(name).read_bytes())
    return digest.hexdigest()[:16]


def draw_letters(
    fonts: tuple[str, ...], count: int, stream: RawStream, spread: Spread | None = None
) -> tuple[Images, Labels]:
    """Draw `count` images in random order, with equal shares of the classes, cases and fonts."""
    spread = spread or Spread()
    fields = np.concatenate([distance_fields(font) for font in fonts])
    order = np.argsort(stream.uniform(count), kind="stable")
    labels = (order % CLASSES).astype(np.int64)
    lower_case = order // CLASSES % 2
    font = order // (2 * CLASSES) % len(fonts)
    glyph = font * (2 * CLASSES) + lower_case * CLASSES + labels
    images = np.empty((count, 1, IMAGE_PIXELS, IMAGE_PIXELS), np.uint8)
    for start in range(0, count, BLOCK):
        images[start : start + BLOCK, 0] = _draw_block(fields, glyph[start : start + BLOCK], stream, spread)
    return images, labels


def _draw_block(fields: NDArray[np.float32], glyph: NDArray[np.int64], stream: RawStream, spread: Spread) -> Images:
    n, side = len(glyph), IMAGE_PIXELS
    each = (n, 1, 1)
    x, y, scale = _warped_grid(n, stream, spread)
    distance = _sample(fields, glyph, x, y) * scale  # in pixels of the image
    stroke = stream.symmetric(spread.stroke_pixels, *each)
    softness = 0.8 + 0.8 * stream.uniform(*each)
    ink = np.clip(0.5 + (stroke - distance) / softness, 0, 1)
    ink = np.maximum(ink, _clutter(n, stream, spread))
    contrast = 0.5 + 0.5 * stream.uniform(*each)
    paper = 0.15 * stream.uniform(*each)
    # The sum of four uniform numbers is close enough to a Gaussian and needs no logarithm.
    bell = stream.uniform(n, side, side) + stream.uniform(n, side, side)
    bell = bell + stream.uniform(n, side, side) + stream.uniform(n, side, side)
    noise = (bell - 2) * 1.7320508075688772 * (spread.noise * stream.uniform(*each))
    value = np.clip(paper + (contrast - paper) * ink + noise, 0, 1)
    return np.floor(value * 255 + 0.5).astype(np.uint8)


def _warped_grid(n: int, stream: RawStream, spread: Spread) -> tuple[Float, Float, Float]:
    """Return the point of the letter that each pixel shows, in letter sides from the letter's centre, and the size."""
    each = (n, 1, 1)
    pixel = np.arange(IMAGE_PIXELS) + 0.5 - IMAGE_PIXELS / 2
    x = pixel[None, None, :] - stream.symmetric(spread.shift_pixels, *each)
    y = pixel[None, :, None] - stream.symmetric(spread.shift_pixels, *each)
    x = x + _spline_warp(n, stream, spread)
    y = y + _spline_warp(n, stream, spread)
    t = stream.symmetric(spread.half_angle_tangent, *each)
    cosine, sine = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
    x, y = cosine * x + sine * y, cosine * y - sine * x
    x = x + stream.symmetric(spread.slant, *each) * y
    size = LETTER_PIXELS * _power_of_two(stream.symmetric(spread.log2_size, *each))
    aspect = _power_of_two(stream.symmetric(spread.log2_aspect, *each))
    return x / (size * aspect), y * aspect / size, size


def _power_of_two(exponent: Float) -> Float:
    """Return 2^x for small x to 1e-5 by sums and products alone, as pow() differs between machines in the last bit."""
    z = exponent * 0.6931471805599453
    return 1.0 + z * (1.0 + z / 2.0 * (1.0 + z / 3.0 * (1.0 + z / 4.0)))


def _spline_warp(n: int, stream: RawStream, spread: Spread) -> Float:
    """Return a smooth random displacement of every pixel: a quadratic B-spline over WARP_KNOTS x WARP_KNOTS knots."""
    knots = stream.symmetric(spread.warp_pixels, n, WARP_KNOTS, WARP_KNOTS)
    position = (np.arange(IMAGE_PIXELS) + 0.5) / IMAGE_PIXELS * (WARP_KNOTS - 2)
    away = np.abs(position[:, None] - (np.arange(WARP_KNOTS) - 0.5)[None, :])
    near, far = 0.75 - away * away, (1.5 - away) * (1.5 - away) / 2
    weight = np.where(away < 0.5, near, np.where(away < 1.5, far, 0.0))
    warp = np.zeros((n, IMAGE_PIXELS, IMAGE_PIXELS))
    for row in range(WARP_KNOTS):
        for column in range(WARP_KNOTS):
            warp += knots[:, row, column, None, None] * (weight[:, row, None] * weight[None, :, column])
    return warp


def _sample(fields: NDArray[np.float32], glyph: NDArray[np.int64], x: Float, y: Float) -> Float:
    """Sample the letters' distance fields at any points, by linear interpolation between cells."""
    column = np.clip(x * GLYPH_CELLS + (FIELD_CELLS / 2 - 0.5), 0, FIELD_CELLS - 1.001)
    row = np.clip(y * GLYPH_CELLS + (FIELD_CELLS / 2 - 0.5), 0, FIELD_CELLS - 1.001)
    column_cell, row_cell = column.astype(np.int64), row.astype(np.int64)
    right, down = column - column_cell, row - row_cell
    flat = fields.reshape(-1)
    corner = (glyph[:, None, None] * FIELD_CELLS + row_cell) * FIELD_CELLS + column_cell
    above = flat[corner] * (1 - right) + flat[corner + 1] * right
    below = flat[corner + FIELD_CELLS] * (1 - right) + flat[corner + FIELD_CELLS + 1] * right
    return above * (1 - down) + below * down


def _clutter(n: int, stream: RawStream, spread: Spread) -> Float:
    """Draw the rest of a neighbouring stroke into some of the images: one bar across a corner or an edge."""
    each = (n, 1, 1)
    pixel = np.arange(IMAGE_PIXELS) + 0.5 - IMAGE_PIXELS / 2
    t = stream.symmetric(1.0, *each)  # half-angle tangents of -1..1 are rotations of -90..90 degrees
    cosine, sine = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
    side = np.where(stream.uniform(*each) < 0.5, -1.0, 1.0)
    offset = side * (10 + 5 * stream.uniform(*each))
    across = np.abs(cosine * pixel[None, None, :] + sine * pixel[None, :, None] - offset)
    half_width = 0.4 + 0.8 * stream.uniform(*each)
    present = np.where(stream.uniform(*each) < spread.clutter_share, 1.0, 0.0)
    return np.clip(0.5 + half_width - across, 0, 1) * present
