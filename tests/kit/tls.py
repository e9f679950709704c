"""TLS in front of a server that has none, like the proxy of a managed service."""

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

from tests.kit.hostile.standin import standin


class Authority:
    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.file = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.file))

    def context(self, *names: str) -> ssl.SSLContext:
        """Return the TLS context of a server with these names or addresses."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert(*names).configure_cert(context)
        return context


@contextmanager
def tls_in_front(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """Yield a port of 127.0.0.1 that accepts TLS and forwards everything to another port."""

    def answer(client: socket.socket) -> None:
        with (
            context.wrap_socket(client, server_side=True) as near,
            socket.create_connection(("127.0.0.1", port)) as far,
        ):
            while True:
                ready = [near] if near.pending() else select.select([near, far], [], [])[0]
                for one in ready:
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    (far if one is near else near).sendall(data)

    with standin(answer) as ours:
        yield ours
