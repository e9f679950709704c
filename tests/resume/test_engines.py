"""A run ends between the results of a step and its checkpoint, on each engine's own saver."""

from pathlib import Path
from typing import Any

import pytest

import ckpt_cli
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from tests.kit.agents.small import Log, beside, chain, run, running, saver_of
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


def cut(saver: Any) -> Any:
    """Let the disk be full when the checkpoint of step 1 is saved, behind the results of it."""
    put = saver.put

    def fail(config: Any, checkpoint: Any, metadata: Any, *more: Any) -> Any:
        if metadata["step"] == 1:
            raise OSError("disk full")
        return put(config, checkpoint, metadata, *more)

    saver.put = fail
    return saver


@pytest.mark.engines
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_saved_results_are_used_and_the_next_node_runs(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    ran: list[str] = []

    def node(name: str) -> Any:
        def run(_: Log) -> dict[str, Any]:
            ran.append(name)
            return {"log": [name]}

        return run

    graph = beside(Log, {name: node(name) for name in ("left", "right")})
    graph.add_node("total", node("total")).add_edge(["left", "right"], "total")
    with empty_store(kind, request, tmp_path) as harness, quiet():
        with harness.saver() as saver, pytest.raises(OSError, match="disk full"):
            graph.compile(checkpointer=cut(saver)).invoke({"log": []}, CONFIG, durability="sync")
        assert sorted(ran) == ["left", "right"]
        with ckpt_cli.open(harness.url) as store:
            found = store["t"].summary()
            (row,) = store.listed()
        resume = found["resume"]
        assert (found["status"], found["waiting"], row["next"]) == ("pending", [], [])
        assert (resume["runs"], row["runs"]) == (["total"], ["total"])
        assert sorted(resume["applies"]) == ["left", "right"]
        assert (resume["call"], resume["asks"]) == ("graph.invoke(None, config)", [])
        with harness.saver() as saver:
            done = graph.compile(checkpointer=saver).invoke(None, CONFIG, durability="sync")
        assert ran[2:] == ["total"]
        assert sorted(done["log"]) == ["left", "right", "total"]


def test_other_threads_tell_which_nodes_are_deferred(path: Path) -> None:
    """Both nodes have a channel of the same form until the first of them waits for its turn."""
    graph = chain(Log, {"begin": lambda _: {"log": ["begin"]}})
    for name in ("now", "later"):
        graph.add_node(name, lambda _, name=name: {"log": [name]}, defer=name == "later")
        graph.add_edge("begin", name)

    def claim() -> Any:
        with ckpt_cli.open(str(path)) as store:
            return store["t"].summary()["resume"]

    with saver_of(path) as saver, pytest.raises(OSError, match="disk full"):
        graph.compile(checkpointer=cut(saver)).invoke({"log": []}, CONFIG, durability="sync")
    alone = claim()
    assert (alone["runs"], alone["possible"]) == (None, ["later", "now"])
    assert alone["applies"] == ["begin"]
    run(path, graph, {"log": []}, thread="whole")
    told = claim()
    assert (told["runs"], told["applies"]) == (["now"], ["begin"])
    with running(path, graph) as agent:
        steps = list(agent.stream(None, CONFIG, stream_mode="updates"))
    assert [[*one] for one in steps[1:]] == [["now"], ["later"]]  # after what was saved
