"""Each planted fault is found, in the right transition and channel, and nothing else is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.kit.command import ckpt, copy_store
from tests.kit.planting.steps import THREAD, Rows, make_store

Fault = Callable[[Rows], Any]
Where = tuple[int, str]


def put(channel: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        values[channel] = value

    return change


def edited(values: dict[str, Any], channel: str, n: int, value: Any) -> None:
    values[channel][n] = value


def remove(values: dict[str, Any], channel: str, n: int = 1) -> None:
    del values[channel][n]


def swap(items: list[Any]) -> None:
    items[0], items[1] = items[1], items[0]


FAULTS: dict[str, tuple[Fault, Where]] = {
    # A turn has steps -1 (input), 0 (__start__), 1 (model), 2 (left, right), 3 (close).
    "a written message changed": (
        lambda rows: rows.write(5, "messages", lambda _: [AIMessage("other", id="ai-3")]),
        (6, "messages"),
    ),
    "the id of a written message changed": (
        lambda rows: rows.write(5, "messages", lambda _: [AIMessage("answer 3", id="x")]),
        (6, "messages"),
    ),
    "a written number changed": (
        lambda rows: rows.write(6, "total", lambda n: n + 1, "%left"),
        (7, "total"),
    ),
    "a written item changed": (lambda rows: rows.write(7, "log", lambda _: ["other"]), (8, "log")),
    "a write of a plain channel changed": (
        lambda rows: rows.write(7, "mood", lambda _: "other"),
        (8, "mood"),
    ),
    "a written dict changed": (
        lambda rows: rows.write(6, "facts", lambda one: {**one, "more": 1}, "%right"),
        (7, "facts"),
    ),
    "a written set changed": (
        lambda rows: rows.write(6, "tags", lambda _: {"x"}, "%right"),
        (7, "tags"),
    ),
    "a write row removed": (lambda rows: rows.drop_write(7, "log"), (8, "log")),
    "one of two write rows removed": (lambda rows: rows.drop_write(6, "log", "%left"), (7, "log")),
    "a write of a plain channel removed": (lambda rows: rows.drop_write(7, "mood"), (8, "mood")),
    "two writes swapped": (lambda rows: rows.swap_writes(6, "log", "left", "right"), (7, "log")),
    "a message dropped in the middle": (
        lambda rows: rows.body(7, lambda values: remove(values, "messages")),
        (7, "messages"),
    ),
    "a message dropped at the head": (
        lambda rows: rows.body(13, lambda values: remove(values, "messages", -1)),
        (13, "messages"),
    ),
    "the newest message dropped as it came": (
        lambda rows: rows.body(6, lambda values: remove(values, "messages", -1)),
        (6, "messages"),
    ),
    "two messages swapped": (
        lambda rows: rows.body(7, lambda values: swap(values["messages"])),
        (7, "messages"),
    ),
    "a message edited": (
        lambda rows: rows.body(
            7, lambda values: edited(values, "messages", 1, AIMessage("other", id="ai-1"))
        ),
        (7, "messages"),
    ),
    "a number changed": (lambda rows: rows.body(7, put("total", 99)), (7, "total")),
    "a number's type changed": (lambda rows: rows.body(7, put("total", 8.0)), (7, "total")),
    "a plain value changed": (lambda rows: rows.body(8, put("mood", "other")), (8, "mood")),
    "a plain value changed where nothing wrote it": (
        lambda rows: rows.body(7, put("mood", "other")),
        (7, "mood"),
    ),
    "a plain value changed at the head": (
        lambda rows: rows.body(13, put("mood", "other")),
        (13, "mood"),
    ),
    "a value changed at an input": (lambda rows: rows.body(9, put("log", ["other"])), (9, "log")),
    "a key removed": (
        lambda rows: rows.body(8, lambda values: values["facts"].pop("left2")),
        (8, "facts"),
    ),
    "a member added": (
        lambda rows: rows.body(8, lambda values: values["tags"].add("x")),
        (8, "tags"),
    ),
    "a channel removed": (lambda rows: rows.body(8, lambda values: values.pop("log")), (8, "log")),
    "a value put in twice": (
        lambda rows: rows.body(8, lambda values: values["log"].append("closed")),
        (8, "log"),
    ),
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
    assert own == {
        "messages": "add_messages",
        "log": "append",
        "total": "sum",
        "facts": "dict_merge",
        "tags": "set_union",
        "mood": "last_value",
    }


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(clean: Path, tmp_path: Path, name: str) -> None:
    plant, where = FAULTS[name]
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
    answer = ckpt("-s", clean, "replay", THREAD, "--verify", "--reducer", "mood=append")
    assert answer.code == 1
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
