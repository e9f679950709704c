"""The handles of a store, its threads and its checkpoints, and the values that they give."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

import ckpt_cli
from ckpt_backends import codec
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_cli import StoreHandle
from ckpt_cli.api.answer import plain, to_json

TRIP = "trip-to-kyoto"


@pytest.fixture
def store(sample: Path) -> Iterator[StoreHandle]:
    with ckpt_cli.open(sample) as opened:
        yield opened


def test_the_import_alone_loads_neither_drivers_nor_the_parser() -> None:
    code = (
        "import sys, ckpt_cli; print(sorted({'typer', 'rich', 'sqlite3', 'ormsgpack'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_thread_is_found_by_its_id_and_by_its_place(store: StoreHandle) -> None:
    assert TRIP in store
    assert "trip-to-osaka" not in store
    assert (store[TRIP].checkpoint_count, store.newest().id) == (20, next(iter(store)).id)
    assert TRIP in {thread.id for thread in store}
    with pytest.raises(ckpt_cli.NotFound, match="no thread 'trip-to-kyot'") as error:
        _ = store["trip-to-kyot"]
    assert error.value.hint == "did you mean 'trip-to-kyoto'?"


def test_a_checkpoint_is_found_by_every_ref(store: StoreHandle) -> None:
    thread = store[TRIP]
    head, parent = thread.head, thread.at("~1")
    assert (head.step, parent.step) == (12, 11)
    assert head.parent is not None
    assert head.parent.id == parent.id
    assert [one.id for one in parent.children] == [head.id]
    assert store.at(f"{TRIP}@b955d").id == thread["b955d"].id
    assert (thread.at(as_of=head.ts).id, thread.at(as_of="2200-01-01").id) == (head.id, head.id)
    assert head.ts is not None
    assert thread[head.ts].id == thread.at(head.ts).id == head.id
    assert thread[date(2200, 1, 1)].id == head.id
    with pytest.raises(ckpt_cli.NotFound):
        thread.at("step:99")
    with pytest.raises(ckpt_cli.UsageError, match="cannot be combined"):
        thread.at("step:3", as_of="1h")


def test_the_facts_of_a_checkpoint(store: StoreHandle, sample: Path) -> None:
    head = store["refund-4711"].head
    assert head.status == store["refund-4711"].status == "interrupted"
    assert head.conditions == ["interrupted"]
    assert head.next == head.waiting == ["ask_approval"]
    assert [one["answered"] for one in head.interrupts] == [False]
    assert [task["node"] for task in head.tasks] == ["ask_approval"]
    assert (head.source, head.metadata["step"], head.step) == ("loop", 3, 3)
    assert head.ts is not None
    assert head.ts.tzinfo is UTC
    assert [one["channel"] for one in head.writes] == ["__interrupt__"]
    assert head.rebuilt == {}
    assert (len(head.diff()), dict(head.diff())) == (3, head.diff().to_dict())
    assert repr(head) == f"<CheckpointHandle refund-4711@{head.id}>"
    assert str(sample) in repr(store)
    thread = store[TRIP]
    assert thread.at(ns="planner").ns == thread.namespaces[1]
    with pytest.raises(ckpt_cli.NotFound):
        head.get("nothing")


def test_only_public_names_can_be_imported() -> None:
    assert all(getattr(ckpt_cli, name) is not None for name in ckpt_cli.__all__)
    assert dir(ckpt_cli) == sorted(ckpt_cli.__all__)
    with pytest.raises(AttributeError, match="no attribute 'rollback'"):
        _ = ckpt_cli.rollback


@pytest.mark.parametrize("opened", [ckpt_cli.open, ckpt_cli.open_memory])
def test_errors_hide_what_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[..., object]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ckpt_cli.UsageError, match="no store given"):
        opened()
    monkeypatch.setenv("SECRET_HOST", "127.0.0.1")
    config = tmp_path / "own.toml"
    config.write_text('[stores.far]\nurl = "redis://${SECRET_HOST}:1/0"\n')
    with pytest.raises(ckpt_cli.StoreUnavailable) as error:
        opened("far", config=config)
    assert "127.0.0.1" not in f"{error.value} {error.value.hint}"


def test_a_store_is_named_as_on_the_command_line(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ckpt.toml"
    config.write_text(f'default = "agents"\n[stores.agents]\nurl = "{sample}"\n')
    for name in ("agents", None):
        with ckpt_cli.open(name, config=config) as opened:
            assert TRIP in opened
    monkeypatch.setenv("CKPT_STORE", str(sample))
    with ckpt_cli.open() as opened:
        assert TRIP in opened
    monkeypatch.setenv("CKPT_STORE", str(tmp_path / "none.db"))
    with pytest.raises(ckpt_cli.StoreUnavailable, match="named by CKPT_STORE"):
        ckpt_cli.open()


def test_redacted_values_are_replaced(sample: Path) -> None:
    with ckpt_cli.open(sample, redact=True) as opened:
        head = opened[TRIP].head
        assert "Kanra" not in repr(head.values) + repr(head.messages) + repr(head.to_dict())
        assert head.values["hotel"] != "Hotel Kanra Kyoto"
        with pytest.raises(ckpt_cli.UsageError):
            head.raw()


def test_a_drawing_in_the_terminal_holds_no_control_characters(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        config: Any = {"thread_id": "\x1b[31m\u202et", "checkpoint_ns": ""}
        saver.put({"configurable": config}, empty_checkpoint(), {"step": 0, "source": "input"}, {})
    with ckpt_cli.open(path) as store:
        thread = store.newest()
        assert repr(thread) == r"<ThreadHandle \x1b[31m\u202et>"
        assert repr(thread.head).startswith(r"<CheckpointHandle \x1b[31m\u202et@")


def test_a_state_that_cannot_be_read_is_not_an_empty_one(sample: Path) -> None:
    with closing(sqlite3.connect(sample)) as database, database:
        database.execute("UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = ?", (TRIP,))
    with ckpt_cli.open(sample) as store, pytest.raises(ckpt_cli.Unreadable):
        _ = store[TRIP].head.values


def test_handles_of_the_same_thing_are_equal(store: StoreHandle, sample: Path) -> None:
    thread = store[TRIP]
    assert thread == store[TRIP]
    assert thread.head == thread.at("step:12") != thread.at("~1")
    assert len({thread.head, store.at(TRIP), thread.at("~1")}) == 2
    with ckpt_cli.open(sample) as other:
        assert other[TRIP] != thread
        assert other[TRIP].head != thread.head
    assert thread != TRIP


OPAQUE = Opaque("pickle", 3, "00", "a pickle")
_STEPS: Any = ("a",)
_SET: Any = {1}
_CUT_SET = Cut([_SET], 9, "too long")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Tagged("builtins.tuple", [1, Tagged("builtins.tuple", [2])]), (1, (2,))),
        (Tagged("builtins.frozenset", [1]), frozenset({1})),
        (
            Tagged("datetime.datetime", "2026-04-07T10:00:00+00:00"),
            datetime(2026, 4, 7, 10, tzinfo=UTC),
        ),
        (Tagged("builtins.set", [[1]]), Tagged("builtins.set", [[1]])),
        (Tagged("builtins.set", [1, True]), Tagged("builtins.set", [1, True])),
        (
            Tagged("app.Plan", {"steps": Tagged("builtins.tuple", ["a"])}),
            Tagged("app.Plan", {"steps": _STEPS}),
        ),
        ({Tagged("builtins.tuple", [1, 2]): b"x"}, {(1, 2): b"x"}),
        (Cut([Tagged("builtins.set", [1])], 9, "too long"), _CUT_SET),
        ([OPAQUE, None, True, 1.5], [OPAQUE, None, True, 1.5]),
    ],
)
def test_examples(value: Value, expected: Any) -> None:
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    assert to_json(found) == codec.to_json(value)


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_PLAIN)
def test_what_is_plain_stays_as_it_is(value: Value) -> None:
    assert plain(value) == value
    assert to_json(value) == codec.to_json(value)


@given(st.lists(_PLAIN), st.sampled_from(["builtins.set", "builtins.tuple", "os.system", "x"]))
def test_no_object_is_lost_or_made(payload: list[Value], name: str) -> None:
    found = plain(Tagged(name, payload))
    assert isinstance(found, tuple | set | Tagged)
    if isinstance(found, Tagged):
        assert found == Tagged(name, payload)
