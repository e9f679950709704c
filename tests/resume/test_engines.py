"""A run ends between the results of a step and its checkpoint, on each engine's own saver."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

import ckpt_cli
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from tests.kit.agents.small import Log, beside, chain
from tests.kit.harness.dynamodb import DynamoDbHarness
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.harness.mysql import MySQLHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.redis import PlainRedisHarness, RedisHarness
from tests.kit.harness.valkey import ValkeyHarness
from tests.kit.opening import empty_store

KINDS: list[type[Harness]] = [
    *(PostgresHarness, MySQLHarness, MongoHarness, RedisHarness, PlainRedisHarness, ValkeyHarness),
    DynamoDbHarness,
]
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def graph_of(saver: Any, ran: Path) -> Any:
    """Two nodes, and one that waits for both; each appends its name to a file."""

    def node(name: str) -> Any:
        def run(_: Log) -> dict[str, Any]:
            with ran.open("a") as file:
                file.write(f"{name}\n")
            return {"log": [name]}

        return run

    graph = beside(Log, {name: node(name) for name in ("left", "right")})
    graph.add_node("total", node("total")).add_edge(["left", "right"], "total")
    return graph.compile(checkpointer=saver)


@contextmanager
def killed(harness: Harness, ran: Path) -> Iterator[None]:
    """Run the graph in a process that dies when it is about to save the checkpoint of step 1."""
    child = os.fork()
    if not child:
        with quiet(), harness.saver() as saver:
            put, put_writes = saver.put, saver.put_writes
            saved = Semaphore(0)

            def die(config: Any, checkpoint: Any, metadata: Any, *more: Any) -> Any:
                if metadata["step"] == 1:
                    for _ in ("__start__", "left", "right"):  # they are saved in other threads
                        saved.acquire(timeout=10)
                    os.kill(os.getpid(), signal.SIGKILL)
                return put(config, checkpoint, metadata, *more)

            @wraps(put_writes)  # LangGraph looks at its parameters
            def count(*given: Any) -> None:
                put_writes(*given)
                saved.release()

            saver.put, saver.put_writes = die, count
            graph_of(saver, ran).invoke({"log": []}, CONFIG, durability="sync")
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    yield


@pytest.mark.engines
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_saved_results_are_used_and_the_next_node_runs(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    ran = tmp_path / "ran.txt"
    with empty_store(kind, request, tmp_path) as harness, killed(harness, ran):
        assert sorted(ran.read_text().split()) == ["left", "right"]
        with ckpt_cli.open(harness.url) as store:
            found = store["t"].summary()
            (row,) = store.listed()
        resume = found["resume"]
        assert (found["status"], found["waiting"], row["next"]) == ("pending", [], [])
        assert (resume["runs"], row["runs"]) == (["total"], ["total"])
        assert sorted(resume["applies"]) == ["left", "right"]
        assert (resume["call"], resume["asks"]) == ("graph.invoke(None, config)", [])
        ran.write_text("")
        with quiet(), harness.saver() as saver:
            done = graph_of(saver, ran).invoke(None, CONFIG, durability="sync")
        assert ran.read_text().split() == ["total"]
        assert sorted(done["log"]) == ["left", "right", "total"]


def late_graph(saver: Any) -> Any:
    """One node leads to two, of which one is deferred."""
    graph = chain(Log, {"begin": lambda _: {"log": ["begin"]}})
    for name in ("now", "later"):
        graph.add_node(name, lambda _, name=name: {"log": [name]}, defer=name == "later")
        graph.add_edge("begin", name)
    return graph.compile(checkpointer=saver)


def test_other_threads_tell_which_nodes_are_deferred(path: Path) -> None:
    """Both nodes have a channel of the same form until the first of them waits for its turn."""

    class Cut(SqliteSaver):
        is_cut = True

        def put(self, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
            if self.is_cut and metadata["step"] == 1:
                raise OSError("disk full")
            return super().put(config, checkpoint, metadata, versions)

    def claim() -> Any:
        with ckpt_cli.open(str(path)) as store:
            return store["t"].summary()["resume"]

    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = Cut(connection)
        with pytest.raises(OSError, match="disk full"):
            late_graph(saver).invoke({"log": []}, CONFIG, durability="sync")
        alone = claim()
        assert (alone["runs"], alone["possible"]) == (None, ["later", "now"])
        assert alone["applies"] == ["begin"]
        saver.is_cut = False
        late_graph(saver).invoke({"log": []}, {"configurable": {"thread_id": "whole"}})
        told = claim()
        assert (told["runs"], told["applies"]) == (["now"], ["begin"])
        steps = list(late_graph(saver).stream(None, CONFIG, stream_mode="updates"))
        assert [[*one] for one in steps[1:]] == [["now"], ["later"]]  # after what was saved
