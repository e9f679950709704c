"""What a step changed, in short."""

from __future__ import annotations

from typing import Any

import pytest

from ckpt_cli.core.diff import BriefState, brief_state, short_changes, step_changes, written_changes
from ckpt_cli.render.values import changes_text


def message(text: str, role: str = "ai") -> dict[str, Any]:
    return {"role": role, "content": text}


def say(value: Any) -> str:
    return value["content"] if isinstance(value, dict) else str(value)


def state(values: dict[str, Any], *unknown: str) -> BriefState:
    return brief_state(values, {*values, *unknown})


def told(before: BriefState, after: BriefState, **written: list[Any]) -> str:
    names = {*after.channels}
    return changes_text(short_changes(written_changes(names, before, after, written), say))


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({"budget": 120}, {"budget": 90}, "budget 120 → 90"),
        ({}, {"budget": 90}, "budget → 90"),
        ({"budget": 90}, {"budget": 90}, ""),
        ({"ok": False}, {"ok": 0}, "ok False → 0"),
        ({"notes": ["a"]}, {"notes": ["a", "b", "c"]}, "notes +2"),
        ({"notes": ["a", "b"]}, {"notes": ["b"]}, "notes"),
        ({"plan": {"a": 1}}, {"plan": {"a": 2}}, "plan"),
        ({"mail": "long" * 20}, {"mail": "short"}, "mail → short"),
    ],
)
def test_values_are_told_as_far_as_states_tell(before: Any, after: Any, text: str) -> None:
    assert told(state(before), state(after)) == text


def test_new_messages_come_first() -> None:
    before, after = state({"a": 1}, "messages"), state({"a": 2}, "messages")
    written = [[message("one"), message("two")]]
    assert told(before, after, messages=written) == "+2 two, a 1 → 2"


def test_messages_that_were_written_again_are_not_new() -> None:
    before = state({"messages": [1, 2]})
    written = [[message("old"), message("older"), message("new")]]
    assert told(before, state({"messages": [1, 2, 3]}), messages=written) == "+1 new"
    assert told(before, state({"messages": [1, 2]}), messages=written) == "messages"


def test_a_list_to_which_nothing_was_added_is_not_named() -> None:
    before = state({"notes": ["a"]})
    assert told(before, before, notes=[[]]) == ""
    assert told(before, state({"notes": ["b"]}), notes=[["b"]]) == "notes"


def test_a_list_that_was_not_known_before_has_no_number() -> None:
    # As a channel that stores only snapshots now and then.
    before, after = state({}, "messages"), state({"messages": [1, 2, 3]})
    assert told(before, after) == "messages"
    assert told(before, after, messages=[[message("new")]]) == "+1 new"


def test_removed_messages_are_no_new_ones() -> None:
    before, after = state({}, "messages"), state({}, "messages")
    assert told(before, after, messages=[[message("", "remove")]]) == "messages"


def test_whole_states_tell_the_same() -> None:
    before: dict[str, Any] = {"a": 1, "messages": [message("old")], "same": 3}
    after: dict[str, Any] = {"a": 2, "messages": [message("old"), message("new")], "same": 3}
    found = step_changes(["a", "messages"], before, after)
    text = changes_text(short_changes(found, say))
    written: dict[str, Any] = {"messages": [message("new")]}
    brief = written_changes(["a", "messages", "same"], state(before), state(after), written)
    assert text == changes_text(short_changes(brief, say)) == "+1 new, a 1 → 2"


def test_many_channels_are_counted() -> None:
    after = {f"c{n}": n for n in range(8)}
    assert changes_text(short_changes(step_changes(after, {}, after), say)).endswith(
        "c5 → 5, 2 more channels"
    )
