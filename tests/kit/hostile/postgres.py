"""Speaks as much of PostgreSQL's protocol as is needed to get past the start and misbehave then."""

import ssl
import struct
from collections.abc import Sequence
from typing import ClassVar

from tests.kit.hostile.sql import TABLES, Cells, Parts, Wire, columns
from tests.kit.hostile.standin import exactly

_TLS, _GSS = 80877103, 80877104
READY = b"Z\0\0\0\5T"
CLEAR_TEXT = 3
MD5 = 5
TEXT, INTEGER, NUMERIC, BYTES, NAMES, RECORD, JSONB = 25, 20, 1700, 17, 1009, 2249, 3802
BOOLEAN = 16


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def setting(name: bytes, value: bytes) -> bytes:
    return message(b"S", name + b"\0" + value + b"\0")


def row(cells: Cells) -> bytes:
    sized = (b"\xff" * 4 if one is None else struct.pack("!I", len(one)) + one for one in cells)
    return message(b"D", struct.pack("!H", len(cells)) + b"".join(sized))


BEGUN = message(b"1", b"") + message(b"2", b"")
LETTING_IN = b"".join(
    (
        *(message(b"R", bytes(4)), setting(b"server_version", b"18.0")),
        *(setting(b"client_encoding", b"UTF8"), setting(b"standard_conforming_strings", b"on")),
        *(message(b"K", struct.pack("!II", 1, 1)), b"Z\0\0\0\5I"),
    )
)
SCHEMAS = struct.pack("!iiIiii", 1, 0, TEXT, 1, 1, 6) + b"public"


class PostgresWire(Wire):
    """One connection."""

    scheme = "postgresql"
    done: ClassVar[Parts] = [BEGUN, message(b"C", b"OK\0"), READY]

    def framed(self, *parts: bytes) -> bytes:
        return b"".join(parts)

    def begin(self, tls: ssl.SSLContext | None = None) -> None:
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

    def is_control(self, said: bytes) -> bool:
        return said.startswith((b"BEGIN", b"ROLLBACK", b"COMMIT", b"START"))

    def error(self, text: bytes) -> Parts:
        return [message(b"E", b"SERROR\0C08000\0M" + text + b"\0\0"), READY]

    def table(self, rows: Sequence[Cells], kinds: Sequence[int], *, as_text: bool = False) -> Parts:
        described = (
            b"a\0" + struct.pack("!IhIhih", 0, 0, kind, -1, -1, not as_text) for kind in kinds
        )
        columns = message(b"T", struct.pack("!H", len(kinds)) + b"".join(described))
        return [BEGUN, columns, *map(row, rows), message(b"C", b"SELECT\0"), READY]

    def catalog(self, said: bytes) -> Parts | None:
        if b"current_schemas" in said:
            return self.table([(SCHEMAS, b"pg_catalog", None, None)], [NAMES, TEXT, TEXT, TEXT])
        if b"pg_attribute" in said:
            tables = {**TABLES, "store": "prefix key value created_at updated_at"}
            kinds = dict.fromkeys(("checkpoint", "metadata", "value"), "jsonb")
            kinds |= {"blob": "bytea", "idx": "int4"}
            kinds |= dict.fromkeys(("created_at", "updated_at"), "timestamptz")
            rows = [(b"public", *one, b"\0") for one in columns(tables, kinds, "text")]
            return self.table(rows, [*[TEXT] * 4, BOOLEAN])
        return None
