"""One trial: a command of `ckpt` on a copy of a thread, compared with the library on another
copy.
"""

from typing import Any

from langgraph.types import Command

from ckpt_backends.testing.command_line import ckpt
from ckpt_backends.testing.harness import POINTERS, Harness, StoredRows
from ckpt_backends.testing.official import (
    ScenarioStore,
    ScenarioThread,
    config_of,
    ending,
    memory,
    outcome,
    state,
)
from ckpt_backends.testing.scenarios.catalog import SCENARIOS

SAMPLE = [
    *("linear", "chat", "fanout-send", "fanout-join", "interrupt-answered", "interrupt-nested"),
    *("command-input", "update-mid", "subgraph-stateful", "delta-rarely", "durability-exit"),
    *('o\'brien "x"', "会话-四十二"),
]
"""Threads that represent the others when testing all of them would take too long."""
FEW = ["linear", "fanout-send", "interrupt-nested", "subgraph-stateful", "delta-rarely"]
"""The fewest threads of different kinds."""
NAMES = [name for name, one in SCENARIOS.items() if not one.is_async]
UNDONE = ["linear", "subgraph-stateful", "command-input"]
"""Threads whose rollbacks and forks are undone."""
PLAIN = {name for name in NAMES if name.startswith("zoo-") or SCENARIOS[name].name == "hostile-id"}
"""Threads that differ only in what is stored, not in what runs."""


def can_travel(kind: type[Harness], name: str) -> bool:
    """Return whether the time travel of a thread can be compared on a layout."""
    keeps_paths = kind.has_task_paths and kind.copy is not Harness.copy
    if name.startswith("delta") and not keeps_paths:
        # Parallel writes come in the order of their tasks' ids, which differ in each copy.
        return False
    return name not in kind.failing_scenarios | kind.skipped_scenarios


def check_rollback(filled: ScenarioStore, thread: ScenarioThread, target: str) -> None:
    """Check that a rolled back thread is as at the target, and continues as after a time travel."""
    place, saver = filled.harness, filled.saver
    ours, theirs = f"ours-{thread.thread_id}", f"theirs-{thread.thread_id}"
    for copy in (ours, theirs):
        place.copy(thread.thread_id, copy)
    try:
        before = place.rows(ours)
        expected = state(thread.graph(saver), config_of(theirs, target))
        answer = ckpt("-s", place.url, "rollback", ours, "--at", target, "--yes", "-o", "json")
        assert answer.code == 0, answer.err
        record = answer.json
        assert state(thread.graph(saver), config_of(ours)) == expected
        assert sorted(record["next"] or expected["next"]) == expected["next"]
        _check_head(saver, ours, target, record)
        _check_kept(before, place.rows(ours))
        _check_resumed(filled, thread, (ours, theirs), record["configurable"], target)
        _check_kept(before, place.rows(ours))
        assert state(thread.graph(saver), config_of(ours, target)) == expected
    finally:
        for copy in (ours, theirs):
            place.forget(copy)


def check_clone(
    filled: ScenarioStore, thread: ScenarioThread, target: str, *, is_head: bool
) -> None:
    """Check that a fork to a new thread has the same state, and continues as the original."""
    place, saver = filled.harness, filled.saver
    ours, theirs = f"ours-{thread.thread_id}", f"theirs-{thread.thread_id}"
    place.copy(thread.thread_id, theirs)
    try:
        before = place.rows(thread.thread_id)
        words = ["copy", "--at", target, "--as", ours, "--yes", "-o", "json"]
        answer = ckpt("-s", place.url, *words, "--", thread.thread_id, code=0)
        graph = thread.graph(saver)
        assert state(graph, config_of(ours, target)) == state(graph, config_of(theirs, target))
        copied = place.rows(ours)
        if is_head:
            assert ending(graph, ours) == ending(graph, theirs)
            assert _without_marks(copied) <= _without_marks(before)
            _check_answered(filled, thread, (ours, theirs))
        else:
            _check_resumed(filled, thread, (ours, theirs), answer.json["configurable"], target)
            _check_kept(copied, place.rows(ours))
        assert place.rows(thread.thread_id) == before
    finally:
        for copy in (ours, theirs):
            place.forget(copy)


