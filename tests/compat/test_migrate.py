"""Migrated threads end in the new graph as the same threads end in the old one; new names."""

import operator
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import pytest
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel

from ckpt_backends.errors import UsageError
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_cli.core.migration import Migration, parse_defaults, parse_pairs, with_ids
from ckpt_cli.core.migration import names_in as new_names
from tests.kit.agents.edges import BESIDE, CHAIN, REPLAYED, graph, keyed, merged, nested, sends
from tests.kit.agents.small import running
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.redis import RedisHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store
from tests.kit.probing import CONFIG, written

# Official graphs whose nodes have other names, as an application may name them anew.


def renamed(graph: Any, name: Callable[[str], str]) -> Any:
    """Return the builder of a graph with other names of all nodes, those of subgraphs included."""
    builder = graph if isinstance(graph, StateGraph) else graph.builder

    def new(node: str) -> str:
        return node if node in {START, END} else name(node)

    made: Any = copy(builder)
    made.nodes = {new(node): _inside(spec, name) for node, spec in builder.nodes.items()}
    made.edges = {(new(start), new(end)) for start, end in builder.edges}
    made.waiting_edges = {
        (tuple(map(new, starts)), new(end)) for starts, end in builder.waiting_edges
    }
    made.branches = {
        new(start): {key: _branch(one, new) for key, one in branches.items()}
        for start, branches in builder.branches.items()
    }
    made.compiled = False
    return made


def _inside(spec: Any, name: Callable[[str], str]) -> Any:
    inner = getattr(spec.runnable, "builder", None)
    if inner is None:
        return spec
    found = copy(spec)
    found.runnable = renamed(inner, name).compile(checkpointer=spec.runnable.checkpointer)
    return found


def _branch(branch: Any, new: Callable[[str], str]) -> Any:
    ends = branch.ends
    return branch._replace(ends=None if ends is None else {k: new(v) for k, v in ends.items()})


def names_in(graph: Any) -> set[str]:
    found = set(graph.nodes)
    for spec in graph.nodes.values():
        inner = getattr(spec.runnable, "builder", None)
        found |= names_in(inner) if inner is not None else set()
    return found


@dataclass(frozen=True)
class Case:
    """A thread that stops in the old graph, and how it is migrated to the new one."""

    old: Any
    new: Any
    words: str = ""
    given: Mapping[str, Any] = field(default_factory=lambda: {"log": []})
    answers: Sequence[str] = ()
    stop: Sequence[str] = ()
    """Nodes before which the old graph stops by itself."""


DEFAULTS = {"lang": "en"}


def same(_: Any) -> Any:
    return {"log": ["same"]}


def fails(_: Any) -> Any:
    if not MENDED:
        raise ValueError("no")
    return {"log": ["mended"]}


MENDED: list[bool] = []
"""Whether the failing node is mended."""


def two(_: Any) -> Any:
    first = interrupt("one")
    return {"log": [f"{first} {interrupt('two')}"]}


def deep(outer: str, middle: str, waiting: str, **more: Any) -> Any:
    return graph(f">pre pre>{outer}", **{outer: nested(middle, waiting, **more).compile()})


def with_key(kind: Any, value: Any, *, edges: str = CHAIN, is_set: bool = False) -> Case:
    def of(name: str) -> Any:
        last = {"fin": lambda state: {"log": [repr(state.get(name))]}}
        first = {"pre": lambda _: {name: ["v"]}} if is_set else {}
        return keyed({name: kind}, edges, **last, **first)

    return Case(of("k"), of("key"), "--rename-channel k=key", {"log": [], "k": value})


def workflow(name: str, call: str = "work") -> Any:
    def work(n: int) -> str:
        return f"done {n}"

    def run(given: Any) -> Any:
        return {"log": [made(1).result(), interrupt("sure?"), made(2).result()]}

    work.__name__, run.__name__ = call, name
    made = task(work)
    return run


