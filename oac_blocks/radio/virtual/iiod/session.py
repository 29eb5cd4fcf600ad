# SPDX-License-Identifier: GPL-3.0-or-later
"""One client's connection: it reads IIOD's lines and answers them until the client leaves or sends EXIT or no lines.

Whatever is sent, memory stays bounded and no exception leaves ``serve``: errors are negative numbers in an answer.
"""

from __future__ import annotations

import errno
import logging
import select
import socket

import numpy as np

from oac_blocks.radio.virtual.air.receiver import ReceiveQueue
from oac_blocks.radio.virtual.air.shared_air import SharedAir
from oac_blocks.radio.virtual.air.transmitter import Buffer, WordBlock
from oac_blocks.radio.virtual.iiod import commands
from oac_blocks.radio.virtual.iiod.attributes import Attribute, refuse

_log = logging.getLogger(__name__)
VERSION = "0.24.v0.24  "
MOST_TEXT_BYTES = 1 << 16
_RECEIVE_BYTES = 1 << 16
_WORD_BYTES = 2


class _GoneError(Exception):
    """The client has left."""


class IiodSession:
    def __init__(self, connection: socket.socket, air: SharedAir, radio: int) -> None:
        self._socket, self._air, self._radio = connection, air, radio
        self._received = bytearray()
        self._rx: ReceiveQueue | None = None
        self._rx_left = memoryview(b"")  # rest of a block that was read in part
        self._tx: Buffer | None = None
        self._tx_mask, self._tx_bytes = 3, 0

    def serve(self) -> None:
        try:
            while True:
                command = commands.parse(self._line())
                if command == commands.Simple("EXIT"):
                    return
                self._answer(command)
        except (_GoneError, OSError):
            pass  # connections end like this
        finally:
            self._close_rx()
            self._close_tx()

    def _answer(self, command: commands.Command) -> None:
        try:
            self._do(command)
        except OSError as error:
            if error.errno in (errno.EPIPE, errno.ECONNRESET, errno.EBADF) and self._gone():
                raise
            self._send(f"{-(error.errno or errno.EIO)}\n".encode())
        except _GoneError:
            raise
        except Exception:
            # This is an error of this program, and no reason to disconnect the client.
            _log.exception("no answer to %r", command)
            self._send(f"{-errno.EIO}\n".encode())

    def _do(self, command: commands.Command) -> None:
        match command:
            case commands.Nothing():
                return
            case commands.Simple("PRINT"):
                with self._air.turn():
                    xml = self._air.context(self._radio).context.xml().encode()
                self._send(b"%d\n%s\n" % (len(xml), xml))
            case commands.Simple("VERSION"):
                self._send(f"{VERSION}\n".encode())
            case commands.Simple("TIMEOUT"):
                self._send(b"0\n")
            case commands.Trigger():
                refuse(errno.ENOENT)
            case commands.Read(path):
                with self._air.turn():
                    text = self._attribute(path).get()
                value = text.encode() + b"\0"
                self._send(b"%d\n%s\n" % (len(value), value))
            case commands.Write(path, length):
                self._write(path, length)
            case commands.SetBuffers(device, count):
                self._air.set_kernel_buffers(self._radio, self._stream(device), count)
                self._send(b"0\n")
            case commands.Open(device, samples, mask, cyclic):
                self._open(self._stream(device), samples, mask, cyclic)
                self._send(b"0\n")
            case commands.Close(device):
                self._close(self._stream(device))
                self._send(b"0\n")
            case commands.ReadBuffer(device, length):
                self._read_buffer(self._stream(device), length)
            case commands.WriteBuffer(device, length):
                self._write_buffer(self._stream(device), length)
            case _:
                refuse()

    # Attributes.

    def _attribute(self, path: commands.AttributePath) -> Attribute:
        device = self._air.context(self._radio).context.device(path.device)
        attributes = {"device": device.attributes, "debug": device.debug, "buffer": device.buffer}
        if path.place in ("input", "output"):
            found = device.channel(path.channel, path.place == "output").attributes
        else:
            found = attributes[path.place]
        return found[path.attribute] if path.attribute in found else refuse(errno.ENOENT)

    def _write(self, path: commands.AttributePath, length: int) -> None:
        if length > MOST_TEXT_BYTES:
            self._discard(length)
            refuse(errno.E2BIG)
        # The value follows the line, whatever the answer will be.
        payload = self._take(length)
        try:
            text = payload.rstrip(b"\0").decode("ascii")
        except UnicodeDecodeError:
            refuse()
        with self._air.turn():
            self._attribute(path).set(text)
        self._send(b"%d\n" % length)

    # Buffers.

    def _stream(self, device: str) -> str:
        pluto = self._air.context(self._radio)
        found = pluto.context.device(device)
        if found is pluto.rx:
            return "rx"
        return "tx" if found is pluto.tx else refuse()

    def _open(self, stream: str, samples: int, mask: int, cyclic: bool) -> None:
        if not 1 <= mask <= 3:
            refuse()
        if stream == "rx":
            if self._rx is not None:
                refuse(errno.EBUSY)
            if cyclic:
                refuse(errno.EPERM)
            self._rx = self._air.open_rx(self._radio, samples, mask)
            self._rx_left = memoryview(b"")
        else:
            if self._tx is not None:
                refuse(errno.EBUSY)
            self._tx = self._air.open_tx(self._radio, samples, cyclic)
            self._tx_mask, self._tx_bytes = mask, samples * _channels(mask) * _WORD_BYTES

    def _close(self, stream: str) -> None:
        if (self._rx if stream == "rx" else self._tx) is None:
            refuse(errno.EBADF)
        if stream == "rx":
            self._close_rx()
        else:
            self._close_tx()

    def _close_rx(self) -> None:
        if self._rx is not None:
            self._air.close_rx(self._radio, self._rx)
            self._rx = None

    def _close_tx(self) -> None:
        if self._tx is not None:
            self._air.close_tx(self._radio, self._tx)
            self._tx = None

    def _read_buffer(self, stream: str, length: int) -> None:
        queue = self._rx
        if stream != "rx" or queue is None:
            refuse(errno.EBADF)
        if length < 1 or length % (_channels(queue.mask) * _WORD_BYTES):
            refuse()
        mask = b"%08x\n" % queue.mask
        while length:
            if not len(self._rx_left):
                words = self._air.pop_rx(self._radio, queue, self._gone)
                self._rx_left = words.astype("<i2", copy=False).data.cast("B")
            some, self._rx_left = self._rx_left[:length], self._rx_left[length:]
            self._send(b"%d\n%s" % (len(some), mask), some)
            mask = b""
            length -= len(some)

    def _write_buffer(self, stream: str, length: int) -> None:
        buffer = self._tx
        if stream != "tx" or buffer is None:
            refuse(errno.EBADF)
        step = _channels(self._tx_mask) * _WORD_BYTES
        if not 0 < length <= self._tx_bytes or length % step:
            refuse()
        self._send(b"0\n")
        words = np.frombuffer(self._take(length), "<i2").astype(np.int16, copy=False)
        self._air.push_tx(self._radio, buffer, WordBlock(words, self._tx_mask), self._gone)
        self._send(b"%d\n" % length)

    # Bytes.

    def _line(self) -> bytes:
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > commands.MAX_LINE_BYTES:
                self._send(f"{-errno.EINVAL}\n".encode())
                raise _GoneError
            self._receive_more()
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line if len(line) <= commands.MAX_LINE_BYTES else b"?"

    def _take(self, length: int) -> bytearray:
        """Return the next bytes in one piece; a large piece takes its memory page by page as the bytes come."""
        taken, count = bytearray(length), min(length, len(self._received))
        taken[:count] = self._received[:count]
        del self._received[:count]
        with memoryview(taken) as left:
            while count < length:
                some = self._socket.recv_into(left[count : count + 4 * _RECEIVE_BYTES])
                if not some:
                    raise _GoneError
                count += some
        return taken

    def _discard(self, length: int) -> None:
        while length > 0:
            length -= len(self._take(min(length, _RECEIVE_BYTES)))

    def _receive_more(self) -> None:
        some = self._socket.recv(4096)
        if not some:
            raise _GoneError
        self._received += some

    def _send(self, *parts: bytes | memoryview) -> None:
        for part in parts if len(parts[-1]) > _RECEIVE_BYTES else (b"".join(parts),):
            self._socket.sendall(part)

    def _gone(self) -> bool:
        """Return whether the client left during a wait. What it had sent before may still be unread."""
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLRDHUP)  # errors and hang-ups are reported in any case
            return bool(poll.poll(0))
        except (OSError, ValueError):
            return True


def _channels(mask: int) -> int:
    return bin(mask).count("1")
