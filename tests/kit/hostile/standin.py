"""A TCP server for tests that answers every connection with a given function: a stand-in of a
server, or a man in the middle before one.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from typing import TypeVar

Answer = Callable[[socket.socket], None]
_Asked = TypeVar("_Asked")


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


def serving(
    read: Callable[[BufferedReader], _Asked], reply: Callable[[_Asked], bytes | None]
) -> Answer:
    """Answer every request that `read` finds as `reply` says; None closes the connection."""

    def answer(client: socket.socket) -> None:
        with client.makefile("rb") as asked:
            while (said := reply(read(asked))) is not None:
                client.sendall(said)

    return answer


def between(
    port: int,
    read: Callable[[BufferedReader], _Asked],
    packed: Callable[[_Asked], bytes],
    whole: Callable[[BufferedReader], bytes],
    change: Callable[[_Asked, bytes], bytes | None],
) -> Answer:
    """Pass requests on to the server at a port, and its whole answers back as `change` says."""

    def answer(client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", port)) as server, server.makefile("rb") as told:

            def reply(request: _Asked) -> bytes | None:
                server.sendall(packed(request))
                return change(request, whole(told))

            serving(read, reply)(client)

    return answer
