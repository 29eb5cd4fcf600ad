# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until something holds, for as long as a busy machine may need."""

import os
import time

import pytest

# Seconds after which a wait counts as failed. A test that passes never waits so long: the value only bounds how long a
# broken one takes, so it is far above what the slowest machine needs. pytest's own timeout is longer.
DEADLINE_SECONDS = float(os.environ.get("GR_OAC_TEST_DEADLINE", "240"))
DEADLINE_MS = int(1000 * DEADLINE_SECONDS)  # the same for ZeroMQ's poll()
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.02


def until(condition, what="the condition", seconds=DEADLINE_SECONDS, hint=lambda: ""):
    """Poll a condition and return its first value that counts as true.

    Parameters
    ----------
    condition : callable
        Called without arguments, again and again.
    what : str
        Names what is waited for, in the error.
    seconds : float
        The test fails after so long.
    hint : callable
        Returns more text for the error, such as the log of a process.
    """
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} was not reached within {seconds:g} s\n{hint()}")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    return value
