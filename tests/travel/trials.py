"""One trial: a command of `ckpt` on a copy of a thread, against the library on another one."""

from __future__ import annotations

from typing import Any

from tests.support import ckpt
from tests.travel.conftest import Filled
from tests.travel.official import (
    Thread,
    config_of,
    ending,
    memory,
    outcome,
    state,
)
from tests.travel.places import Rows


def check_rollback(filled: Filled, thread: Thread, target: str) -> None:
    """Rolled back, a thread stands as at the target, and goes on as after a time travel."""
    place, saver = filled.place, filled.saver
    ours, theirs = f"ours {thread.thread_id}", f"theirs {thread.thread_id}"
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


def _check_head(saver: Any, thread_id: str, target: str, record: dict[str, Any]) -> None:
    """The saver loads the new checkpoint, and finds it as a fork."""
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


def _check_kept(before: Rows, after: Rows) -> None:
    """Every row that was there is there, byte for byte."""
    for table, rows in before.items():
        left = list(after[table])
        for row in rows:
            assert row in left, (table, row[:4])


def _check_resumed(
    filled: Filled, thread: Thread, copies: tuple[str, str], configurable: Any, target: str
) -> None:
    """A resume and a further turn end as they do after the library's own time travel."""
    saver, (ours, theirs) = filled.saver, copies
    resumed = _resume(filled, thread, ours, {"configurable": configurable})
    expected = _resume(filled, thread, theirs, config_of(theirs, target))
    assert resumed[0] == expected[0], (configurable, resumed, expected)
    if "EmptyInputError" in str(expected[0]):
        # A checkpoint before any input, which the library does not go back to.
        filled.place.forget(theirs)
    else:
        assert resumed == expected, (configurable, resumed, expected)
    if filled.place.has_memory(theirs):
        # There the library goes on with what the subgraphs learned on the branch that was left,
        # so the truth is the thread as it was at the time of the target.
        filled.place.forget(theirs)
        filled.place.copy(thread.thread_id, theirs, until=target)
        assert _resume(filled, thread, theirs, config_of(theirs, target)) == resumed
        assert memory(saver, ours) == memory(saver, theirs)
    if thread.first_input is None:
        return
    turns = []
    for copy in copies:
        graph = thread.graph(saver)
        turns.append((outcome(graph, thread.first_input, config_of(copy)), ending(graph, copy)))
    assert turns[0] == turns[1], (configurable, *turns)
    assert memory(saver, ours) == memory(saver, theirs)


def _resume(filled: Filled, thread: Thread, copy: str, config: Any) -> Any:
    graph = thread.graph(filled.saver)
    return outcome(graph, None, config), ending(graph, copy)
