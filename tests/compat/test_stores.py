"""Stores of other languages and releases, which graph a thread belongs to, and what is kept."""

import sqlite3
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import interrupt

from ckpt_backends.base import WrappedStore
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.url import parse_url
from ckpt_cli.core.compat import CompatVerdict, Graph, GraphFile, GraphNode, Incompatibility
from ckpt_cli.queries.compat import JudgedThread, judged_threads
from ckpt_cli.render.compat import Compatibility, compatibility_lines
from tests.kit.agents.edges import fail, graph, say
from tests.kit.agents.small import Log, chain, running, saver_of
from tests.kit.cases import cases
from tests.kit.command import FIXTURES
from tests.kit.probing import described


def ask(state: Any) -> Any:
    return {"log": [interrupt("sure?") if state["log"] == ["ask"] else "no"]}


def talk(name: str = "ask", schema: Any = Log) -> Any:
    return chain(schema, {"start": lambda _: {}, name: ask, "end": say("end")})


def beside(name: str = "worker") -> Any:
    return graph(f">{name} >broken {name}+broken>broken", broken=fail)


def drive(agent: Any, *threads: str) -> None:
    """Run a thread for each text: `ask` stops at a question."""
    for one in threads:
        config: Any = {"configurable": {"thread_id": one}}
        with suppress(ValueError):
            agent.invoke({"log": [one]}, config, durability="sync")


def judged(store: Store, new: Any, old: Any) -> Mapping[str, JudgedThread]:
    found = judged_threads(store, store.threads(), described(new), old and described(old))
    return {one.thread_id: one for one in found}


def verdicts(url: str, new: Any, old: Any) -> dict[str, str]:
    with open_store(parse_url(url)) as store:
        return {name: str(one.verdict) for name, one in judged(store, new, old).items()}


def test_a_thread_of_another_graph_is_told_from_one_that_is_harmed(path: Path) -> None:
    with saver_of(path) as saver:
        drive(talk().compile(checkpointer=saver), "ask", "done")
        drive(beside().compile(checkpointer=saver), "half")
    url, same = str(path), {"ask": "ok", "done": "ok"}
    assert verdicts(url, talk(), talk()) == {**same, "half": "another graph"}
    assert verdicts(url, talk("new"), talk()) == {**same, "ask": "loses", "half": "another graph"}
    assert verdicts(url, beside("new"), beside())["half"] == "loses"
    assert verdicts(url, beside(), beside())["half"] == "ok"


@cache
def graph_of(scenario: str) -> Any:
    return described(SCENARIOS[scenario].build(InMemorySaver()))


@cases(
    "era verdicts codes",
    ("lg-1.2.22", {"ok"}, set()),
    ("lg-1.0.10", {"ok"}, set()),
    ("lg-0.6.11", {"ok"}, set()),
    ("lg-0.2.70", {"ok", "cannot tell"}, {"old-format"}),  # which does not tell what runs
    ("js-1.7.3", {"cannot tell"}, {"javascript"}),
)
def test_what_the_same_graph_wrote_is_harmed_in_nothing_or_refused_with_its_reason(
    era: str, verdicts: set[str], codes: set[str]
) -> None:
    found: list[JudgedThread] = []
    with quiet(), open_store(parse_url(str(FIXTURES / era / "store.db"))) as store:
        threads = [one for one in store.threads() if one.thread_id in SCENARIOS]
        # Each call learns anew from all threads what these do not tell.
        for thread in threads[:: 5 if codes else 1]:
            same = graph_of(thread.thread_id)
            found += judged_threads(store, [thread], same, same)
            (alone,) = judged_threads(store, [thread], same, None)
            assert alone.verdict in {"ok", "cannot tell"}
    assert len(threads) > 60
    assert {str(one.verdict) for one in found} == verdicts
    assert {one.code for thread in found for one in thread.findings} == codes


class Open(Log, total=False):
    k: Any


class Numbered(Log, total=False):
    k: int


class Watched(WrappedStore):
    """Notes which values of heads are read."""

    asked: frozenset[str] = frozenset()

    def checkpoints_at(self, keys: Any, **options: Any) -> Any:
        self.asked |= frozenset(options.get("values") or ())
        return self.inner.checkpoints_at(keys, **options)


