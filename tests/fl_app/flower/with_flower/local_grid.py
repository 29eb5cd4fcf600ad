# SPDX-License-Identifier: GPL-3.0-or-later
"""A grid of Flower whose nodes are in this process."""

import itertools

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


class ClientError(Exception):
    """An error of a client; the server gets an error reply for it, as in Flower's runtimes."""


class LocalGrid(Grid):
    """A grid whose nodes are in this process; their ids are as large as Flower's, and in no order."""

    run = None

    def __init__(self, app, n, partitions=True, run_config=None):
        self.app, self.ids = app, [int(id) for id in np.random.default_rng(5).integers(2**62, size=n)]
        self.connected = n  # of the first so many nodes
        self.configs = [{"partition-id": i, "num-partitions": n} if partitions else {} for i in range(n)]
        self.numbers, self.run_config = itertools.count(), run_config or {}
        # Messages carry the identity of the process that makes them; Flower's runtimes set it.
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1

    def set_run(self, run):
        raise NotImplementedError

    def create_message(self, *args):
        raise NotImplementedError

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def get_node_ids(self):
        return self.ids[: self.connected]

    def send_and_receive(self, messages, *, timeout=None):
        return [self._reply(message) for message in messages]

    def _reply(self, message):
        number = self.ids.index(message.metadata.dst_node_id)
        message.metadata._message_id = str(next(self.numbers))
        context = Context(1, self.ids[number], self.configs[number], RecordDict(), self.run_config)
        try:
            return self.app(message, context)
        except ClientError as error:
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, str(error)), reply_to=message)
