"""A plan, its report and the engine agree on what is removed."""

import operator
import warnings
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TypedDict

from ckpt_backends.archive import check_bundle, write_bundle
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.library import EmptyStore, config_of_thread
from ckpt_backends.testing.scenarios.building import chain

CASES = {
    "orphans": ["gc", "--scope", "all", "--grace", "0s"],
    "whole threads": ["purge", "--match", "whole*", "--include-pending"],
    "the newest is kept": ["purge", "--match", "newest", "--keep-last", "1"],
    "tips are kept": ["purge", "--match", "branches", "--keep-tips", "--keep-within", "0s"],
    "by their names": ["threads", "delete", "named"],
}


class CountedState(TypedDict):
    items: Annotated[list[str], operator.add]
    document: list[str]
    """Never changes, so that all checkpoints share one value where values are stored apart."""
    number: int
    """Is stored in the body, even where values are stored apart."""


def graph_of(saver: Any, *, nested: bool) -> Any:
    inner = chain({"inside": lambda state: {"items": ["inside"]}}, CountedState).compile()
    nodes = {
        "first": lambda state: {"items": ["first"], "number": 1},
        "second": inner if nested else lambda state: {"items": ["second"]},
    }
    return chain(nodes, CountedState).compile(checkpointer=saver)


def fill(store: EmptyStore, thread_id: str) -> None:
    """Two turns, and a branch where the saver can make one."""
    harness, config = store.harness, config_of_thread(thread_id)
    if harness.recording is not None:
        store.fill(thread_id, thread_id)
        return
    store.made.append(thread_id)
    options = dict(harness.run_options)
    with warnings.catch_warnings(), harness.saver() as saver:
        warnings.simplefilter("ignore")
        graph = graph_of(saver, nested="subgraph" not in harness.skipped_scenarios)
        document = ["words of some length " * 10]
        graph.invoke({"items": ["in"], "document": document, "number": 0}, config, **options)
        if harness.has_history and "fork-update" not in harness.failing_scenarios:
            *_, old = graph.get_state_history(config)
            graph.update_state(old.config, {"items": ["elsewhere"]}, as_node="second")
        graph.invoke({"items": ["again"]}, config, **options)


def orphan(store: EmptyStore, thread_id: str, folder: Path) -> None:
    """Leave the values and writes of a thread in the store, and none of its checkpoints."""
    assert store.ckpt("export", thread_id, "--to", folder).code == 0
    (bundle,) = folder.iterdir()
    found = check_bundle(bundle)
    rows = [row for row in found.rows() if store.harness.row_kinds[row.table] in {"write", "value"}]
    write_bundle(bundle, found.header, rows)
    assert store.ckpt("threads", "delete", thread_id, "--yes").code == 0
    assert store.imported(bundle).code == 0


def test_plan_and_report_equal_the_engines_counts(empty_store: EmptyStore, tmp_path: Path) -> None:
    store, harness = empty_store, empty_store.harness
    with quiet():
        for thread_id in ("whole-1", "whole-2", "newest", "branches", "named"):
            fill(store, thread_id)
        kept = harness.count()
        fill(store, "lost")
        orphan(store, "lost", tmp_path)
    for case, words in CASES.items():
        before = harness.count()
        planned = store.ckpt(*words, "--dry-run", "-o", "json").json
        assert harness.count() == before, f"{case}: --dry-run must change nothing"
        done = store.ckpt(*words, "--yes", "-o", "json").json
        assert done["threads"] == planned["threads"], f"{case}: the run must do what was planned"
        after = harness.count()
        if before is None or after is None:
            continue
        gone = before.minus(after)
        if case == "orphans" and harness.has_history:
            assert after == kept, "nothing of a lost thread must be left"
        assert of_plan(planned) == gone.held, f"{case}: the plan must say what is removed"
        assert +Counter(done["removed"]["rows"]) == gone.rows, f"{case}: rows that were removed"
        assert done["removed"]["bytes"] == gone.held["bytes"], f"{case}: bytes that were removed"
        if case == "by their names":
            assert +Counter(done["before"]) == gone.held
        if harness.has_history and (harness.has_writes or case != "orphans"):
            assert gone.rows, case


def of_plan(answer: Any) -> Counter[str]:
    """Return the sums of what an answer of `ckpt` removes or removed."""
    total: Counter[str] = Counter()
    for one in answer["threads"]:
        for name in ("checkpoints", "writes", "blobs", "bytes"):
            total[name] += one[name]
    return +total