def _without_marks(rows: StoredRows) -> set[Any]:
    """Return rows without the metadata, which in a copied head contains its origin."""
    return {(table, *(row[:5])) for table in rows for row in rows[table]}


def _check_answered(filled: ScenarioStore, thread: ScenarioThread, copies: tuple[str, str]) -> None:
    """Check that open questions accept their answers, and that the thread continues."""
    ended = []
    for copy in copies:
        graph = thread.graph(filled.saver)
        waiting = graph.get_state(config_of(copy)).interrupts
        answers = {one.id: f"answer to {one.value}" for one in waiting}
        given: Any = Command(resume=answers) if answers else None
        ended.append((outcome(graph, given, config_of(copy)), ending(graph, copy)))
    assert ended[0] == ended[1]


def _check_head(saver: Any, thread_id: str, target: str, record: dict[str, Any]) -> None:
    """Check that the saver loads the new checkpoint, and finds it as a fork."""
    head = saver.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
    assert head.config["configurable"]["checkpoint_id"] == record["checkpoint_id"]
    assert head.checkpoint["id"] == record["checkpoint_id"]
    parent = (head.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    assert parent == record["parent_checkpoint_id"]
    if record["form"] == "child":
        assert parent == target
    config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    forks = saver.list(config, filter={"source": "fork", "forked_from": target})
    assert record["checkpoint_id"] in [one.checkpoint["id"] for one in forks]


def _check_kept(before: StoredRows, after: StoredRows) -> None:
    """Check that all rows still exist, byte for byte."""
    for table, rows in before.items():
        if table == POINTERS:
            continue
        left = list(after[table])
        for row in rows:
            assert row in left, (table, row[:4])


def _check_resumed(
    filled: ScenarioStore,
    thread: ScenarioThread,
    copies: tuple[str, str],
    configurable: Any,
    target: str,
) -> None:
    """Check that a resume and another turn end as after the library's own time travel."""
    saver, (ours, theirs) = filled.saver, copies
    resumed = _resume(filled, thread, ours, {"configurable": configurable})
    expected = _resume(filled, thread, theirs, config_of(theirs, target))
    assert resumed[0] == expected[0], (configurable, resumed, expected)
    if "EmptyInputError" in str(expected[0]):
        # The library does not go back to a checkpoint before any input. Then a new thread is the
        # truth, unless the caller wrote to it.
        if any(thread.graph(saver).get_state(config_of(theirs, target)).values.values()):
            return
        filled.harness.forget(theirs)
    else:
        assert resumed == expected, (configurable, resumed, expected)
    if filled.harness.has_stateful_subgraph(theirs):
        # The library continues with what the subgraphs learned on the abandoned branch. So the
        # truth is the thread as it was at the time of the target.
        filled.harness.forget(theirs)
        filled.harness.copy(thread.thread_id, theirs, until=target)
        assert _resume(filled, thread, theirs, config_of(theirs, target)) == resumed
        assert memory(saver, ours) == memory(saver, theirs)
    if thread.first_input is None or thread.thread_id in PLAIN:
        return
    turns = []
    for copy in copies:
        graph = thread.graph(saver)
        turns.append((outcome(graph, thread.first_input, config_of(copy)), ending(graph, copy)))
    assert turns[0] == turns[1], (configurable, *turns)
    assert memory(saver, ours) == memory(saver, theirs)


def _resume(filled: ScenarioStore, thread: ScenarioThread, copy: str, config: Any) -> Any:
    graph = thread.graph(filled.saver)
    return outcome(graph, None, config), ending(graph, copy)
