"""Which write put a value where it is."""

import json
from typing import Any

import pytest

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
from tests.kit.cases import cases

KEY = CheckpointKey("t", "", "1")


def wrote(node: str, value: Any, channel: str = "c", path: str = "", task: str = "") -> TaskWrite:
    data = TypedBytes("json", json.dumps(value).encode())
    return TaskWrite(Write(KEY, task or node, path, 0, channel, len(data.data), data), node, path)


def message(ident: str, content: str = "") -> dict[Value, Value]:
    return {"role": "user", "id": ident, "content": content}


def nodes(found: list[TaskWrite]) -> list[str | None]:
    return [one.node for one in found]


SEVERAL = [wrote("a", 1), wrote("b", 2), wrote("d", 2), wrote("e", 3)]
LISTS = [wrote("a", ["x"]), wrote("b", ["y", "z"])]
MAPS = [wrote("a", {"k": 1}), wrote("b", {"__overwrite__": {"l": 2}})]
SAID = [wrote("a", message("1")), wrote("b", [message("2"), message("3")])]


@cases(
    "written place value found",
    pytest.param([wrote("a", 1), wrote("b", 2, "o")], ["c"], 9, "a", id="one to the channel"),
    pytest.param(SEVERAL, ["c"], 2, "d", id="the last of several that fits"),
    pytest.param(SEVERAL, ["c"], 6, "abde", id="none fits"),
    pytest.param(LISTS, ["c", 3], "x", "a", id="an item that was appended"),
    pytest.param(MAPS, ["c", "k"], 1, "a", id="a key that was merged"),
    pytest.param(MAPS, ["c", "l"], 2, "b", id="a key that was overwritten"),
)
def test_writers_of_values(
    written: list[TaskWrite], place: list[Any], value: Any, found: str
) -> None:
    assert nodes(writers(written, TracedPath(tuple(place)), value)) == [*found]
    # A message is found by its id.
    assert nodes(writers(SAID, TracedPath(("c", 0), "1"), None)) == ["a"]
    assert nodes(writers(SAID, TracedPath(("c", 2, "content"), "3"), "")) == ["b"]


def test_some_writes_are_not_those_of_a_step() -> None:
    written = [wrote("a", 1), wrote("b", 2, path="~__interrupt__, 0")]
    assert nodes(applied_writes(written, "loop")) == ["a"]
    assert nodes(applied_writes(written, "update")) == ["b"]
    assert applied_writes(written, "input") == []
    assert is_caller(wrote("", 1, task=NULL_TASK_ID))
    assert not is_caller(wrote("a", 1))
    writes: dict[Value, Value] = {"a": {"c": 1}, "b": {"d": 2}, "e": None}
    assert nodes_in_metadata({"writes": writes}, "c") == ["a"]
    assert (nodes_in_metadata({"writes": None}, "c"), nodes_in_metadata({}, "c")) == ([], [])


def test_a_place_is_followed_by_the_id_of_its_message_or_by_its_path() -> None:
    place = traced_path({"c": [message("1"), message("2", "x")]}, ("c", 1, "content"))
    assert place == TracedPath(("c", 1, "content"), "2")
    assert value_at({"c": [message("2", "y")]}, place) == (True, "y")
    assert value_at({"c": [message("1")]}, place) == (False, None)
    place = traced_path({"c": {"a": [1, 2]}}, ("c", "a", 1))
    assert value_at({"c": {"a": [0, 5]}}, place) == (True, 5)
    others: list[dict[str, Value]] = [{}, {"c": {"a": []}}, {"c": 7}]
    for state in others:
        assert value_at(state, place) == (False, None)
