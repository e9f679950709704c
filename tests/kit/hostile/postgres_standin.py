"""Speaks as much of PostgreSQL's protocol as is needed to get past the start and misbehave then."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Sequence

from tests.kit.hostile.standin import Answer, exactly

_TLS, _GSS = 80877103, 80877104
READY = b"Z\0\0\0\5T"
LET_IN = 0
CLEAR_TEXT = 3
MD5 = 5
TEXT, INTEGER, NUMERIC, BYTES, NAMES, RECORD, JSONB = 25, 20, 1700, 17, 1009, 2249, 3802
BOOLEAN = 16


class Wire:
    """One connection. `heard` is everything that the client sent, decrypted."""

    def __init__(self, client: socket.socket, heard: bytearray) -> None:
        self.client = client
        self.heard = heard

    def start(self, tls: ssl.SSLContext | None = None) -> None:
        """Read who the client is, inside TLS if there is a context."""
        while True:
            (size,) = struct.unpack("!I", exactly(self.client, 4))
            body = exactly(self.client, size - 4)
            (code,) = struct.unpack("!I", body[:4])
            if code not in {_TLS, _GSS}:
                self.heard += body
                return
            if code == _TLS and tls is not None:
                self.client.sendall(b"S")
                self.client = tls.wrap_socket(self.client, server_side=True)
            else:
                self.client.sendall(b"N")

    def receive(self) -> tuple[bytes, bytes]:
        kind = exactly(self.client, 1)
        (size,) = struct.unpack("!I", exactly(self.client, 4))
        body = exactly(self.client, size - 4)
        self.heard += body
        return kind, body

    def ask_for(self, way: int, data: bytes = b"") -> None:
        """Ask for a password, and read it."""
        self.client.sendall(message(b"R", struct.pack("!I", way) + data))
        self.receive()

    def let_in(self) -> None:
        self.client.sendall(LETTING_IN)

    def query(self) -> bytes:
        """Wait for the next query. Returns its text."""
        found = b""
        while True:
            kind, body = self.receive()
            if kind == b"P":
                found = body.split(b"\0")[1]
            if kind == b"Q":
                return body.rstrip(b"\0")
            if kind == b"S":
                return found
            if kind == b"X":
                raise EOFError

    def serve(self, answer: Callable[[bytes], bytes]) -> None:
        """Let the client in, and answer its queries."""
        self.let_in()
        while True:
            said = self.query()
            self.client.sendall(done() if is_control(said) else answer(said))


Script = Callable[[Wire], None]


def answering(script: Script, heard: bytearray | None = None) -> Answer:
    """What `standin` takes: it runs the script, and closes the connection at its end."""
    kept = bytearray() if heard is None else heard
    return lambda client: script(Wire(client, kept))


def is_control(said: bytes) -> bool:
    return said.startswith((b"BEGIN", b"ROLLBACK", b"COMMIT", b"START"))


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def setting(name: bytes, value: bytes) -> bytes:
    return message(b"S", name + b"\0" + value + b"\0")


def described(kinds: Sequence[int], form: int = 1) -> bytes:
    columns = (b"a\0" + struct.pack("!IhIhih", 0, 0, kind, -1, -1, form) for kind in kinds)
    return message(b"T", struct.pack("!H", len(kinds)) + b"".join(columns))


def row(*cells: bytes | None) -> bytes:
    sized = (b"\xff" * 4 if one is None else struct.pack("!I", len(one)) + one for one in cells)
    return message(b"D", struct.pack("!H", len(cells)) + b"".join(sized))


def done(tag: bytes = b"OK") -> bytes:
    """The answer to a statement without rows."""
    return BEGUN + message(b"C", tag + b"\0") + READY


def table(rows: Sequence[Sequence[bytes | None]], kinds: Sequence[int], form: int = 1) -> bytes:
    return b"".join(
        (
            *(BEGUN, described(kinds, form), *(row(*one) for one in rows)),
            *(message(b"C", b"SELECT\0"), READY),
        )
    )


def error(text: bytes) -> bytes:
    return message(b"E", b"SERROR\0C08000\0M" + text + b"\0\0") + READY


BEGUN = message(b"1", b"") + message(b"2", b"")
LETTING_IN = b"".join(
    (
        *(message(b"R", bytes(4)), setting(b"server_version", b"18.0")),
        *(setting(b"client_encoding", b"UTF8"), setting(b"standard_conforming_strings", b"on")),
        *(message(b"K", struct.pack("!II", 1, 1)), b"Z\0\0\0\5I"),
    )
)
SCHEMAS = struct.pack("!iiIiii", 1, 0, TEXT, 1, 1, 6) + b"public"
NAMES_OF: dict[str, Sequence[tuple[str, str]]] = {
    "checkpoints": (
        *(("thread_id", "text"), ("checkpoint_ns", "text"), ("checkpoint_id", "text")),
        *(("parent_checkpoint_id", "text"), ("type", "text")),
        *(("checkpoint", "jsonb"), ("metadata", "jsonb")),
    ),
    "checkpoint_blobs": (
        *(("thread_id", "text"), ("checkpoint_ns", "text"), ("channel", "text")),
        *(("version", "text"), ("type", "text"), ("blob", "bytea")),
    ),
    "checkpoint_writes": (
        *(("thread_id", "text"), ("checkpoint_ns", "text"), ("checkpoint_id", "text")),
        *(("task_id", "text"), ("idx", "int4"), ("channel", "text"), ("type", "text")),
        *(("blob", "bytea"), ("task_path", "text")),
    ),
    "store": (
        *(("prefix", "text"), ("key", "text"), ("value", "jsonb")),
        *(("created_at", "timestamptz"), ("updated_at", "timestamptz")),
    ),
}
"""The tables of LangGraph's saver and of its store."""


def catalog(said: bytes) -> bytes | None:
    """The answers to the queries for schemas and columns; None for other queries."""
    if b"current_schemas" in said:
        return table([(SCHEMAS, b"pg_catalog", None, None)], [NAMES, TEXT, TEXT, TEXT])
    if b"pg_attribute" in said:
        rows = [
            (b"public", name.encode(), one.encode(), kind.encode(), b"\0")
            for name, columns in NAMES_OF.items()
            for one, kind in columns
        ]
        return table(rows, [*[TEXT] * 4, BOOLEAN])
    return None
