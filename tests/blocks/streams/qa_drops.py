# SPDX-License-Identifier: GPL-3.0-or-later
"""What a block could not use: all of it is counted, the first is logged, and the line says what it was."""

import pytest

from oac_blocks.blocks.support.bursts import Drops


class Lines(list):
    """A logger that keeps its lines."""

    warn = list.append


@pytest.mark.parametrize(
    ("what", "reason", "begins"),
    [
        ((), "a status: KeyError('round')", "dropped: a status: KeyError('round') ("),
        (("a burst",), "tag must be an integer", "dropped a burst: tag must be an integer ("),
    ],
)
def test_the_first_is_logged_by_its_name_and_all_are_counted(what, reason, begins):
    lines = Lines()
    drops = Drops(lines, *what)
    for _ in range(3):
        drops.add(reason)
    assert drops.count == 3
    assert len(lines) == 1
    assert lines[0].startswith(begins)
