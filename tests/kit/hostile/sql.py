"""What the stand-ins of PostgreSQL and MySQL have in common: one connection, and how to ask it."""

import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeAlias

from tests.kit.command import CommandResult
from tests.kit.hostile.standin import standin
from tests.kit.hostile.watched import check, here

PASSWORD = b"C4nary-Passw0rd"
QUICK = "connect_timeout=2&read_timeout=1"
_KEY = "thread_id checkpoint_ns"
TABLES = {
    "checkpoints": f"{_KEY} checkpoint_id parent_checkpoint_id type checkpoint metadata",
    "checkpoint_blobs": f"{_KEY} channel version type blob",
    "checkpoint_writes": f"{_KEY} checkpoint_id task_id idx channel type blob task_path",
}
"""The columns of the tables of LangGraph's saver."""
Parts: TypeAlias = Sequence[bytes]
"""An answer, as the packets or messages that it consists of."""
Cells: TypeAlias = Sequence[bytes | None]


def columns(
    tables: Mapping[str, str], kinds: Mapping[str, str], default: str
) -> list[tuple[bytes, bytes, bytes]]:
    """Return the table, the name and the type of each column; most have the type `default`."""
    return [
        (table.encode(), name.encode(), kinds.get(name, default).encode())
        for table, names in tables.items()
        for name in names.split()
    ]


class Wire(ABC):
    """One connection. `heard` is everything that the client sent, decrypted."""

    scheme: ClassVar[str]
    done: ClassVar[Parts]
    """The answer to a statement without rows."""

    def __init__(self, client: socket.socket, heard: bytearray) -> None:
        self.client = client
        self.heard = heard

    @abstractmethod
    def begin(self, tls: ssl.SSLContext | None = None) -> None:
        """Read who the client is, inside TLS if there is a context."""

    @abstractmethod
    def let_in(self) -> None:
        """Say that the client is logged in."""

    @abstractmethod
    def query(self) -> bytes:
        """Wait for the next query. Returns its text."""

    @abstractmethod
    def framed(self, *parts: bytes) -> bytes:
        """Return parts of an answer as they are sent."""

    @abstractmethod
    def table(self, rows: Sequence[Cells], kinds: Sequence[int], *, as_text: bool = True) -> Parts:
        """Return a result of these rows."""

    @abstractmethod
    def catalog(self, said: bytes) -> Parts | None:
        """Return the answer to a query for tables and columns; None for other queries."""

    @abstractmethod
    def is_control(self, said: bytes) -> bool:
        """Return whether a statement has no rows."""

    @abstractmethod
    def error(self, text: bytes) -> Parts:
        """Return an error with this message."""

    def say(self, *parts: bytes) -> None:
        self.client.sendall(self.framed(*parts))

    def honest(self, said: bytes) -> Parts | None:
        """Return the answer to what has nothing to do with the rows of a thread."""
        return self.done if self.is_control(said) else self.catalog(said)

    def serve(self, answer: Callable[[bytes], Parts]) -> None:
        """Let the client in, and answer its queries for rows; all others are answered honestly."""
        self.let_in()
        while True:
            said = self.query()
            self.say(*(self.honest(said) or answer(said)))


Script: TypeAlias = Callable[[Any], None]
"""What a server does with one `Wire`."""


@contextmanager
def url_at(
    engine: type[Wire], script: Script, heard: bytearray | None = None, more: str = ""
) -> Iterator[str]:
    """Run a server, whose connections end with the script; yield its URL with the password."""
    kept = bytearray() if heard is None else heard
    with standin(lambda client: script(engine(client, kept))) as port:
        yield f"{engine.scheme}://u:{PASSWORD.decode()}@localhost:{port}/db?{QUICK}{more}"


def ask(
    engine: type[Wire], script: Script, heard: bytearray | None = None, more: str = ""
) -> CommandResult:
    """List the threads of a server. The answer is an ordinary one, without the password."""
    with url_at(engine, script, heard, more) as url:
        answer = check(here("-s", url, "threads", "list"))
    assert PASSWORD.decode() not in answer.out + answer.err
    return answer
