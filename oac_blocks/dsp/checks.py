# SPDX-License-Identifier: GPL-3.0-or-later
"""Check arguments; each check raises ``ValueError`` with the argument's name, its value and what is allowed."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_PPM = 1000.0  # the largest error of a clock's rate that any function takes, in parts per million


def require(ok: bool, name: str, value: object, allowed: str) -> None:
    """Raise ``ValueError`` unless ``ok`` is true."""
    if not ok:
        raise ValueError(f"{name} must be {allowed}, got {value}")


def shown(value: object) -> str:
    """Return a value as Python writes it; a number of numpy's as a plain one (``2.5``, not ``np.float64(2.5)``)."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int in [low, high]; floats and booleans are refused."""
    allowed = f"an integer >= {low}" if high is None else f"an integer from {low} to {high}"
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be {allowed}, got {shown(value)}") from None
    require(not isinstance(value, bool | np.bool_), name, shown(value), allowed)
    require(number >= low and (high is None or number <= high), name, number, allowed)
    return number


def real(name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False) -> float:
    """Return ``value`` as a finite float in [low, high], or in (low, high] with ``open_low``."""
    allowed = f"a finite number {'>' if open_low else '>='} {low:g}"
    if math.isinf(low):
        allowed = "a finite number"
    if not math.isinf(high):
        allowed += f" and <= {high:g}"
    # float() would also accept "1e6" and True.
    require(isinstance(value, Real) and not isinstance(value, bool), name, shown(value), allowed)
    number = float(value)
    inside = low <= number <= high and not (open_low and number == low)
    require(math.isfinite(number) and inside, name, number, allowed)
    return number


def finite(name: str, x: npt.NDArray[Any]) -> None:
    """Raise ``ValueError`` if the array holds NaN or infinite values."""
    # The sum is one quick pass, and it is finite for nearly all valid input. Only otherwise is every value checked.
    with np.errstate(invalid="ignore", over="ignore"):
        suspicious = not np.isfinite(x.sum())
    if suspicious and not np.isfinite(x).all():
        bad = int(np.count_nonzero(~np.isfinite(x)))
        raise ValueError(f"{name} must be finite in {x.dtype}, got {bad} NaN or infinite values among {x.size}")


def complex_array(name: str, x: Any, min_ndim: int = 1) -> npt.NDArray[np.complex64]:
    """Return ``x`` as a finite complex64 array; complex128 is narrowed, any type that is not complex is refused."""
    return _narrow(name, np.asarray(x), np.complex64, (np.complex64, np.complex128), min_ndim)


def real_array(name: str, x: Any, min_ndim: int = 1) -> npt.NDArray[np.float32]:
    """Return ``x`` as a finite float32 array; float64 is narrowed, any other type is refused."""
    return _narrow(name, np.asarray(x), np.float32, (np.float32, np.float64), min_ndim)


def _narrow(name: str, array: npt.NDArray[Any], wanted: Any, taken: tuple[Any, ...], min_ndim: int) -> npt.NDArray[Any]:
    require(array.dtype in taken, name, array.dtype, f"a {np.dtype(wanted)} array")
    require(array.ndim >= min_ndim, name, f"shape {array.shape}", f"an array of at least {min_ndim} dimensions")
    require(array.size > 0, name, f"shape {array.shape}", "non-empty")
    with np.errstate(over="ignore"):
        narrow = array.astype(wanted, copy=False)
    finite(name, narrow)
    return narrow


def generator(name: str, rng: Any) -> np.random.Generator:
    """Return ``rng`` if it is a ``numpy.random.Generator``; raise ``ValueError`` otherwise."""
    require(isinstance(rng, np.random.Generator), name, repr(rng), "a numpy.random.Generator")
    return rng