def test_of_a_done_thread_only_what_changed_is_read(path: Path) -> None:
    with running(path, talk(schema=Open)) as agent:
        for name, value in (("a", 3), ("b", "text"), ("c", 4)):
            agent.invoke({"log": ["x"], "k": value}, {"configurable": {"thread_id": name}})
    with open_store(parse_url(str(path))) as inner:
        store = Watched(inner)
        same = judged(store, talk("new", Open), talk(schema=Open))
        assert {str(one.verdict) for one in same.values()} == {"ok"}
        assert store.asked == frozenset()
        found = judged(store, talk(schema=Numbered), talk(schema=Open))
        assert store.asked == {"k"}
    verdicts = {name: str(one.verdict) for name, one in found.items()}
    assert verdicts == {"a": "ok", "b": "changes", "c": "ok"}


def test_encrypted_values_cannot_be_told(path: Path) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    with closing(sqlite3.connect(path, check_same_thread=False)) as db:
        drive(talk().compile(checkpointer=SqliteSaver(db, serde=serde)), "done")
    assert verdicts(str(path), talk(), talk()) == {"done": "cannot tell"}


def stamped(path: Path, agent: Any, mark: str | None = None) -> None:
    """Run a thread whose application tells which version of its graph ran."""
    own = described(agent).fingerprints["graph"]
    with running(path, agent) as ran:
        told = {"graph_fingerprint": own if mark is None else mark}
        config: Any = {"configurable": {"thread_id": mark or "own"}, "metadata": told}
        ran.invoke({"log": ["ask"]}, config)


def test_a_thread_belongs_to_the_graph_that_its_metadata_names(path: Path) -> None:
    stamped(path, talk())
    stamped(path, talk(), "of another")
    # With its own version for the old one, a thread is judged like any; without it, it is foreign.
    new = talk("new")
    assert verdicts(str(path), new, talk()) == {"own": "loses", "of another": "another graph"}
    assert verdicts(str(path), new, talk("x")) == dict.fromkeys(
        ("own", "of another"), "another graph"
    )
    assert verdicts(str(path), new, None) == dict.fromkeys(("own", "of another"), "loses")
    assert verdicts(str(path), talk(), talk("x")) == {"own": "ok", "of another": "another graph"}


def test_a_fingerprint_tells_what_a_graph_calls_and_not_where_it_stands() -> None:
    def outer(inner: Any) -> Any:
        return chain(Log, {"a": inner})

    inner, other = talk().compile(), talk("n").compile()
    graphs = talk(), talk(), talk("new"), outer(inner), outer(other)
    marks = [described(one).fingerprints["graph"] for one in graphs]
    assert (marks[0], len(set(marks))) == (marks[1], 4)


NODE = GraphNode((), False, (), "", (), True, (), True, None, {}, None, {})
GRAPH = Graph("g", False, {"ask": NODE, "old": NODE}, {}, {}, {}, frozenset())
FILE = GraphFile({"g": 0}, (GRAPH,), {}, {}, {})


def found(name: str) -> Incompatibility:
    return Incompatibility(CompatVerdict.LOSES, "key-gone", name, "it is gone", "keep it")


def threads(number: int, keys: int) -> Iterator[JudgedThread]:
    for one in range(number):
        findings = [found(f"k{one % keys}")] * 2
        yield JudgedThread(f"thread {one}", True, findings, "g", frozenset({"ask"}))


def test_threads_are_counted_while_they_are_read() -> None:
    answer = Compatibility(threads(5, 1), FILE, None, are_all=True)
    assert (next(iter(answer)).thread_id, answer.summary) == ("thread 0", {"loses": 1})
    text = [one.text for one in compatibility_lines(answer)]
    assert "loses  k0  key-gone, 5 threads" in text
    assert "  thread 0, thread 1, thread 2 and 2 more" in text
    assert "safe to remove: old" in text


def test_memory_does_not_grow_with_the_store() -> None:
    answer = Compatibility(threads(5_000, 5_000), FILE, None, are_all=False)
    tracemalloc.start()
    text = [one.text for one in compatibility_lines(answer)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20
    assert "4000 findings of other kinds: -o ndjson shows all" in text
    assert answer.safe_to_remove == ()
