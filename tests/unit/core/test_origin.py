"""Which write put a value where it is."""

from __future__ import annotations

import json
from typing import Any

from ckpt_backends.codec.values import Value
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, TypedBytes, Write
from ckpt_cli.core.tasks import TaskWrite
from ckpt_cli.core.value_origin import (
    TracedPath,
    applied_writes,
    is_caller,
    nodes_in_metadata,
    traced_path,
    value_at,
    writers,
)

KEY = CheckpointKey("t", "", "1")


def wrote(node: str, value: Any, channel: str = "c", path: str = "", task: str = "") -> TaskWrite:
    data = TypedBytes("json", json.dumps(value).encode())
    write = Write(KEY, task or node, path, 0, channel, len(data.data), data)
    return TaskWrite(write, node, path)


def message(ident: str, content: str = "") -> dict[Value, Value]:
    return {"role": "user", "id": ident, "content": content}


def nodes(found: list[TaskWrite]) -> list[str | None]:
    return [one.node for one in found]


def test_a_message_is_followed_by_its_id() -> None:
    place = traced_path({"c": [message("1"), message("2", "x")]}, ("c", 1, "content"))
    assert place == TracedPath(("c", 1, "content"), "2")
    assert value_at({"c": [message("2", "y")]}, place) == (True, "y")
    assert value_at({"c": [message("1")]}, place) == (False, None)
    assert value_at({}, place) == (False, None)


def test_other_values_are_followed_by_their_path() -> None:
    place = traced_path({"c": {"a": [1, 2]}}, ("c", "a", 1))
    assert value_at({"c": {"a": [0, 5]}}, place) == (True, 5)
    assert value_at({"c": {"a": []}}, place) == (False, None)
    assert value_at({"c": 7}, place) == (False, None)


def test_one_write_to_the_channel_is_taken_for_it() -> None:
    found = writers([wrote("a", 1), wrote("b", 2, "other")], TracedPath(("c",)), 99)
    assert nodes(found) == ["a"]


def test_of_several_writes_the_last_one_that_fits() -> None:
    written = [wrote("a", 1), wrote("b", 2), wrote("d", 2), wrote("e", 3)]
    assert nodes(writers(written, TracedPath(("c",)), 2)) == ["d"]
    assert nodes(writers(written, TracedPath(("c",)), 6)) == ["a", "b", "d", "e"]


def test_an_item_is_found_in_what_was_appended() -> None:
    written = [wrote("a", ["x"]), wrote("b", ["y", "z"])]
    assert nodes(writers(written, TracedPath(("c", 3)), "x")) == ["a"]
    assert nodes(writers(written, TracedPath(("c", 1)), "z")) == ["b"]


def test_a_key_is_found_in_what_was_merged_and_overwritten() -> None:
    written = [wrote("a", {"k": 1}), wrote("b", {"__overwrite__": {"l": 2}})]
    assert nodes(writers(written, TracedPath(("c", "k")), 1)) == ["a"]
    assert nodes(writers(written, TracedPath(("c", "l")), 2)) == ["b"]


def test_a_message_is_found_by_its_id_alone_or_in_a_list() -> None:
    written = [wrote("a", message("1")), wrote("b", [message("2"), message("3")])]
    assert nodes(writers(written, TracedPath(("c", 0), "1"), None)) == ["a"]
    assert nodes(writers(written, TracedPath(("c", 2, "content"), "3"), "")) == ["b"]


def test_an_update_and_a_step_are_made_by_other_writes() -> None:
    written = [wrote("a", 1), wrote("b", 2, path="~__interrupt__, 0")]
    assert nodes(applied_writes(written, "loop")) == ["a"]
    assert nodes(applied_writes(written, "update")) == ["b"]
    assert applied_writes(written, "input") == []


def test_the_null_task_is_the_caller() -> None:
    assert is_caller(wrote("", 1, task=NULL_TASK_ID))
    assert not is_caller(wrote("a", 1))


def test_old_metadata_names_the_nodes() -> None:
    writes: dict[Value, Value] = {"a": {"c": 1}, "b": {"d": 2}, "e": None}
    assert nodes_in_metadata({"writes": writes}, "c") == ["a"]
    assert nodes_in_metadata({"writes": None}, "c") == []
    assert nodes_in_metadata({}, "c") == []
