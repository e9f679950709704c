"""Rollbacks and forks of many threads on a server, while an agent works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from ckpt_backends.registry import open_store
from ckpt_backends.rows import Row
from tests.kit.agents.many import Agent
from tests.kit.command import ckpt
from tests.many.test_rollback import by_thread

pytestmark = pytest.mark.engines

KINDS = {"a": "raise", "b": "inside", "c": "beside", "d": "ask", "e": "plain"}
BROKEN = ("--where", "status = error", "--yes", "-o", "ndjson")


@contextmanager
def agent_on(url: str, *, is_mended: bool = False) -> Iterator[Agent]:
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        yield Agent(saver, is_mended=is_mended)


@pytest.fixture
def url(postgres_url: str) -> str:
    with agent_on(postgres_url) as agent:
        for thread_id, kind in KINDS.items():
            agent.run(thread_id, kind)
    return postgres_url


def rows_of(url: str, *thread_ids: str) -> list[Row]:
    with closing(open_store(url)) as store:
        return [row for one in thread_ids or KINDS for row in store.rows(one)]


def test_put_back_taken_back_and_resumed(url: str) -> None:
    before = rows_of(url)
    done = by_thread(ckpt("-s", url, "rollback", *BROKEN, "--last-good"))
    assert set(done) == {"a", "b", "c"}
    assert ckpt("-s", url, "undo", "--yes").code == 0
    assert rows_of(url) == before
    done = by_thread(ckpt("-s", url, "rollback", *BROKEN, "--last-good"))
    with agent_on(url, is_mended=True) as agent:
        whole = agent.graph.get_state({"configurable": {"thread_id": "e"}}).values["log"]
        for one in done.values():
            found = agent.graph.invoke(one["input"], {"configurable": one["configurable"]})
            assert found["log"] == whole
    assert ckpt("-s", url, "undo", "--yes").code in {5, 6}


def test_a_fork_to_new_threads(url: str) -> None:
    before = rows_of(url)
    done = by_thread(ckpt("-s", url, "copy", *BROKEN, "--at", "head", "--as", "{thread}-retry"))
    assert set(done) == {"a-retry", "b-retry", "c-retry"}
    assert rows_of(url) == before
    with agent_on(url, is_mended=True) as agent:
        for one in done.values():
            found = agent.graph.invoke(one["input"], {"configurable": one["configurable"]})
            assert found["log"][-1] == "closed"
    assert rows_of(url) == before


def test_an_agent_that_goes_on_meanwhile(
    url: str, after_planning: Callable[[str, Callable[[], None]], None]
) -> None:
    def go_on() -> None:
        with agent_on(url, is_mended=True) as agent:
            agent.graph.invoke(None, {"configurable": {"thread_id": "b"}})

    after_planning("b", go_on)
    answer = ckpt("-s", url, "rollback", *BROKEN, "--last-good")
    assert answer.code == 7
    assert set(by_thread(answer)) == {"a", "c"}
    assert "skipped 'b': an agent changed it meanwhile" in answer.err
