# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a mean against theory, with a bound that does not loosen as the fault grows.

A standard error that is taken from the measured values alone grows with any fault in them. Here the standard deviation
counts up to the largest one that theory allows, and no farther.
"""

import numpy as np


def share_std(share):
    """Return the largest standard deviation of a value between 0 and 1 whose mean is ``share`` (Bhatia and Davis)."""
    return np.sqrt(share * (1 - share))


def assert_mean(values, expected, most_std, standard_errors=3.0):
    """Assert that the mean of independent values is the expected one within a number of standard errors.

    Parameters
    ----------
    values : array
        Independent draws along the first axis.
    expected : float or array
        Their mean by theory.
    most_std : float or array
        The largest standard deviation that theory allows for one value.
    standard_errors : float
        Largest deviation of the mean, in standard errors.
    """
    values = np.asarray(values, np.float64)
    scatter = np.minimum(values.std(axis=0, ddof=1), most_std)
    off, bound = np.abs(values.mean(axis=0) - expected), standard_errors * scatter / np.sqrt(len(values))
    assert np.all(off < bound), f"off by {off} of {expected}; allowed are {bound} (standard deviation {scatter})"
