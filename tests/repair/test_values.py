"""`ckpt repair values` where values are stored inside checkpoints."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.kit.command import ckpt
from tests.kit.planting.steps import THREAD, Rows, graph, make_store
from tests.kit.rows import change, rows_of

CONFIG: Any = {"configurable": {"thread_id": THREAD}}
OF_THE_HEAD = "checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)"
CHANNELS = ("messages", "log", "total", "facts", "tags", "mood")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("values") / "store.db"
    make_store(path)
    change(path, "PRAGMA journal_mode = DELETE")
    return path.read_bytes()


@pytest.fixture
def path(whole: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    path.write_bytes(whole)
    return path


def values(path: Path) -> Any:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        return graph(saver).get_state(CONFIG).values


def damage(path: Path, change: Callable[[dict[str, Any]], Any], before: int = 0) -> None:
    """Change the values of the head, or of a checkpoint some steps before it."""
    with closing(sqlite3.connect(path)) as db, db:
        planted = Rows(db)
        planted.body(max(planted.ids()) - before, change)


def spoil(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes in the body of the head."""
    assert len(old) == len(new)
    ((data,),) = change(path, f"SELECT checkpoint FROM checkpoints WHERE {OF_THE_HEAD}")
    assert old in data
    statement = f"UPDATE checkpoints SET checkpoint = ? WHERE {OF_THE_HEAD}"
    change(path, statement, data.replace(old, new))


def repair(path: Path, *more: str) -> Any:
    return ckpt("-s", path, "repair", "values", THREAD, "-o", "json", *more)


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_missing_value_of_the_head_is_restored_and_taken_back(path: Path, channel: str) -> None:
    expected = values(path)
    damage(path, lambda stored: stored.pop(channel))
    damaged = rows_of(path)
    done = repair(path, "--yes")
    assert done.code == 0, done.err
    assert [one["channel"] for one in done.json["repaired"]] == [channel]
    assert done.json["form"] == "child"
    assert list(done.json["changes"]) == [channel]
    assert values(path) == expected
    assert {row for row in damaged if row[0] == "checkpoints"} <= rows_of(path)
    assert repair(path, "--yes").code == 3
    assert ckpt("-s", path, "replay", THREAD, "--repair", "--yes").code == 0
    assert ckpt("-s", path, "undo", THREAD, "--yes").code == 0
    assert rows_of(path) == damaged


@pytest.mark.parametrize("before", [0, 2])
def test_a_message_that_cannot_be_decoded_is_replaced(path: Path, before: int) -> None:
    """At the step that wrote it, or at a later one."""
    for _ in range(before):
        change(path, f"DELETE FROM checkpoints WHERE {OF_THE_HEAD}")
    expected = values(path)
    spoil(path, b"langchain_core.messages.ai", b"langchain_core.message\xff.ai")
    done = repair(path, "--yes")
    assert done.code == 0, done.err
    assert [one["replaces"] for one in done.json["repaired"]] == [True]
    assert values(path) == expected


def test_the_graph_resumes_from_restored_values(path: Path) -> None:
    damage(path, lambda stored: (stored.pop("log"), stored.pop("messages")))
    config = {"configurable": repair(path, "--yes").json["configurable"]}
    with SqliteSaver.from_conn_string(str(path)) as saver:
        human = HumanMessage("and now?", id="human-9")
        answer = graph(saver).invoke({"messages": [human], "log": ["asked"]}, config)
    assert [one.id for one in answer["messages"]][-3:] == ["ai-5", "human-9", "ai-7"]
    assert len(answer["log"]) == 16
    assert ckpt("-s", path, "replay", THREAD, "--verify").code == 1  # the damaged one is kept


@pytest.mark.parametrize("channel", ["log", "messages"])
def test_an_older_checkpoint_is_left_alone(path: Path, channel: str) -> None:
    """Whether its step wrote the value or not."""
    damage(path, lambda stored: stored.pop(channel), before=3)
    before = rows_of(path)
    done = repair(path, "--dry-run")
    assert done.code == 5
    (refused,) = json.loads(done.out)["refused"]
    assert "is not the head" in refused["reason"]
    assert repair(path, "--yes").code == 5
    assert rows_of(path) == before


def test_a_body_that_cannot_be_decoded_is_refused(path: Path) -> None:
    cut = "UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 99)"
    change(path, f"{cut} WHERE {OF_THE_HEAD}")
    answer = ckpt("-s", path, "repair", "values", THREAD, "--yes")
    assert answer.code == 5
    assert f"`ckpt -s {path} rollback {THREAD} '~1'`" in answer.err


def test_it_is_refused_where_no_write_is_stored(path: Path) -> None:
    change(path, "DELETE FROM writes WHERE channel = 'log'")
    damage(path, lambda stored: stored.pop("log"))
    assert repair(path, "--yes").code == 5
