"""A proxy before a real server that changes some statements, so that the server refuses them.

So a real PostgreSQL or MariaDB lacks what a server lacks that only speaks its protocol.
"""

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from tests.kit.hostile.standin import exactly, standin

Rewrites = Sequence[tuple[str, str]]
"""Patterns in statements, and what replaces them."""
_Rewrite = Callable[[bytes], bytes]
_TLS, _GSS = 80877103, 80877104
_COM_QUERY = b"\x03"


@contextmanager
def rewriting(url: str, rewrites: Rewrites) -> Iterator[str]:
    """Yield the URL of a proxy before the server of a URL."""
    parts = urlsplit(url)
    forward = _postgres if parts.scheme == "postgresql" else _mysql

    def rewrite(statement: bytes) -> bytes:
        text = statement.decode("utf-8", "surrogateescape")
        for pattern, other in rewrites:
            text = re.sub(pattern, other, text, flags=re.DOTALL | re.IGNORECASE)
        return text.encode("utf-8", "surrogateescape")

    def answer(client: socket.socket) -> None:
        with socket.create_connection((parts.hostname or "", parts.port or 0)) as server:
            # Parts of a request go on one by one, which the kernel would delay by 40 ms each.
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                forward(client, server, rewrite)
            finally:
                # The thread that sends back still reads, so closing alone would not end the
                # connection, and the server would keep its locks.
                with suppress(OSError):
                    server.shutdown(socket.SHUT_RDWR)

    with standin(answer) as port:
        user = f"{parts.username}@" if parts.username else ""
        yield parts._replace(netloc=f"{user}127.0.0.1:{port}").geturl()


def _postgres(client: socket.socket, server: socket.socket, rewrite: _Rewrite) -> None:
    while True:
        head = exactly(client, 4)
        body = exactly(client, struct.unpack("!I", head)[0] - 4)
        if struct.unpack("!I", body[:4])[0] not in {_TLS, _GSS}:
            break
        client.sendall(b"N")
    server.sendall(head + body)
    _send_back(server, client)
    while True:
        kind = exactly(client, 1)
        body = exactly(client, struct.unpack("!I", exactly(client, 4))[0] - 4)
        if kind == b"Q":
            body = rewrite(body)
        if kind == b"P":
            name, query, types = body.split(b"\0", 2)
            body = b"\0".join((name, rewrite(query), types))
        server.sendall(kind + struct.pack("!I", len(body) + 4) + body)


def _mysql(client: socket.socket, server: socket.socket, rewrite: _Rewrite) -> None:
    _send_back(server, client)
    while True:
        head = exactly(client, 4)
        body = exactly(client, int.from_bytes(head[:3], "little"))
        if head[3] == 0 and body[:1] == _COM_QUERY:
            body = _COM_QUERY + rewrite(body[1:])
        server.sendall(len(body).to_bytes(3, "little") + head[3:] + body)


def _send_back(server: socket.socket, client: socket.socket) -> None:
    """Send what the server answers to the client, in a thread."""

    def pump() -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)

    threading.Thread(target=pump, daemon=True).start()
