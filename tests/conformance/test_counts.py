"""A plan, its report and the engine agree on what is removed."""

from __future__ import annotations

import logging
import operator
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import StateGraph

from ckpt_backends.changes.bundle import check_bundle, write_bundle
from tests.conformance.counting import counted, of_plan
from tests.conformance.test_removal import Emptied, JavaScriptLibrary, Library, config_of
from tests.harness import Harness
from tests.harness.opening import own_server
from tests.harness.tiers import layouts

CASES = {
    "whole threads": ["purge", "--match", "whole*", "--include-pending"],
    "the newest is kept": ["purge", "--match", "newest", "--keep-last", "1"],
    "tips are kept": ["purge", "--match", "branches", "--keep-tips", "--keep-within", "0s"],
    "by their names": ["threads", "delete", "named"],
    "orphans": ["gc", "--scope", "all", "--grace", "0s"],
}


class State(TypedDict):
    items: Annotated[list[str], operator.add]
    document: list[str]
    """Never changes, so that all checkpoints share one value where values are stored apart."""
    number: int
    """Is stored in the body, even where values are stored apart."""


def graph_of(saver: Any, *, nested: bool) -> Any:
    inner = StateGraph(State)
    inner.add_node("inside", lambda state: {"items": ["inside"]})
    inner.add_edge("__start__", "inside")
    builder = StateGraph(State)
    builder.add_node("first", lambda state: {"items": ["first"], "number": 1})
    builder.add_node("second", inner.compile() if nested else lambda state: {"items": ["second"]})
    builder.add_edge("__start__", "first")
    builder.add_edge("first", "second")
    return builder.compile(checkpointer=saver)


def fill(store: Emptied, thread_id: str) -> None:
    """Two turns, and a branch where the saver can make one."""
    harness, config = store.harness, config_of(thread_id)
    if harness.fixture is not None:
        store.fill(thread_id, thread_id)
        return
    store._made.append(thread_id)
    options = dict(harness.options)
    with warnings.catch_warnings(), harness.saver() as saver:
        warnings.simplefilter("ignore")
        graph = graph_of(saver, nested="subgraph" not in harness.mangled)
        document = ["words of some length " * 10]
        graph.invoke({"items": ["in"], "document": document, "number": 0}, config, **options)
        if harness.has_history and "fork-update" not in harness.refused:
            *_, old = graph.get_state_history(config)
            graph.update_state(old.config, {"items": ["elsewhere"]}, as_node="second")
        graph.invoke({"items": ["again"]}, config, **options)


@pytest.fixture(scope="module", params=layouts())
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Emptied]:
    kind: type[Harness] = request.param
    logging.disable(logging.WARNING)
    with own_server(kind, request) as server:
        harness = kind(tmp_path_factory.mktemp(f"counts-{kind.name}"), server)
        library: Library | JavaScriptLibrary = Library(harness)
        if kind.fixture is not None:
            library = JavaScriptLibrary(harness, request.getfixturevalue("langgraph_js"))
        yield Emptied(harness, library)
        library.close()
        harness.close()
    logging.disable(logging.NOTSET)


def orphan(store: Emptied, thread_id: str, folder: Path) -> None:
    """Leave the values and writes of a thread in the store, and none of its checkpoints."""
    assert store.ckpt("export", thread_id, "--to", folder).code == 0
    (bundle,) = folder.iterdir()
    found = check_bundle(bundle)
    rows = [
        row
        for row in found.rows()
        if row.table in {"writes", "checkpoint_write", "checkpoint_writes"}
        or row.table.startswith("checkpoint_blob")
    ]
    write_bundle(bundle, found.header, rows)
    assert store.ckpt("threads", "delete", thread_id, "--yes").code == 0
    assert store.imported(bundle).code == 0


def test_plan_and_report_equal_what_the_engine_counts(store: Emptied, tmp_path: Path) -> None:
    harness = store.harness
    for thread_id in ("whole-1", "whole-2", "newest", "branches", "named", "lost"):
        fill(store, thread_id)
    orphan(store, "lost", tmp_path)
    for case, words in CASES.items():
        before = counted(harness)
        planned = store.ckpt(*words, "--dry-run", "-o", "json").json
        assert counted(harness) == before, case
        done = store.ckpt(*words, "--yes", "-o", "json").json
        gone = before.minus(counted(harness))
        assert done["threads"] == planned["threads"], case
        assert of_plan(planned) == gone.held, case
        assert +Counter(done["removed"]["rows"]) == gone.rows, case
        assert done["removed"]["bytes"] == gone.held["bytes"], case
        if case == "by their names":
            assert +Counter(done["before"]) == gone.held
        if harness.has_history and (harness.has_writes or case != "orphans"):
            assert gone.rows, case
