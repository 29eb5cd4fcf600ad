# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until a condition holds, for as long as a busy machine may need."""

import os
import time

import pytest

# Seconds after which a wait counts as failed. A test that passes never waits so long: the value only limits how long a
# broken test takes, so it is far above what the slowest machine needs. pytest's own timeout is longer.
DEADLINE_SECONDS = float(os.environ.get("GR_OAC_TEST_DEADLINE", "240"))
DEADLINE_MS = int(1000 * DEADLINE_SECONDS)  # the same in milliseconds, for ZeroMQ's poll()
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.02


def until(condition, what="the condition", seconds=DEADLINE_SECONDS, hint=lambda: ""):
    """Poll a condition and return its first true value.

    Parameters
    ----------
    condition : callable
        Function without arguments that is called again and again.
    what : str
        Name of the condition for the error text.
    seconds : float
        Seconds after which the test fails.
    hint : callable
        Function that returns more text for the error, such as the log of a process.
    """
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} was not reached within {seconds:g} s\n{hint()}")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    return value
