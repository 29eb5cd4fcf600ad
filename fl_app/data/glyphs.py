# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the letters of matplotlib's fonts into distance fields: the distance of each point from the stroke's edge.

A threshold on the distance field gives a stroke of any thickness, after any warp. The code uses only sums, products,
quotients and square roots, which IEEE 754 rounds alike everywhere. The outlines come in font units, without hinting
or scaling by FreeType, and are filled here by counting edges. So the result depends neither on the machine nor on its
installed fonts nor on the version of FreeType.
"""

from __future__ import annotations

import importlib.util
import string
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # scipy.ndimage is imported when letters are drawn, not when they are read from the cache
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

LETTERS = string.ascii_uppercase + string.ascii_lowercase

# All fonts in matplotlib's folder that draw all 52 letters. The other fonts there hold symbols or empty boxes.
TRAIN_FONTS = (
    "DejaVuSans.ttf",
    "DejaVuSans-Bold.ttf",
    "DejaVuSans-Oblique.ttf",
    "DejaVuSansMono.ttf",
    "DejaVuSansMono-Oblique.ttf",
    "DejaVuSansMono-BoldOblique.ttf",
    "DejaVuSerif.ttf",
    "DejaVuSerif-Bold.ttf",
    "DejaVuSerif-BoldItalic.ttf",
    "STIXGeneral.ttf",
    "STIXGeneralBol.ttf",
    "STIXGeneralItalic.ttf",
    "cmb10.ttf",
    "cmmi10.ttf",
    "cmr10.ttf",
    "cmtt10.ttf",
)
TEST_FONTS = (
    "DejaVuSans-BoldOblique.ttf",
    "DejaVuSansMono-Bold.ttf",
    "DejaVuSerif-Italic.ttf",
    "STIXGeneralBolIta.ttf",
    "cmss10.ttf",
    "cmti10.ttf",
)

FIELD_CELLS = 96  # side of a distance field in cells
GLYPH_CELLS = 64  # longer side of the letter in the field in cells; the rest is margin
OVERSAMPLING = 2  # the grid on which the outline is filled is finer by this factor
CURVE_PIECES = 8  # number of straight pieces for each quadratic curve

_MOVE, _LINE, _CURVE, _CLOSE = 1, 2, 3, 79  # matplotlib's path codes; TrueType has quadratic curves only


def font_path(name: str) -> Path:
    """Return the path of matplotlib's own copy of a font."""
    # Letters from the cache need the fonts' bytes alone, and a client need not wait for the import of matplotlib.
    found = importlib.util.find_spec("matplotlib")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / name


def distance_fields(font_name: str) -> NDArray[np.float32]:
    """Return signed distances of the 52 LETTERS, negative inside the stroke, (52, FIELD_CELLS, FIELD_CELLS).

    The unit is the letter's longer side; row 0 is the top.
    """
    from matplotlib import ft2font

    font = ft2font.FT2Font(str(font_path(font_name)))
    return np.stack([_distance_field(_fill(_edges(font, letter))) for letter in LETTERS])


def _edges(font: FT2Font, letter: str) -> NDArray[np.float64]:
    """Return the outline as straight pieces (x0, y0, x1, y1) in font units."""
    from matplotlib import ft2font

    no_scale: Any = getattr(ft2font, "LoadFlags", int)(1)  # FT_LOAD_NO_SCALE; a plain number before matplotlib 3.10
    font.load_char(ord(letter), flags=no_scale)
    vertices, codes = font.get_path()
    edges: list[tuple[float, float, float, float]] = []
    start = here = (0.0, 0.0)

    def line_to(point: tuple[float, float]) -> None:
        nonlocal here
        edges.append((*here, *point))
        here = point

    position = 0
    while position < len(codes):
        code, point = int(codes[position]), (float(vertices[position, 0]), float(vertices[position, 1]))
        position += 1
        if code == _MOVE:
            start = here = point
        elif code == _LINE:
            line_to(point)
        elif code == _CLOSE:
            line_to(start)
        elif code == _CURVE:
            end = (float(vertices[position, 0]), float(vertices[position, 1]))
            position += 1
            origin = here
            for piece in range(1, CURVE_PIECES + 1):
                t = piece / CURVE_PIECES
                a, b, c = (1 - t) * (1 - t), 2 * t * (1 - t), t * t
                line_to((a * origin[0] + b * point[0] + c * end[0], a * origin[1] + b * point[1] + c * end[1]))
        else:
            raise ValueError(f"the outline of {letter!r} has the unknown path code {code}")
    return np.array(edges)


def _fill(edges: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the letter as an oversampled bitmap in the middle of the field; its longer side is GLYPH_CELLS."""
    cells, size = FIELD_CELLS * OVERSAMPLING, GLYPH_CELLS * OVERSAMPLING
    x, y = edges[:, 0::2], edges[:, 1::2]
    longer = max(x.max() - x.min(), y.max() - y.min())
    column = (x - (x.max() + x.min()) / 2) / longer * size + cells / 2
    row = cells / 2 - (y - (y.max() + y.min()) / 2) / longer * size
    middle = np.arange(cells)[:, None] + 0.5
    upwards = np.where(row[:, 1] > row[:, 0], 1, -1)
    crossed = (row.min(axis=1) <= middle) & (middle < row.max(axis=1))
    line, edge = np.nonzero(crossed)
    along = (middle[line, 0] - row[edge, 0]) / (row[edge, 1] - row[edge, 0])
    at = column[edge, 0] + along * (column[edge, 1] - column[edge, 0])
    winding = np.zeros((cells, cells + 1), np.int64)
    np.add.at(winding, (line, np.clip(np.ceil(at - 0.5), 0, cells).astype(np.int64)), upwards[edge])
    return np.cumsum(winding, axis=1)[:, :cells] != 0


def _distance_field(inside: NDArray[np.bool_]) -> NDArray[np.float32]:
    # The distance to the nearest cell of the other kind is half a cell too long on either side.
    outwards = scipy.ndimage.distance_transform_edt(~inside) - 0.5
    inwards = scipy.ndimage.distance_transform_edt(inside) - 0.5
    fine = np.where(inside, -inwards, outwards) / (GLYPH_CELLS * OVERSAMPLING)
    quarter = fine[0::2, 0::2] + fine[0::2, 1::2] + fine[1::2, 0::2] + fine[1::2, 1::2]
    return (quarter / 4).astype(np.float32)
