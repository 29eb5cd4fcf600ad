# SPDX-License-Identifier: GPL-3.0-or-later
"""Say which arrays of a model go over the air, and lay them out as one vector of d entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]

# Names of torch's batch-norm statistics. They are no parameters: a step against the sign of their change ruins them.
BUFFERS = ("*running_mean", "*running_var", "*num_batches_tracked")


@dataclass(frozen=True)
class Layout:
    """Hold names, shapes and types of the arrays on the air, in the order of their entries.

    All other arrays go beside the air: each client sends them as they are, and the strategy averages them.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype[Any], ...]

    @classmethod
    def of(cls, arrays: Arrays, beside: Sequence[str]) -> Layout:
        """Return the layout of a model; ValueError if no array is left for the air.

        Parameters
        ----------
        arrays
            The arrays of the model by name.
        beside
            Patterns of names, as a shell has them. Arrays of integers go beside the air too.
        """
        names = [
            name
            for name, array in arrays.items()
            if array.dtype.kind == "f" and array.size and not any(fnmatchcase(name, pattern) for pattern in beside)
        ]
        if not names:
            raise ValueError(
                f"the model has no array of floating-point numbers for the air: it has {', '.join(arrays) or 'none'}, "
                f"and names like {', '.join(beside) or 'none'} go beside the air; change beside_the_air"
            )
        return cls(
            tuple(names), tuple(arrays[name].shape for name in names), tuple(arrays[name].dtype for name in names)
        )

    @property
    def d(self) -> int:
        """Return the number of entries."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def vector(self, arrays: Arrays) -> NDArray[np.float32]:
        """Return the entries of all arrays on the air, one after the other."""
        return np.concatenate([arrays[name].ravel().astype(np.float32) for name in self.names])

    def cut(self, w: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
        """Return a vector as arrays by name, in double precision.

        A strategy averages the same array once for each client. In double precision the rounding errors of its weights
        are far below the last bit of single precision, so that `rounded` returns w itself.
        """
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1]
        parts = zip(self.names, self.shapes, np.split(w.astype(np.float64), ends), strict=True)
        return {name: part.reshape(shape) for name, shape, part in parts}

    def rounded(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """Return arrays with those on the air in the types that the model has."""
        types = dict(zip(self.names, self.dtypes, strict=True))
        return {name: array.astype(types.get(name, array.dtype)) for name, array in arrays.items()}


def update_of(before: Arrays, after: Arrays, names: Sequence[str], local_lr: float) -> NDArray[np.float32]:
    """Return a client's update: what it subtracted from the arrays of these names, over its learning rate.

    Raises
    ------
    ValueError
        If the client returned other arrays than it was sent.
    """
    given = {name: array.shape for name, array in after.items()}
    expected = {name: array.shape for name, array in before.items()}
    if given != expected:
        odd = sorted(name for name in {*given, *expected} if given.get(name) != expected.get(name))
        told = ", ".join(f"{name} ({given.get(name, 'missing')}, not {expected.get(name, 'there')})" for name in odd)
        raise ValueError(f"the client must return the arrays that it was sent, with their names and shapes: {told}")
    # The difference of close numbers: in double precision, which is exact for single-precision arrays of like size.
    changes = [np.subtract(before[name], after[name], dtype=np.float64).ravel() for name in names]
    return (np.concatenate(changes) / local_lr).astype(np.float32)