def fans(worker: str, key: str) -> Any:
    def works(state: Any) -> Any:
        return {"log": [f"{state[key]} {interrupt('sure?')}"]}

    built = keyed({key: int}, f">pre {worker}>fin", **{worker: works})
    built.add_conditional_edges("pre", lambda _: [Send(worker, {key: n}) for n in (1, 2)], [worker])
    return built


class Needs(BaseModel):
    log: Annotated[list[str], operator.add] = []


class NeedsMore(Needs):
    lang: str


def with_join() -> Any:
    """The graph of two nodes, to one of which a join leads that does not fire."""
    return graph(f"{BESIDE} j+z>rv").add_conditional_edges("j", lambda _: END, ["z", END])


MOVED = "--rename-node rv=new"
CASES: dict[str, Case] = {
    "the second question": Case(
        graph(CHAIN, rv=two), graph(">pre pre>new new>fin", new=two), MOVED, answers=["A"]
    ),
    "a failed task": Case(graph(CHAIN, rv=fails), graph(">pre pre>new new>fin", new=fails), MOVED),
    "a breakpoint": Case(
        graph(CHAIN, rv=same), graph(">pre pre>new new>fin", new=same), MOVED, stop=["rv"]
    ),
    "one of two": Case(
        graph(BESIDE), graph(">b >new b+new>j", asks="new"), f"{MOVED} --rename-node a=b"
    ),
    "the order of a join": Case(graph(BESIDE), graph(">a >rv rv+a>j")),
    "another join leads to it": Case(graph(BESIDE), with_join()),
    "sends": Case(sends("w", "fin"), sends("other", "fin"), "--rename-node w=other"),
    "what is sent": Case(
        *(fans("w", "n"), fans("v", "m")),
        *("--rename-node w=v --rename-channel n=m", {"log": [], "n": 0}),
    ),
    "a subgraph that remembers": Case(
        nested(saver=True), nested("other", saver=True), "--rename-node o=other"
    ),
    "two levels": Case(
        deep("o", "m", "rv"), deep("p", "n", "new"), f"--rename-node o=p --rename-node m=n {MOVED}"
    ),
    "now deferred": Case(graph(CHAIN), graph(CHAIN, defer="rv")),
    "not deferred": Case(graph(CHAIN, defer="rv"), graph(CHAIN)),
    "a join is deferred": Case(graph(">a >b b>rv a+rv>j"), graph(">a >b b>rv a+rv>j", defer="j")),
    "a text": with_key(str, "v"),
    "a list with a reducer": with_key(Annotated[list[str], operator.add], ["v"], is_set=True),
    "a dict with a reducer": with_key(Annotated[dict[str, Any], merged], {"a": 1}),
    "a key that is rebuilt": with_key(REPLAYED, ["v"], is_set=True),
    "a snapshot": with_key(
        REPLAYED, ["v"], edges=">pre pre>a a>b b>rv rv>fin", is_set=True
    ),
    "a default": Case(
        graph(CHAIN, schema=Needs), graph(CHAIN, schema=NeedsMore), "--default lang=\"en\""
    ),
    "an entrypoint": Case(workflow("run"), workflow("other"), "--rename-node run=other"),
    "a task of an entrypoint": Case(
        workflow("run"), workflow("run", "job"), "--rename-node work=job"
    ),
}  # fmt: skip


def compiled(one: Any, saver: Any, stop: Sequence[str] = ()) -> Any:
    if isinstance(one, StateGraph):
        return one.compile(checkpointer=saver, interrupt_before=list(stop))
    return entrypoint(checkpointer=saver)(one)


def stopped(harness: Harness, case: Case) -> Harness:
    with harness.saver() as saver, suppress(ValueError):
        agent = compiled(case.old, saver, case.stop)
        agent.invoke(dict(case.given), CONFIG, durability="sync")
        for one in case.answers:
            agent.invoke(Command(resume=one), CONFIG, durability="sync")
    return harness


