"""A TCP server for tests that answers every connection with a given function."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Answer = Callable[[socket.socket], None]


@contextmanager
def standin(answer: Answer) -> Iterator[int]:
    """Listen on 127.0.0.1; run `answer` in a thread for each connection. Yields the port.

    At the end all sockets are closed, so that an answer that waits or drips ends with `OSError`.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    opened: list[socket.socket] = []

    def serve(client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            answer(client)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                opened.append(client)
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        for one in (listener, *opened):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def exactly(client: socket.socket, size: int) -> bytes:
    """Receive exactly `size` bytes. Raises `EOFError` if the client closed before."""
    found = b""
    while len(found) < size:
        more = client.recv(size - len(found))
        if not more:
            raise EOFError
        found += more
    return found
