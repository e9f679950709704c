"""`ckpt copy THREAD@REF --as NEW` makes a thread that goes on as the one it comes from."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.trials import check_clone
from tests.kit.command import ckpt
from tests.travel.conftest import FEW, NAMES, SAMPLE, Filled, tiered


@pytest.mark.parametrize("name", tiered(SAMPLE, FEW))
def test_some_checkpoints_of_a_sqlite_thread(sqlite_filled: Filled, name: str) -> None:
    thread, ids = sqlite_filled.thread(name), sqlite_filled.ids(name)
    check_clone(sqlite_filled, thread, ids[0], is_head=True)
    check_clone(sqlite_filled, thread, ids[1], is_head=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_checkpoint_of_a_sqlite_thread(sqlite_filled: Filled, name: str) -> None:
    for place, target in enumerate(sqlite_filled.ids(name)):
        check_clone(sqlite_filled, sqlite_filled.thread(name), target, is_head=place == 0)


def test_a_copy_that_was_not_used_can_be_removed(sqlite_filled: Filled) -> None:
    place = sqlite_filled.harness
    for name in ("interrupt-nested", "subgraph-stateful", "delta-rarely"):
        sqlite_filled.thread(name)
        ckpt("-s", place.url, "copy", name, "--at", "head", "--as", "ours", "--yes")
        assert any(place.rows("ours").values())
        undone = ckpt("-s", place.url, "undo", "ours", "--yes", "-o", "json").json
        assert undone["head"] is None
        assert not any(place.rows("ours").values())


def test_calls_from_the_target_itself_are_not_copied(sqlite_filled: Filled) -> None:
    """They come after the target; only calls on the way to it are copied."""
    place, saver, name = sqlite_filled.harness, sqlite_filled.saver, "subgraph-twice"

    def callers(thread_id: str) -> set[str]:
        found = saver.list({"configurable": {"thread_id": thread_id}})
        return {one.metadata["parents"][""] for one in found if one.metadata.get("parents")}

    targets = sqlite_filled.ids(name)[1:]
    known = callers(name)
    assert known & {*targets}
    for target in targets:
        try:
            assert (
                ckpt("-s", place.url, "copy", name, "--at", target, "--as", "ours", "--yes").code
                == 0
            )
            assert callers("ours") == {one for one in known if one < target}
        finally:
            place.forget("ours")


def test_a_copy_that_was_used_is_a_thread_of_its_own(sqlite_filled: Filled) -> None:
    place, thread = sqlite_filled.harness, sqlite_filled.thread("linear")
    ckpt("-s", place.url, "copy", "linear@head", "--as", "ours", "--yes")
    try:
        graph = thread.graph(sqlite_filled.saver)
        graph.invoke(thread.first_input, {"configurable": {"thread_id": "ours"}})
        answer = ckpt("-s", place.url, "undo", "ours", "--yes")
        assert answer.code == 5
        assert "has been used since" in answer.err
    finally:
        place.forget("ours")


def test_a_thread_that_is_there_is_not_overwritten(sqlite_filled: Filled) -> None:
    for name in ("linear", "loop"):
        sqlite_filled.thread(name)
    before = sqlite_filled.harness.rows("loop")
    answer = ckpt("-s", sqlite_filled.harness.url, "copy", "linear@head", "--as", "loop", "--yes")
    assert answer.code == 5
    assert "already exists" in answer.err
    assert sqlite_filled.harness.rows("loop") == before


class Booking(TypedDict, total=False):
    hotel: str
    paid: bool
    sure: str


def test_an_edited_copy_of_the_head_runs_nothing_twice(sqlite_filled: Filled) -> None:
    """Which a copy that is forked afterwards would: a fork runs the whole step again."""
    ran: Counter[str] = Counter()

    def pay(_: Booking) -> Booking:
        ran["pay"] += 1
        return {"paid": True}

    def ask(state: Booking) -> Booking:
        return {"sure": f"{state['hotel']}: {interrupt('sure?')}"}

    builder: Any = StateGraph(Booking)
    builder.add_node("pay", pay).add_node("ask", ask)
    builder.add_edge(START, "pay").add_edge(START, "ask")
    graph = builder.compile(checkpointer=sqlite_filled.saver)
    store, new = sqlite_filled.harness.url, ("--replace", 'hotel="Ryokan"', "--yes")
    try:
        graph.invoke({"hotel": "Kanra"}, config_of("booking"))
        (asked,) = graph.get_state(config_of("booking")).interrupts
        assert ckpt("-s", store, "fork", "booking", *new, "--as", "edited").code == 0
        ended = graph.invoke(Command(resume={asked.id: "yes"}), config_of("edited"))
        assert (ended["sure"], ended["paid"], ran["pay"]) == ("Ryokan: yes", True, 1)
        assert graph.get_state(config_of("booking")).values["hotel"] == "Kanra"

        assert ckpt("-s", store, "copy", "booking@head", "--as", "twice", "--yes").code == 0
        done = ckpt("-s", store, "fork", "twice", "head", *new, "-o", "json").json
        assert done["again"] == ["pay"]
        graph.invoke(Command(resume="yes"), config_of("twice"))
        assert ran["pay"] == 2
    finally:
        for name in ("booking", "edited", "twice"):
            sqlite_filled.harness.forget(name)


def test_a_copy_of_a_thread_has_every_branch(sqlite_filled: Filled) -> None:
    place, name = sqlite_filled.harness, "linear"
    graph = sqlite_filled.thread(name).graph(sqlite_filled.saver)

    def history(thread_id: str) -> list[Any]:
        rows = sqlite_filled.saver.list(config_of(thread_id))
        return [(one.checkpoint, one.metadata, one.pending_writes) for one in rows]

    try:
        place.copy(name, "ours")
        assert ckpt("-s", place.url, "rollback", "ours", "~1", "--yes").code == 0
        done = ckpt("-s", place.url, "copy", "ours", "--as", "{thread}-2", "--yes", "-o", "json")
        assert done.json["copied_from"] == "ours"
        assert history("ours-2") == history("ours")
        assert done.json["checkpoints"] == len(history("ours"))
        assert graph.get_state(config_of("ours-2")).next == graph.get_state(config_of("ours")).next
    finally:
        for one in ("ours", "ours-2"):
            place.forget(one)