def ended(harness: Harness, one: Any, names: Mapping[str, str]) -> tuple[Any, int]:
    """The state in which a thread ends with each answer `yes`, and how often it was resumed."""
    number = 0
    MENDED.append(True)
    with harness.saver() as saver:
        agent = compiled(one, saver)
        while (state := agent.get_state(CONFIG)).next and number < 6:
            asked = [each for task in state.tasks for each in task.interrupts]
            answers: Any = Command(resume={each.id: "yes" for each in asked}) if asked else None
            with suppress(ValueError):
                agent.invoke(answers, CONFIG)
            number += 1
    MENDED.clear()
    return {names.get(name, name): value for name, value in state.values.items()}, number


def check(harness: Harness, case: Case, folder: Path) -> None:
    """Migrate a thread, take that back, do it again, and compare how it ends."""
    stopped(harness, case)
    old = written(folder / "old.json", compiled(case.old, None))
    new = written(folder / "new.json", compiled(case.new, None))
    before = harness.rows("t")
    options = case.words.split()
    words = ["-s", harness.url, "migrate", "t", "--to", str(new), "--from", str(old), *options]
    ckpt(*words, "--dry-run", code=0)
    assert harness.rows("t") == before
    assert ckpt(*words, "--yes", "-o", "json").json["action"] == "migrate"
    assert "nothing to migrate" in ckpt(*words, "--yes").err
    assert ckpt("-s", harness.url, "doctor", "t", "--deep", "-o", "json").json["findings"] == []
    judged = ckpt("-s", harness.url, "compat", new, "-o", "json").json["threads"]
    assert {one["verdict"] for one in judged} <= {"ok", "cannot tell"}
    ckpt("-s", harness.url, "undo", "t", "--yes", code=0)
    assert harness.rows("t") == before
    ckpt(*words, "--yes", code=0)
    with pytest.MonkeyPatch.context() as patch:  # as on another machine, which has no record of it
        patch.setenv("XDG_STATE_HOME", str(folder / "elsewhere"))
        ckpt("-s", harness.url, "undo", "t", "--yes", code=0)
    assert harness.rows("t") == before
    ckpt(*words, "--yes", code=0)
    named = [two for one, two in pairwise(options) if one == "--rename-channel"]
    names = dict(one.split("=") for one in named)
    defaults = {key: value for key, value in DEFAULTS.items() if f"--default {key}" in case.words}
    (folder / "unchanged").mkdir()
    with SqliteHarness(folder / "unchanged", None) as other:
        state, number = ended(stopped(other, case), case.old, names)
    assert ended(harness, case.new, {}) == ({**state, **defaults}, number)


@pytest.mark.parametrize("name", CASES)
def test_a_migrated_thread_ends_as_in_its_own_graph(name: str, tmp_path: Path) -> None:
    with SqliteHarness(tmp_path, None) as harness:
        check(harness, CASES[name], tmp_path)


