# SPDX-License-Identifier: GPL-3.0-or-later
"""A bad network between clients and server: it loses whole messages and delays the others, both ways."""

import heapq
import itertools
import random
import threading
import time
from pathlib import Path

import zmq


class LossyProxy:
    """Clients connect to `front`; each has a connection of its own to the server behind. Order is kept."""

    def __init__(self, front, back, loss, delay_seconds, seed):
        self.loss, self._delay, self._random = loss, delay_seconds, random.Random(seed)
        self.lost, self.passed = 0, 0
        self._front, self._back, self._stopping = front, back, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._thread.join()
        Path(self._front.removeprefix("ipc://")).unlink(missing_ok=True)

    def _run(self):
        context = zmq.Context()
        front = context.socket(zmq.ROUTER)
        front.bind(self._front)
        poller = zmq.Poller()
        poller.register(front, zmq.POLLIN)
        backs, late, count = {}, [], itertools.count()
        while not self._stopping.is_set():
            for socket, _ in poller.poll(5):
                frames = socket.recv_multipart()
                if socket is front:
                    identity, *frames = frames
                    if identity not in backs:
                        backs[identity] = context.socket(zmq.DEALER)
                        backs[identity].connect(self._back)
                        poller.register(backs[identity], zmq.POLLIN)
                    target, message = backs[identity], frames
                else:
                    identity = next(name for name, back in backs.items() if back is socket)
                    target, message = front, [identity, *frames]
                if self._random.random() < self.loss:
                    self.lost += 1
                    continue
                self.passed += 1
                heapq.heappush(late, (time.monotonic() + self._delay, next(count), target, message))
            while late and late[0][0] <= time.monotonic():
                _, _, target, message = heapq.heappop(late)
                target.send_multipart(message)
        context.destroy(linger=0)
