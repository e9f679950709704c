"""Each planted fault is found, in the right transition and channel, and nothing else is."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.kit.command import ckpt, copy_store
from tests.kit.planting.steps import THREAD, Rows, make_store

Fault = tuple[tuple[int, str], Callable[[Rows], Any]]
"""The step and the channel in which it is found, and what plants it."""
LEFT, RIGHT = "%left", "%right"
AI = AIMessage("other", id="ai-1")


def write(step: int, channel: str, change: Callable[[Any], Any], path: str = "%") -> Fault:
    return (step + 1, channel), lambda rows: rows.write(step, channel, change, path)


def drop(step: int, channel: str, path: str = "%") -> Fault:
    return (step + 1, channel), lambda rows: rows.drop_write(step, channel, path)


def body(step: int, channel: str, change: Callable[[Any], Any]) -> Fault:
    def plant(rows: Rows) -> None:
        rows.body(step, lambda values: values.update({channel: change(values[channel])}))

    return (step, channel), plant


FAULTS: dict[str, Fault] = {
    # A turn has steps -1 (input), 0 (__start__), 1 (model), 2 (left, right), 3 (close).
    "a written message": write(5, "messages", lambda _: [AIMessage("other", id="ai-3")]),
    "the id of a written message": write(5, "messages", lambda _: [AIMessage("answer 3", id="x")]),
    "a written number": write(6, "total", lambda n: n + 1, LEFT),
    "a written item": write(7, "log", lambda _: ["other"]),
    "a write of a plain channel": write(7, "mood", lambda _: "other"),
    "a written dict": write(6, "facts", lambda one: {**one, "more": 1}, RIGHT),
    "a written set": write(6, "tags", lambda _: {"x"}, RIGHT),
    "a write row removed": drop(7, "log"),
    "one of two write rows removed": drop(6, "log", LEFT),
    "a write of a plain channel removed": drop(7, "mood"),
    "two writes swapped": ((7, "log"), lambda rows: rows.swap_writes(6, "log", "left", "right")),
    "a message dropped in the middle": body(7, "messages", lambda old: [old[0], *old[2:]]),
    "a message dropped at the head": body(13, "messages", lambda old: old[:-1]),
    "the newest message dropped as it came": body(6, "messages", lambda old: old[:-1]),
    "two messages swapped": body(7, "messages", lambda old: [old[1], old[0], *old[2:]]),
    "a message edited": body(7, "messages", lambda old: [old[0], AI, *old[2:]]),
    "a number": body(7, "total", lambda _: 99),
    "a number's type": body(7, "total", lambda _: 8.0),
    "a plain value": body(8, "mood", lambda _: "other"),
    "a plain value where nothing wrote it": body(7, "mood", lambda _: "other"),
    "a plain value at the head": body(13, "mood", lambda _: "other"),
    "a value at an input": body(9, "log", lambda _: ["other"]),
    "a key removed": body(8, "facts", lambda old: {k: old[k] for k in old if k != "left2"}),
    "a member added": body(8, "tags", lambda old: {*old, "x"}),
    "a channel removed": ((8, "log"), lambda rows: rows.body(8, lambda values: values.pop("log"))),
    "a value put in twice": body(8, "log", lambda old: [*old, "closed"]),
}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("planted") / "store.db"
    make_store(path)
    return path


def test_nothing_is_found_where_nothing_is_planted(clean: Path) -> None:
    answer = ckpt("-s", clean, "replay", THREAD, "--verify", "-o", "json")
    assert answer.code == 0
    assert answer.json["mismatch"] == answer.json["unverifiable"] == 0
    assert answer.json["match"] == answer.json["transitions"] == 15
    own = {name: one["reducer"] for name, one in answer.json["channels"].items()}
    expected = {"messages": "add_messages", "log": "append", "total": "sum", "mood": "last_value"}
    assert own == {**expected, "facts": "dict_merge", "tags": "set_union"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(clean: Path, tmp_path: Path, name: str) -> None:
    where, plant = FAULTS[name]
    path = copy_store(clean, tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        plant(Rows(db))
        steps = {one: step for step, one in Rows(db).ids().items()}
    answer = ckpt("-s", path, "replay", THREAD, "--verify", "-o", "json")
    assert answer.code == 1
    wrong = [one for one in answer.json["findings"] if one["verdict"] == "mismatch"]
    assert [(one["step"], one["channel"]) for one in wrong] == [where]
    assert [steps[one["child"]] for one in wrong] == [where[0]]
    assert answer.json["mismatch"] == 1


def test_a_fault_is_found_by_a_told_reducer_alone(clean: Path, tmp_path: Path) -> None:
    assert ckpt("-s", clean, "replay", THREAD, "--verify", "--reducer", "mood=append").code == 1
    profile = tmp_path / "ckpt.toml"
    profile.write_text(f'[stores.x]\nurl = "{clean}"\n[stores.x.reducers]\nmood = "append"\n')
    told = ckpt("--config", profile, "-s", "x", "replay", THREAD, "--verify", "-o", "json")
    assert told.code == 1
    assert told.json["channels"]["mood"]["told"] is True
    known = ckpt(
        *("--config", profile, "-s", "x", "replay", THREAD, "--verify"),
        *("--reducer", "mood=custom", "-o", "json"),
    )
    assert known.code == 0
    assert known.json["unverifiable"] > 0
