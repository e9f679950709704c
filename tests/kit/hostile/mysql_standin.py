"""Speaks as much of MySQL's protocol as is needed to get past the handshake and misbehave then."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence

from tests.kit.hostile.standin import Answer, exactly

PROTOCOL_41, SSL, SECURE, MULTI_RESULTS, PLUGINS = 1 << 9, 1 << 11, 1 << 15, 1 << 17, 1 << 19
CAPABILITIES = 0x8 | PROTOCOL_41 | SECURE | MULTI_RESULTS | PLUGINS
SALT = b"12345678", b"901234567890"
NATIVE = "mysql_native_password"
OK = b"\0\0\0\2\0\0\0"
END = b"\xfe\0\0\2\0"
INFILE = b"\xfb/etc/passwd"
INTEGER, TEXT, DECIMAL, BLOB = 8, 253, 246, 252


class Wire:
    """One connection. `heard` is everything that the client sent, decrypted."""

    def __init__(self, client: socket.socket, heard: bytearray) -> None:
        self.client = client
        self.heard = heard
        self.number = 0

    def packet(self, payload: bytes) -> bytes:
        self.number += 1
        return len(payload).to_bytes(3, "little") + bytes([(self.number - 1) % 256]) + payload

    def send(self, *payloads: bytes) -> None:
        self.client.sendall(b"".join(map(self.packet, payloads)))

    def receive(self) -> bytes:
        head = exactly(self.client, 4)
        payload = exactly(self.client, int.from_bytes(head[:3], "little"))
        self.heard += payload
        self.number = head[3] + 1
        return payload

    def greet(self, plugin: str = NATIVE, tls: ssl.SSLContext | None = None) -> None:
        """Greet, and read who the client is, inside TLS if there is a context."""
        self.send(greeting(plugin, CAPABILITIES | (SSL if tls else 0)))
        first = self.receive()
        if tls and int.from_bytes(first[:4], "little") & SSL and len(first) == 32:
            self.client = tls.wrap_socket(self.client, server_side=True)
            self.receive()

    def switch(self, plugin: str, data: bytes = SALT[0] + SALT[1] + b"\0") -> bytes:
        """Ask for another method of authentication. Returns what the client answers."""
        self.send(b"\xfe" + plugin.encode() + b"\0" + data)
        return self.receive()

    def serve(self, answer: Callable[[bytes], Sequence[bytes] | None]) -> None:
        """Let the client in, and answer its statements; OK if `answer` returns None."""
        self.send(OK)
        while True:
            said = self.receive()
            self.send(*(answer(said[1:]) or [OK]))


Script = Callable[[Wire], None]


def answering(script: Script, heard: bytearray | None = None) -> Answer:
    """What `standin` takes: it runs the script, and closes the connection at its end."""
    kept = bytearray() if heard is None else heard
    return lambda client: script(Wire(client, kept))


def greeting(plugin: str = NATIVE, capabilities: int = CAPABILITIES) -> bytes:
    low, high = capabilities & 0xFFFF, capabilities >> 16
    return b"".join(
        (
            b"\x0a5.7.0-standin\0" + (1).to_bytes(4, "little") + SALT[0] + b"\0",
            low.to_bytes(2, "little") + b"\x2d\x02\0" + high.to_bytes(2, "little"),
            bytes([21]) + bytes(10) + SALT[1] + b"\0" + plugin.encode() + b"\0",
        )
    )


def sized(data: bytes) -> bytes:
    """Text with its length before it."""
    if len(data) < 251:
        return bytes([len(data)]) + data
    return b"\xfd" + len(data).to_bytes(3, "little") + data


def column(kind: int = TEXT, name: str = "a", charset: int = 45) -> bytes:
    parts = [b"def", b"", b"", b"", name.encode(), name.encode()]
    fixed = charset.to_bytes(2, "little") + bytes(4) + bytes([kind]) + bytes(5)
    return b"".join(map(sized, parts)) + b"\x0c" + fixed


def row(*cells: bytes | None) -> bytes:
    return b"".join(b"\xfb" if cell is None else sized(cell) for cell in cells)


def table(rows: Sequence[Sequence[bytes | None]], kinds: Sequence[int] = ()) -> list[bytes]:
    """The packets of a result."""
    width = len(rows[0]) if rows else max(1, len(kinds))
    described = [column(kind) for kind in kinds or [TEXT] * width]
    return [bytes([len(described)]), *described, END, *(row(*one) for one in rows), END]


NAMES = {
    "checkpoints": [
        *(("thread_id", "varchar"), ("checkpoint_ns", "varchar"), ("checkpoint_ns_hash", "binary")),
        *(("checkpoint_id", "varchar"), ("parent_checkpoint_id", "varchar"), ("type", "varchar")),
        *(("checkpoint", "json"), ("metadata", "json")),
    ],
    "checkpoint_blobs": [
        *(("thread_id", "varchar"), ("checkpoint_ns", "varchar"), ("checkpoint_ns_hash", "binary")),
        *(
            ("channel", "varchar"),
            ("version", "varchar"),
            ("type", "varchar"),
            ("blob", "longblob"),
        ),
    ],
    "checkpoint_writes": [
        *(("thread_id", "varchar"), ("checkpoint_ns", "varchar"), ("checkpoint_ns_hash", "binary")),
        *(("checkpoint_id", "varchar"), ("task_id", "varchar"), ("idx", "int")),
        *(("channel", "varchar"), ("type", "varchar"), ("blob", "longblob")),
        ("task_path", "varchar"),
    ],
}
"""The tables of LangGraph's saver."""


def catalog(said: bytes) -> list[bytes] | None:
    """The answer to the query for all columns; None for other queries."""
    if b"information_schema.columns" not in said:
        return None
    return table(
        [
            (name.encode(), one.encode(), kind.encode(), b"", b"utf8mb4", b"utf8mb4_bin", b"0")
            for name, columns in NAMES.items()
            for one, kind in columns
        ],
        [*[TEXT] * 6, INTEGER],
    )