STORED = {"one of two", "what is sent", "a subgraph that remembers", "now deferred"}
STORED |= {"a dict with a reducer", "a key that is rebuilt", "a default"}
"""What each layout stores in its own form; the others run on servers at night."""
ELSEWHERE = [
    pytest.param(name, marks=pytest.mark.engines if name in STORED else pytest.mark.nightly)
    for name in CASES
]


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("kind", [PostgresHarness, RedisHarness])
def test_a_thread_on_a_server(
    kind: type[Harness], name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        check(harness, CASES[name], tmp_path)


# Earlier releases, and the newest library

THREADS = (
    *("async-asking", "durability-exit-asking", "fork-update-open", "update-asking", "update-mid"),
    *("interrupt-nested", "interrupt-subgraph", "interrupt-sends", "interrupt-second", "error"),
    *("interrupt-one-answered", "interrupt-parallel", "breakpoint-after", "breakpoint-before"),
    *("breakpoint-subgraph", "error-parallel", "subgraph-error", "odd-names-stopped"),
)


def new(name: str) -> str:
    return f"new {name}"


def end(path: Path, thread: str, graph: Any) -> tuple[str, list[str]]:
    """The state in which a thread ends with each answer `yes`, and the nodes that ran.

    Those of one step end in any order.
    """
    config: Any = {"configurable": {"thread_id": thread}}
    ran: list[str] = []
    with quiet(), running(path, graph) as agent:
        for _ in range(8):
            state = agent.get_state(config)
            asked = [one.id for task in state.tasks for one in task.interrupts if not task.result]
            if not state.next:
                break
            given: Any = Command(resume=dict.fromkeys(asked, "yes")) if asked else None
            try:
                for one in agent.stream(given, config, stream_mode="updates", subgraphs=True):
                    ran += one[1]
            except Exception as error:
                ran.append(type(error).__name__)
        values = agent.get_state(config).values
    return repr(values).replace("new ", ""), sorted(one.removeprefix("new ") for one in ran)


@pytest.mark.parametrize("era", ["lg-0.6.11", pytest.param("lg-1.0.10", marks=pytest.mark.engines)])
@pytest.mark.parametrize("thread", THREADS)
def test_a_thread_of_an_earlier_release(thread: str, era: str, tmp_path: Path) -> None:
    kept, path = tmp_path / "kept.db", tmp_path / "s.db"
    for one in (kept, path):
        shutil.copyfile(FIXTURES / era / "store.db", one)
    old = SCENARIOS[thread].build(None).builder
    file = written(tmp_path / "new.json", renamed(old, new))
    names = [f"--rename-node={one}={new(one)}" for one in names_in(old)]
    done = ckpt("-s", path, "migrate", thread, "--to", file, *names, "--yes")
    assert (done.code, "migrated" in done.out) == (0, True), done.err
    assert end(path, thread, renamed(old, new)) == end(kept, thread, old)


NAMES = new_names(Migration({"a": "b", "ask": "the+review"}, {"k": "key"}), None, ())


@cases(
    "old new",
    ("k", "key"),
    ("a", "a"),
    ("branch:to:a", "branch:to:b"),
    ("join:a+c:ask", "join:b+c:the+review"),
)
def test_channels(old: str, new: str) -> None:
    assert NAMES.channel(old) == new


@cases(
    "old new",
    ("~__pregel_pull, a", "~__pregel_pull, b"),
    ("~__pregel_push, 0000000001, 0000000000", "~__pregel_push, 0000000001, 0000000000"),
    (
        "~__pregel_push, ~__pregel_pull, a, 0000000000, 0000000001",
        "~__pregel_push, ~__pregel_pull, b, 0000000000, 0000000001",
    ),
    (
        "~__pregel_pull, a, node_error_handler, 0000000000",
        "~__pregel_pull, b, node_error_handler, 0000000000",
    ),
    ("~~0000000001, ~__pregel_pull, a", "~~0000000001, ~__pregel_pull, a"),
)
def test_paths_of_tasks(old: str, new: str) -> None:
    assert NAMES.path(old) == new
    assert NAMES.node("__error_handler__a") == "__error_handler__b"


def test_ids_of_questions_in_any_form() -> None:
    old, new = "0" * 32, "f" * 32
    for form in (b"\xd9\x20%b", b'{"id":"%b"}'):
        assert with_ids(form % old.encode(), {old: new}) == form % new.encode()


def test_what_options_say() -> None:
    assert parse_pairs("--rename-node", ["a=b", "c=d=e"]) == {"a": "b", "c": "d=e"}
    assert parse_defaults(['k={"a": [1]}', "n=null"]) == {"k": {"a": [1]}, "n": None}
    for wrong in ("a", "=b", "a="):
        with pytest.raises(UsageError):
            parse_pairs("--rename-node", [wrong])
