"""A small graph of two nodes, its threads on PostgreSQL, and roles that may read these."""

from collections.abc import Iterator
from contextlib import contextmanager
from operator import add
from typing import Annotated, Any, TypedDict
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

READERS_RIGHTS = """
    CREATE ROLE {role} LOGIN;
    GRANT USAGE ON SCHEMA public TO {role};
    GRANT SELECT ON checkpoints, checkpoint_blobs, checkpoint_writes TO {role};
"""
SAID = {"role": "assistant", "content": "from a friend"}


class State(TypedDict):
    items: Annotated[list[str], add]
    n: int
    messages: Annotated[list[Any], add]


def saver_of(url: str) -> Any:
    from langgraph.checkpoint.postgres import PostgresSaver

    return PostgresSaver.from_conn_string(url)


def graph_of(saver: Any, first: Any = None, *, asks: bool = False) -> Any:
    """Return the graph, whose second node asks if it should."""
    from langgraph.types import interrupt

    from tests.kit.agents.small import chain

    def b(state: State) -> dict[str, Any]:
        said = interrupt("sure?") if asks else "from b"
        return {"items": [said], "messages": [SAID]}

    usual = lambda state: {"items": ["from a"], "n": len(state["items"])}  # noqa: E731
    return chain(State, {"a": first or usual, "b": b}).compile(checkpointer=saver)


def config_of(thread_id: str, **place: str) -> Any:
    """Return where the root of a thread is, or a checkpoint of it."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **place}}


def talk(saver: Any, *threads: str, asks: bool = False) -> None:
    """Run the graph once more in each thread."""
    for thread in threads:
        said = {"items": [f"in {thread}"]}
        graph_of(saver, asks=asks).invoke(said, config_of(thread), durability="sync")


def fill(url: str, *threads: str) -> None:
    with saver_of(url) as saver:
        saver.setup()
        talk(saver, *threads)


@contextmanager
def role(url: str, statements: str = READERS_RIGHTS, settings: str = "") -> Iterator[str]:
    """Yield the URL of a new role with these rights."""
    name = f"reader_{uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute((statements + settings).format(role=name).encode())
    try:
        yield with_user(url, name)
    finally:
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


def with_user(url: str, user: str, password: str | None = None) -> str:
    parts = urlsplit(url)
    secret = "" if password is None else f":{password}"
    return parts._replace(netloc=f"{user}{secret}@{parts.hostname}:{parts.port}").geturl()
