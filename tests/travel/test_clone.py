"""`ckpt copy THREAD@REF --as NEW` makes a thread that goes on as the one it comes from."""

from collections import Counter
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from ckpt_backends.testing.official import ScenarioStore, config_of
from ckpt_backends.testing.trials import FEW, NAMES, SAMPLE, check_clone
from tests.kit.command import CommandResult, ckpt
from tests.kit.travelling import tiered


def copy(filled: ScenarioStore, *words: str) -> CommandResult:
    return ckpt("-s", filled.harness.url, "copy", *words, "--yes", "-o", "json")


@pytest.mark.parametrize("name", tiered(SAMPLE, FEW))
def test_some_checkpoints_of_a_sqlite_thread(filled: ScenarioStore, name: str) -> None:
    for target in filled.ids(name)[:2]:
        is_head = target == filled.ids(name)[0]
        check_clone(filled, filled.thread(name), target, is_head=is_head)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_every_checkpoint_of_a_sqlite_thread(filled: ScenarioStore, name: str) -> None:
    for place, target in enumerate(filled.ids(name)):
        check_clone(filled, filled.thread(name), target, is_head=place == 0)


def test_calls_from_the_target_itself_are_not_copied(filled: ScenarioStore) -> None:
    """They come after the target; only calls on the way to it are copied."""
    name = "subgraph-twice"

    def callers(thread_id: str) -> set[str]:
        found = filled.saver.list({"configurable": {"thread_id": thread_id}})
        return {one.metadata["parents"][""] for one in found if one.metadata.get("parents")}

    targets = filled.ids(name)[1:]
    known = callers(name)
    assert known & {*targets}
    for target in targets:
        assert copy(filled, name, "--at", target, "--as", f"to {target}").code == 0
        assert callers(f"to {target}") == {one for one in known if one < target}


def test_a_copy_that_was_used_is_a_thread_of_its_own(filled: ScenarioStore) -> None:
    thread = filled.thread("linear")
    assert copy(filled, "linear@head", "--as", "ours").code == 0
    thread.graph(filled.saver).invoke(thread.first_input, config_of("ours"))
    answer = ckpt("-s", filled.harness.url, "undo", "ours", "--yes")
    assert (answer.code, "has been used since" in answer.err) == (5, True)


class Booking(TypedDict, total=False):
    hotel: str
    paid: bool
    sure: str


def test_an_edited_copy_of_the_head_runs_nothing_twice(filled: ScenarioStore) -> None:
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
    graph = builder.compile(checkpointer=filled.saver)
    store, new = filled.harness.url, ("--replace", 'hotel="Ryokan"', "--yes")
    graph.invoke({"hotel": "Kanra"}, config_of("booking"))
    (asked,) = graph.get_state(config_of("booking")).interrupts
    assert ckpt("-s", store, "fork", "booking", *new, "--as", "edited").code == 0
    ended = graph.invoke(Command(resume={asked.id: "yes"}), config_of("edited"))
    assert (ended["sure"], ended["paid"], ran["pay"]) == ("Ryokan: yes", True, 1)
    assert graph.get_state(config_of("booking")).values["hotel"] == "Kanra"

    assert copy(filled, "booking@head", "--as", "twice").code == 0
    done = ckpt("-s", store, "fork", "twice", "head", *new, "-o", "json").json
    assert done["again"] == ["pay"]
    graph.invoke(Command(resume="yes"), config_of("twice"))
    assert ran["pay"] == 2


def test_a_copy_of_a_thread_has_every_branch(filled: ScenarioStore) -> None:
    graph = filled.thread("linear").graph(filled.saver)

    def history(thread_id: str) -> list[Any]:
        rows = filled.saver.list(config_of(thread_id))
        return [(one.checkpoint, one.metadata, one.pending_writes) for one in rows]

    filled.harness.copy("linear", "ours")
    assert ckpt("-s", filled.harness.url, "rollback", "ours", "~1", "--yes").code == 0
    done = copy(filled, "ours", "--as", "{thread}-2").json
    assert done["copied_from"] == "ours"
    assert history("ours-2") == history("ours")
    assert done["checkpoints"] == len(history("ours"))
    assert graph.get_state(config_of("ours-2")).next == graph.get_state(config_of("ours")).next
