"""The handles of a store, its threads and its checkpoints, and the values that they give."""

import logging
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
from ckpt_backends import codec, registry
from ckpt_backends.base import WrappedStore
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.protocol import ScanObserver
from ckpt_backends.registry import open_store
from ckpt_backends.url import StoreUrl
from ckpt_cli import StoreHandle
from ckpt_cli.api.answer import plain, to_json
from ckpt_cli.reading import store as opening

TRIP = "trip-to-kyoto"


@pytest.fixture
def store(sample: Path) -> Iterator[StoreHandle]:
    with ckpt_cli.open(sample) as opened:
        yield opened


def test_every_public_name_can_be_imported() -> None:
    for name in ckpt_cli.__all__:
        assert getattr(ckpt_cli, name) is not None
    assert dir(ckpt_cli) == sorted(ckpt_cli.__all__)
    with pytest.raises(AttributeError, match="no attribute 'rollback'"):
        _ = ckpt_cli.rollback


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


def test_a_subgraph_is_reached_by_its_namespace(store: StoreHandle) -> None:
    thread = store[TRIP]
    _, ns = thread.namespaces
    inner = thread.at(ns="planner")
    assert inner.ns == ns
    assert inner.parent is not None
    assert inner.parent.ns == ns
    assert {one.ns for one in thread.history(all_ns=True)} == {"", ns}


def test_the_facts_of_a_checkpoint(store: StoreHandle) -> None:
    head = store["refund-4711"].head
    assert head.status == store["refund-4711"].status == "interrupted"
    assert head.conditions == ["interrupted"]
    assert head.next == head.waiting == ["ask_approval"]
    assert [one["answered"] for one in head.interrupts] == [False]
    assert [task["node"] for task in head.tasks] == ["ask_approval"]
    assert head.source == "loop"
    assert head.ts is not None
    assert head.ts.tzinfo is UTC
    assert head.metadata["step"] == head.step == 3
    assert [one["channel"] for one in head.writes] == ["__interrupt__"]
    assert head.rebuilt == {}


def test_parts_of_the_state(store: StoreHandle) -> None:
    head = store[TRIP].head
    assert head.values["hotel"] == head.get("hotel") == "Hotel Kanra Kyoto"
    assert head.get("messages[-1].content") == head.messages[-1]["content"]
    assert head.get("messages[].content") == [one["content"] for one in head.messages]
    message = head.values["messages"][-1]
    assert isinstance(message, ckpt_cli.Tagged)
    assert message.type == "langchain_core.messages.ai.AIMessage"
    with pytest.raises(ckpt_cli.NotFound):
        head.get("nothing")


def test_a_diff_goes_from_the_other_to_this_one(store: StoreHandle) -> None:
    thread = store[TRIP]
    head, parent = thread.head, thread.at("~1")
    assert head.diff(parent).to_dict() == head.diff().to_dict()
    assert head.diff("~1").to_dict() == head.diff().to_dict()
    assert head.diff(parent)["from"]["checkpoint_id"] == parent.id
    assert set(head.diff(thread.at("~2"), ["hotel"])["channels"]) == set()
    assert dict(head.diff()) == head.diff().to_dict()
    assert len(head.diff()) == 3


def test_representations_name_what_they_are(store: StoreHandle, sample: Path) -> None:
    thread = store[TRIP]
    assert repr(thread) == f"<ThreadHandle {TRIP}>"
    assert repr(thread.head) == f"<CheckpointHandle {TRIP}@{thread.head.id}>"
    assert str(sample) in repr(store)


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


def test_without_a_name_there_is_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ckpt_cli.UsageError, match="no store given"):
        ckpt_cli.open()


def test_redacted_values_are_replaced(sample: Path) -> None:
    with ckpt_cli.open(sample, redact=True) as opened:
        head = opened[TRIP].head
        assert "Kanra" not in repr(head.values) + repr(head.messages) + repr(head.to_dict())
        assert head.values["hotel"] != "Hotel Kanra Kyoto"
        with pytest.raises(ckpt_cli.UsageError):
            head.raw()


def test_a_parent_is_found_by_its_whole_id(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for checkpoint_id, parent in [("20001", "2000"), ("step:1", None), ("step:2", "step:1")]:
            config: Any = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": parent}
            stored: Any = {**empty_checkpoint(), "id": checkpoint_id}
            saver.put({"configurable": config}, stored, {"step": 7, "source": "loop"}, {})
    with ckpt_cli.open(path) as store:
        assert store["t"]["20001"].parent is None
        assert [one.id for one in store["t"]["step:1"].children] == ["step:2"]
        above = store["t"]["step:2"].parent
        assert above is not None
        assert above.id == "step:1"


def test_one_name_may_be_given_in_place_of_several(store: StoreHandle) -> None:
    thread = store[TRIP]
    assert list(thread.head.show("hotel")["values"]) == ["hotel"]
    assert [one["thread_id"] for one in store.interrupts("refund-4711")] == ["refund-4711"]
    one, several = ([*thread.grep("Kanra", channels=it)] for it in ("messages", ["messages"]))
    assert one == several != []
    # Of a text, a part would be found by `in`, too.
    with pytest.raises(ckpt_cli.NotFound, match="no channel 'hotel, booking'"):
        thread.head.show("hotel, booking")


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


def test_scans_are_logged(
    sample: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Scanning(WrappedStore):
        lists_by_scan = True

        def observe_scans(self, observer: ScanObserver) -> None:
            observer.scanning("table", 0, 9)
            observer.scanned("read 9 items")

    monkeypatch.setattr(opening, "open_store", lambda url: Scanning(open_store(url)))
    with caplog.at_level(logging.WARNING, logger="ckpt"), ckpt_cli.open(sample):
        assert caplog.messages == ["read 9 items"]


@pytest.mark.parametrize("opened", [ckpt_cli.open, ckpt_cli.open_memory])
def test_errors_hide_what_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[..., object]
) -> None:
    def fail(url: StoreUrl) -> None:
        raise StoreUnavailable(f"no database in {url.raw}", hint="ask the owner of box.internal")

    monkeypatch.setenv("SECRET_HOST", "box.internal")
    monkeypatch.setattr(opening, "open_store", fail)
    monkeypatch.setattr(registry, "open_memory", fail)
    config = tmp_path / "ckpt.toml"
    config.write_text('[stores.far]\nurl = "postgresql://${SECRET_HOST}/agents"\n')
    with pytest.raises(StoreUnavailable) as error:
        opened("far", config=config)
    assert "box.internal" not in f"{error.value} {error.value.hint}"


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
        (Tagged("builtins.set", ["a", 1]), {"a", 1}),
        (Tagged("builtins.frozenset", [1]), frozenset({1})),
        (
            Tagged("datetime.datetime", "2026-04-07T10:00:00+00:00"),
            datetime(2026, 4, 7, 10, tzinfo=UTC),
        ),
        (Tagged("datetime.datetime", "yesterday"), Tagged("datetime.datetime", "yesterday")),
        (Tagged("builtins.set", [[1]]), Tagged("builtins.set", [[1]])),
        (Tagged("builtins.set", [1, True]), Tagged("builtins.set", [1, True])),
        (Tagged("builtins.set", {"a": 1}), Tagged("builtins.set", {"a": 1})),
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
