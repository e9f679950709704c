"""Answers of a Redis server are read alike in any pieces; commands are packed as by the driver."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from redis import exceptions

from ckpt_backends.redis.engine import answers
from ckpt_backends.redis.engine.together import PackingConnection, PackingTlsConnection

TEXTS: list[Any] = [b"name %d" % n for n in range(400)]
ODD: list[Any] = [b"", b"\r\n", b"$3\r\nabc\r\n", None, 7, b"$1", [b"a\r\n", None], b"x" * 70_000]


def sent(value: Any) -> bytes:
    """The bytes with which a server sends a value."""
    if isinstance(value, list):
        return b"*%d\r\n%b" % (len(value), b"".join(map(sent, value)))
    if isinstance(value, int):
        return b":%d\r\n" % value
    return b"$-1\r\n" if value is None else b"$%d\r\n%b\r\n" % (len(value), value)


def read(sent: bytes, piece: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Read an answer that is received in pieces of some bytes."""
    monkeypatch.setattr(answers, "_PIECE", piece)
    server, own = socket.socketpair()
    with server, own:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        server.sendall(sent)
        reader = answers.Answers(0)
        reader.on_connect(SimpleNamespace(_sock=own, socket_timeout=5))
        found = reader.read_response()
        assert not reader.can_read()
        return found


@pytest.mark.parametrize("piece", [7, 1000, 1 << 16])
@pytest.mark.parametrize(
    "value",
    [
        TEXTS,
        [b"0", TEXTS],
        [*TEXTS, *ODD, *TEXTS],
        [*(one for text in TEXTS for one in (text, None)), *TEXTS],
        [TEXTS[:40]] * 40,
    ],
)
def test_an_array_is_read_in_any_pieces(
    value: list[Any], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(sent(value), piece, monkeypatch) == value


def test_a_text_that_is_longer_than_its_length_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = sent(TEXTS).replace(b"$8\r\nname 200", b"$5\r\nname 200")
    with pytest.raises(exceptions.InvalidResponse, match="longer than its length 5"):
        read(wrong, 1 << 16, monkeypatch)


COMMANDS: list[tuple[Any, ...]] = [
    ("PING",),
    ("MEMORY USAGE", b"\r\nname\x00\xff"),
    (b"GET", "n\u00e4me"),
    ("JSON.SET", b"name", "$", '"\u00e4"' * 500, "NX"),
    ("PEXPIRE", "name", -7),
    ("UNLINK", *TEXTS),
]


@pytest.mark.parametrize(
    ("kind", "driver_kind"),
    [(PackingConnection, redis.Connection), (PackingTlsConnection, redis.SSLConnection)],
)
def test_commands_are_packed_as_by_the_driver(kind: type[Any], driver_kind: type[Any]) -> None:
    own, driver = kind(), driver_kind()
    for command in COMMANDS:
        expected = b"".join(driver.pack_command(*command))
        # The second time, its words are remembered.
        assert [*own.pack_command(*command), *own.pack_command(*command)] == [expected] * 2
    assert own.pack_commands(COMMANDS) == [b"".join(driver.pack_commands(COMMANDS))]
