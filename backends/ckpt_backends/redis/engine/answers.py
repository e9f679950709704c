"""Reads the answers of a Redis server, which may be hostile: size, depth and time have limits.

The driver's own readers believe every length, nest without end, and wait for each piece anew.
The protocol is RESP2: a line that begins with `+`, `-`, `:`, `$` or `*`, and what it announces.
"""

from __future__ import annotations

import re
import ssl
import time
from itertools import takewhile
from operator import eq
from typing import Any

from redis import exceptions
from redis._parsers import BaseParser

from ckpt_backends.codec.limits import MOST_BYTES

_MOST = 2 * MOST_BYTES
"""Bytes of one answer. Text of a value may be longer than its size in the server's memory."""
_EACH = 256
"""Bytes that each element counts at least, however short it is: it takes memory and time."""
_DEEPEST = 16
_LONGEST_LINE = 1 << 16
_PIECE = 1 << 16
_SLOWEST = 1 << 14
"""Bytes per second. An answer may take the timeout, and the time to send its bytes this slowly."""
_SHORT = 1 << 12
"""A text of up to this many bytes is copied twice in less time than by a view."""
_MANY = 32
"""Texts that are read together, at least."""
_NUMBER = re.compile(rb"-?[0-9]{1,19}")
_START = re.compile(rb"([$:*])(-?[0-9]{1,19})\r\n")
_NOTHING_YET = (BlockingIOError, TimeoutError, ssl.SSLWantReadError)


class Answers(BaseParser):
    """Reads answers from one connection. Raises the driver's errors, and `TimeoutError`."""

    def __init__(self, socket_read_size: int) -> None:  # noqa: ARG002  (the driver passes it)
        self._socket: Any = None
        self._wait = 0.0
        self._data = bytearray()
        self._at = 0
        self._left = 0
        self._deadline = 0.0

    def on_connect(self, connection: Any) -> None:
        """Begin to read from a new socket."""
        self._socket = connection._sock
        self._wait = connection.socket_timeout
        self._data.clear()
        self._at = 0

    def on_disconnect(self) -> None:
        """Forget the socket, and what was not read."""
        self._socket = None
        self._data.clear()
        self._at = 0

    def can_read(self, timeout: float = 0) -> bool:
        """Whether anything came that nobody asked for."""
        if self._at < len(self._data):
            return True
        self._socket.settimeout(timeout)
        try:
            self._receive()
        except _NOTHING_YET:
            return False
        finally:
            self._socket.settimeout(self._wait)
        return True

    def read_response(self, disable_decoding: bool = False, **_: Any) -> Any:  # noqa: ARG002
        """The next answer. Errors are returned, not raised, unless the connection is lost."""
        (found,) = self.read_answers(1)
        return found

    def read_answers(self, number: int) -> list[Any]:
        """The next answers; each is read as by `read_response`."""
        if self._socket is None:
            raise exceptions.ConnectionError("Connection closed by server.")
        found = []
        try:
            for _ in range(number):
                self._left = _MOST
                self._deadline = 0.0
                found.append(self._answer(0))
        finally:
            if self._socket is not None:
                self._socket.settimeout(self._wait)
        return found

    def _answer(self, depth: int) -> Any:
        start = _START.match(self._data, self._at)
        if start is not None:  # most answers
            self._at = start.end()
            return self._announced(start[1], int(start[2]), depth)
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind in {b"$", b":", b"*"}:
            return self._announced(kind, _number(rest), depth)
        if kind == b"+":
            return rest
        if kind == b"-":
            error: Any = self.parse_error(rest.decode("utf-8", "replace"))  # type: ignore[no-untyped-call]
            if isinstance(error, exceptions.ConnectionError):
                raise error
            return error
        raise exceptions.InvalidResponse(f"unknown type {kind!r}")

    def _announced(self, kind: bytes, number: int, depth: int) -> Any:
        """What begins with a number: the number itself, or a text or array of this length."""
        if kind == b":":
            return number
        if number < 0:
            if number == -1:
                return None
            raise exceptions.InvalidResponse(f"length {number}")
        if kind == b"$":
            return self._bytes(number)
        if depth == _DEEPEST:
            raise exceptions.InvalidResponse(f"more than {_DEEPEST} nested arrays")
        self._count(number * _EACH)
        return self._items(number, depth + 1)

    def _items(self, length: int, depth: int) -> list[Any]:
        """The elements of an array."""
        found: list[Any] = []
        are_texts = length >= _MANY
        while len(found) < length:
            if are_texts:
                texts = self._texts(length - len(found))
                # To look at the same bytes again and again would take longer than one by one.
                are_texts = len(texts) >= _MANY
                found += texts
            if len(found) < length:
                found.append(self._answer(depth))
        return found

    def _texts(self, most: int) -> list[bytes]:
        """The next elements of an array as far as they are texts that came whole, at most `most`.

        Their lengths are checked together. What remains is read one by one: other elements, and
        texts that contain the end of a line.
        """
        parts = bytes(self._data[self._at :]).split(b"\r\n", 2 * most)
        lines, texts = parts[0:-1:2], parts[1:-1:2]
        expected = [b"$%d" % len(text) for text in texts]
        if lines[: len(texts)] != expected:
            equal = takewhile(bool, map(eq, lines, expected))
            texts = texts[: sum(1 for _ in equal)]
        size = sum(map(len, texts))
        self._count(size)
        self._at += size + sum(map(len, lines[: len(texts)])) + 4 * len(texts)
        return texts

    def _line(self) -> bytes:
        start = self._at
        while (end := self._data.find(b"\r\n", start)) < 0:
            if len(self._data) - self._at > _LONGEST_LINE:
                raise exceptions.InvalidResponse(f"a line of more than {_LONGEST_LINE} bytes")
            start = max(self._at, len(self._data) - 1)
            start -= self._more()
        found = bytes(self._data[self._at : end])
        self._at = end + 2
        return found

    def _bytes(self, size: int) -> bytes:
        self._count(size)
        while len(self._data) - self._at < size + 2:
            self._more()
        at, end = self._at, self._at + size
        if not self._data.startswith(b"\r\n", end):
            raise exceptions.InvalidResponse(f"text is longer than its length {size}")
        self._at = end + 2
        if size <= _SHORT:
            return bytes(self._data[at:end])
        with memoryview(self._data) as whole:
            return bytes(whole[at:end])

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise exceptions.InvalidResponse(f"more than {_MOST >> 20} MiB in one answer")

    def _more(self) -> int:
        """Receive more. Returns the number of bytes before it that were dropped."""
        dropped = self._at
        del self._data[:dropped]
        self._at = 0
        now = time.monotonic()
        # An answer that came with those before it needs no clock.
        self._deadline = self._deadline or now + self._wait
        left = self._deadline - now
        if left <= 0:
            raise TimeoutError("the answer comes too slowly")
        self._socket.settimeout(min(left, self._wait))
        self._receive()
        return dropped

    def _receive(self) -> None:
        piece = self._socket.recv(_PIECE)
        if not piece:
            raise exceptions.ConnectionError("Connection closed by server.")
        self._data += piece
        self._deadline += len(piece) / _SLOWEST


def _number(text: bytes) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise exceptions.InvalidResponse(f"{text[:20]!r} is not a number")
    return int(text)
