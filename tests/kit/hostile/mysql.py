"""Speaks as much of MySQL's protocol as is needed to get past the handshake and misbehave then."""

import ssl
from collections.abc import Sequence
from typing import ClassVar

from tests.kit.hostile.sql import TABLES, Cells, Parts, Wire, columns
from tests.kit.hostile.standin import exactly

PROTOCOL_41, SSL, SECURE, MULTI_RESULTS, PLUGINS = 1 << 9, 1 << 11, 1 << 15, 1 << 17, 1 << 19
CAPABILITIES = 0x8 | PROTOCOL_41 | SECURE | MULTI_RESULTS | PLUGINS
SALT = b"12345678", b"901234567890"
NATIVE = "mysql_native_password"
OK = b"\0\0\0\2\0\0\0"
END = b"\xfe\0\0\2\0"
INFILE = b"\xfb/etc/passwd"
INTEGER, TEXT, DECIMAL, BLOB = 8, 253, 246, 252


class MysqlWire(Wire):
    """One connection; each packet has a number."""

    scheme = "mysql"
    done: ClassVar[Parts] = [OK]
    number = 0

    def framed(self, *parts: bytes) -> bytes:
        found = b""
        for one in parts:
            found += len(one).to_bytes(3, "little") + bytes([self.number % 256]) + one
            self.number += 1
        return found

    def receive(self) -> bytes:
        head = exactly(self.client, 4)
        payload = exactly(self.client, int.from_bytes(head[:3], "little"))
        self.heard += payload
        self.number = head[3] + 1
        return payload

    def begin(self, tls: ssl.SSLContext | None = None, plugin: str = NATIVE) -> None:
        self.say(greeting(plugin, CAPABILITIES | (SSL if tls else 0)))
        first = self.receive()
        if tls and int.from_bytes(first[:4], "little") & SSL and len(first) == 32:
            self.client = tls.wrap_socket(self.client, server_side=True)
            self.receive()

    def switch(self, plugin: str, data: bytes = SALT[0] + SALT[1] + b"\0") -> bytes:
        """Ask for another method of authentication. Returns what the client answers."""
        if plugin == "dialog":
            data = b"\x0bPassword: "
        self.say(b"\xfe" + plugin.encode() + b"\0" + data)
        return self.receive()

    def let_in(self) -> None:
        self.say(OK)

    def query(self) -> bytes:
        return self.receive()[1:]

    def is_control(self, said: bytes) -> bool:
        return b"SELECT" not in said

    def error(self, text: bytes) -> Parts:
        return [b"\xff\xe8\x03#HY000" + text]

    def table(self, rows: Sequence[Cells], kinds: Sequence[int], *, as_text: bool = True) -> Parts:
        described = [column(kind) for kind in kinds]
        return [bytes([len(described)]), *described, END, *(row(*one) for one in rows), END]

    def catalog(self, said: bytes) -> Parts | None:
        if b"information_schema.columns" not in said:
            return None
        tables = {name: f"{names} checkpoint_ns_hash" for name, names in TABLES.items()}
        kinds = {"checkpoint": "json", "metadata": "json", "blob": "longblob", "idx": "int"}
        found = columns(tables, {**kinds, "checkpoint_ns_hash": "binary"}, "varchar")
        rows = [(*one, b"", b"utf8mb4", b"utf8mb4_bin", b"0") for one in found]
        return self.table(rows, [*[TEXT] * 6, INTEGER])


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
