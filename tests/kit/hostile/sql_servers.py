"""What the tests of hostile PostgreSQL and MySQL servers share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tests.kit.command import CommandResult
from tests.kit.hostile import standin
from tests.kit.hostile.watched import check, here

PASSWORD = b"C4nary-Passw0rd"
QUICK = "connect_timeout=2&read_timeout=1"


@contextmanager
def url_at(scheme: str, server: standin.Answer, more: str) -> Iterator[str]:
    """Run a server, and yield its URL with the password."""
    with standin.standin(server) as port:
        yield f"{scheme}://u:{PASSWORD.decode()}@localhost:{port}/db?{QUICK}{more}"


def threads_at(server: AbstractContextManager[str]) -> CommandResult:
    """List the threads of a server. The answer is an ordinary one, without the password."""
    with server as url:
        answer = here("-s", url, "threads", "list")
    check(answer)
    assert PASSWORD.decode() not in answer.out + answer.err
    return answer
