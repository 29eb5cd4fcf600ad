# SPDX-License-Identifier: GPL-3.0-or-later
"""Run flowgraphs in tests with a time limit, so that a block that raises or hangs fails the test."""

import contextlib
import threading

import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.support import pdus
from tests.support.polling import DEADLINE_SECONDS, until


def wait(top_block, seconds=DEADLINE_SECONDS):
    waiter = threading.Thread(target=top_block.wait, daemon=True)
    waiter.start()
    waiter.join(seconds)
    return not waiter.is_alive()


def run(top_block, seconds=DEADLINE_SECONDS):
    """Run a flowgraph that ends by itself; a hanging one fails the test and does not block it."""
    top_block.start()
    if not wait(top_block, seconds):
        top_block.stop()
        pytest.fail(f"the flowgraph did not end within {seconds} s")


@contextlib.contextmanager
def running(top_block, seconds=DEADLINE_SECONDS):
    """Run a flowgraph inside the context, and stop it at the end."""
    top_block.start()
    try:
        yield
    finally:
        top_block.stop()
        stopped = wait(top_block, seconds)
    if not stopped:
        pytest.fail(f"the flowgraph did not stop within {seconds} s")


def post(block, port, message):
    """Hand a message to a block as if another block had sent it."""
    block.to_basic_block()._post(pmt.intern(port), message)


class Messages:
    """Store the messages of a message port."""

    def __init__(self, top_block, block, port):
        self._block = block  # a Python block that nobody refers to any more crashes when its next message comes
        self._store = blocks.message_debug()
        self._marks = 0
        top_block.msg_connect((block, port), (self._store, "store"))

    def __len__(self):
        return self._store.num_messages()

    def __getitem__(self, i):
        return self._store.get_message(i)

    def wait_for_sent(self):
        """Wait until the store of a running flowgraph has handled all messages that were sent so far.

        Another block may have handled a later message while the store has yet to handle an earlier one. So a mark is
        sent to the store, behind all others.
        """
        self._marks += 1
        mark = pmt.from_long(self._marks)
        post(self._store, "store", mark)
        until(lambda: any(pmt.equal(self[i], mark) for i in range(len(self))), "a mark behind the messages")

    def pdus(self, dtype):
        messages = [self[i] for i in range(len(self))]
        return [pdus.read(message, dtype) for message in messages if not pmt.is_integer(message)]


def tags(sink, *names):
    """Return (offset, name, value) of a vector sink's tags in order, of these names or of all."""
    found = [(tag.offset, pmt.symbol_to_string(tag.key), pmt.to_python(tag.value)) for tag in sink.tags()]
    return sorted(tag for tag in found if not names or tag[1] in names)


def tag(offset, name, value):
    return gr.tag_utils.python_to_tag((offset, pmt.intern(name), pmt.to_pmt(value), pmt.PMT_F))
