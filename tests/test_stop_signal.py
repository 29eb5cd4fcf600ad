# SPDX-License-Identifier: GPL-3.0-or-later
"""A signal that comes at the worst moment is neither lost nor does it hang the program."""

import signal
import subprocess
import sys

import pytest

from tests.support.polling import DEADLINE_SECONDS

# A signal comes every few looks at the flag, and many of them inside `wait`. With a threading.Event in place of
# StopSignal this program hangs within its first moments.
LOOKS_ALL_THE_TIME = """
import random, signal, time
from oac_blocks.stop_signal import StopSignal
stop = StopSignal()
signal.signal(signal.SIGALRM, lambda *_: stop.set())
looks, end = 0, time.process_time() + 0.5
while time.process_time() < end:
    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 2e-5))
    for _ in range(20):
        looks += stop.wait(0)
print(looks > 0)
"""

WAITS = """
from oac_blocks.stop_signal import StopSignal
stop = StopSignal()
assert not stop.is_set()
assert not stop.wait(0.01)
print("ready", flush=True)
while not stop.wait(60):
    pass
assert stop.is_set()
print("ended")
"""


def test_signals_in_the_middle_of_a_wait_do_not_hang_it():
    done = subprocess.run(
        [sys.executable, "-c", LOOKS_ALL_THE_TIME], capture_output=True, text=True, timeout=DEADLINE_SECONDS
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait(program, number):
    waiting = program([sys.executable, "-c", WAITS])
    waiting.says("ready")
    waiting.send(number)
    assert waiting.wait() == 0, waiting.text
    assert waiting.out.splitlines()[-1] == "ended"
