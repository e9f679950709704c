"""What a change looks at again before it is carried out, and how values are changed in rows."""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import bson
import pytest

from ckpt_backends import records
from ckpt_backends.apps.kaflow import records as kaflow
from ckpt_backends.apps.kagent import layout as kagent
from ckpt_backends.apps.plainredis import records as plainredis
from ckpt_backends.apps.supabase import layout as supabase
from ckpt_backends.apps.three_table import layout as three_table
from ckpt_backends.changes import (
    GONE,
    MOVED,
    Change,
    CopyOfCheckpoint,
    CopyOfWrites,
    Inside,
    Removal,
    change_from_record,
    change_record,
)
from ckpt_backends.errors import Refused, StoreChanged, StoreUnavailable, Unsupported
from ckpt_backends.model import BlobKey, CheckpointKey, Encryption, Record, TypedBytes
from ckpt_backends.mysql import connect as mysql
from ckpt_backends.open_for_writing import create_store, open_writable
from ckpt_backends.postgres import connect as postgres
from ckpt_backends.records import NamespaceState, check_numbers, removed_threads
from ckpt_backends.registry import open_store
from ckpt_backends.rows import PlacedValue, Row, ValueKind
from ckpt_backends.sql import records as sql
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import StoreUrl, parse_url
from tests.kit.cases import cases

SOME = TypedBytes("json", b"{}")
AT = datetime(2026, 4, 7, tzinfo=UTC)


@cases(
    "last_at checkpoints writes reason",
    (AT, 2, 3, ""),
    (None, 2, 3, MOVED),
    (AT.replace(hour=1), 2, 3, MOVED),
    (AT, 1, 3, MOVED),
    (AT, 3, 3, MOVED),
    (AT, 2, 2, MOVED),
    (AT, 2, 4, MOVED),
    (None, 0, 3, GONE),
)
def test_a_thread_that_changed_is_kept(
    last_at: datetime | None, checkpoints: int, writes: int, reason: str
) -> None:
    assert Removal("a", AT, 2, 3).reason_to_skip(last_at, checkpoints, writes) == reason


def test_writes_without_a_checkpoint_can_be_removed() -> None:
    assert Removal("a", None, 0, 3).reason_to_skip(None, 0, 3) == ""


@cases("ns has is_fine", ("", 3, True), ("", 2, False), ("", 4, False), ("sub", 1, False))
def test_only_what_was_added_may_be_there(ns: str, has: int, is_fine: bool) -> None:
    before = {"a": {"": NamespaceState("2", 2)}}
    after = {"a": {"": NamespaceState("3", 3), ns: NamespaceState("3", has)}}
    if is_fine:
        check_numbers(before, after, {("a", ""): 1})
        return
    with pytest.raises(StoreChanged):
        check_numbers(before, after, {("a", ""): 1})


def key(own: str, thread_id: str = "a") -> CheckpointKey:
    return CheckpointKey(thread_id, "", own)


FILES, SERVERS = ["sqlite", "langgraph-dev"], ["postgres", "mysql"]


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> StoreUrl:
    """A store with a thread of two checkpoints, the first with two writes."""
    if request.param in SERVERS:
        made = parse_url(request.getfixturevalue(f"{request.param}_url"))
    else:
        name = {"sqlite": "store.db", "langgraph-dev": ".langgraph_api"}[request.param]
        made = parse_url(f"{request.param}:///{tmp_path / name}")
    found = create_store(made, Language.PYTHON)
    came = [Record.write(key("1"), "task", "", idx, "x", SOME) for idx in (0, 1)]
    came += [checkpoint("1"), checkpoint("2", "1")]
    for channel, version in () if request.param == "sqlite" else product("xy", "12"):
        value = TypedBytes("empty", b"") if channel == "y" else SOME
        came.append(Record.apart("a", "", channel, version, value))
    with closing(open_writable(found)) as store:
        store.receive([Arrival("a", came)])
    return found


def checkpoint(own: str, parent: str | None = None, thread_id: str = "a") -> Record:
    body = {"v": 4, "id": own, "channel_values": {}, "channel_versions": {"x": own, "y": own}}
    typed = TypedBytes("json", json.dumps(body).encode())
    return Record.checkpoint(key(own, thread_id), parent, typed, SOME)


def everything(url: StoreUrl) -> Iterator[Row]:
    with open_store(url) as store:
        for thread_id in ("a", "b"):
            yield from store.rows(thread_id)


NOW = {"": "2"}
TASKS = (("task", 0), ("other", 0))


@pytest.mark.parametrize("url", FILES, indirect=True)
@pytest.mark.parametrize(
    "change",
    [
        Change("a", {"": "1"}),
        Change("a", {}),
        Change("a", {**NOW, "sub": "1"}),
        Change("b", NOW),
        Change("a", NOW, removed={key("0"): 0}),
        Change("a", NOW, removed={key("1"): 1}),
        Change("a", NOW, removed={key("1"): 3}),
        Change("a", NOW, relied_on=(key("0"),)),
        Change("a", NOW, relied_on=(key("2", "b"),)),
        Change("b", {}, copies=(CopyOfCheckpoint(key("0")),)),
        Change("b", {}, copies=(CopyOfCheckpoint(key("0"), body=SOME),)),
        Change("b", {}, copies=(CopyOfCheckpoint(key("1"), writes=(("task", 0), ("task", 7))),)),
        Change("a", NOW, copies_of_writes=(CopyOfWrites(key("1"), key("2"), TASKS),)),
    ],
)
def test_a_change_of_what_is_not_as_planned_is_refused(url: StoreUrl, change: Change) -> None:
    before = list(everything(url))
    with closing(open_writable(url)) as store, pytest.raises(StoreChanged):
        store.apply(change)
    assert list(everything(url)) == before


def values_of(url: StoreUrl, thread_id: str) -> list[tuple[str, str]]:
    with open_store(url) as store:
        return sorted((one.channel, one.version) for one, _ in store.blobs(thread_id))


@pytest.mark.parametrize("url", [*FILES, *SERVERS], indirect=True)
def test_a_copy_has_the_writes_and_values_that_are_named(url: StoreUrl) -> None:
    every = values_of(url, "a")
    assert len(every) in {0, 4}
    with closing(open_writable(url)) as store:
        for name, writes, number in (("b", (), 0), ("c", (("task", 1),), 1), ("d", None, 2)):
            both = CopyOfCheckpoint(key("1"), writes=writes), CopyOfCheckpoint(key("2"))
            store.apply(Change(name, {}, copies=both))
            with open_store(url) as copied:
                assert len(list(copied.writes(name))) == number
            assert values_of(url, name) == every
        # What remains keeps its values, until the last checkpoint goes.
        gone = BlobKey("", "x", "2")
        store.apply(Change("d", NOW, removed={key("2", "d"): 0}, removed_blobs=(gone,)))
        assert values_of(url, "d") == [one for one in every if one != gone[1:]]
        store.apply(Change("d", {"": "1"}, removed={key("1", "d"): 2}))
        inside = Inside({"": ("1",)}, tuple(BlobKey("", *one) for one in every if one[0] == "x"))
        removals = [Removal("a", None, 2, 2, inside), Removal("b", None, 2, 1)]
        done, skipped = store.remove(removals)
    assert (done.skipped, skipped.skipped) == ("", MOVED)
    assert sorted(filter(None, done.rows.values())) == [1, 2, 2][: 3 if every else 2]
    assert values_of(url, "a") == [one for one in every if one[0] == "y"]
    assert [values_of(url, name) for name in "bcd"] == [every, every, []]
    with open_store(url) as left:
        assert [one.key for one in left.checkpoints("a")] == [key("2")]
        assert [*left.writes("a"), *left.rows("d")] == []


@pytest.mark.parametrize("url", SERVERS, indirect=True)
def test_nobody_adds_to_a_removed_thread(url: StoreUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(one for one in everything(url) if one.table == "checkpoints")
    new = Row(row.table, {**row.cells, "checkpoint_id": "3"})

    def late(*given: Any) -> Any:
        """As a saver does it, this takes no lock of the thread."""
        held = pytest.raises(StoreUnavailable, match="another session holds a lock")
        with closing(open_writable(url)) as other, held:
            other.restore([new])
        return removed_threads(*given)

    monkeypatch.setattr(records, "removed_threads", late)
    monkeypatch.setattr(postgres, "_LOCK_TIMEOUT", "500ms")
    monkeypatch.setattr(mysql, "_LOCK_SECONDS", 1)
    with closing(open_writable(url)) as store:
        (done,) = store.remove([Removal("a", None, 2, 2)])
    assert done.skipped == ""
    assert list(everything(url)) == []


def test_a_saved_change_is_the_same() -> None:
    odd = TypedBytes("msgpack+aes", b"\xff", encrypted=Encryption.ENVELOPE, part="metadata")
    copies = [CopyOfCheckpoint(key(own), writes=some) for own, some in (("1", ()), ("2", None))]
    whole = Change(
        "b",
        {"": "1", "sub": "2"},
        (Record.checkpoint(key("3"), "", odd, SOME), Record.checkpoint(key("4"), None, SOME, odd)),
        (Record.write(key("3"), "task", "path", -1, "x", odd),),
        (Record.apart("b", "", "x", "1", odd),),
        (CopyOfWrites(key("1"), key("3", "b"), TASKS),),
        (*copies, CopyOfCheckpoint(key("3"), metadata=odd, body=SOME, writes=TASKS)),
        {key("1", "b"): 2},
        (BlobKey("", "x", "0"),),
        (key("1"),),
    )
    assert change_from_record(json.loads(json.dumps(change_record(whole)))) == whole


# Values in rows


def b64(data: bytes) -> str:
    return b64encode(data).decode()


def in_json(tag: str, data: bytes) -> str:
    return json.dumps({"type": tag, "data": b64(data)})


BODY, NEW = TypedBytes("msgpack", b"body"), TypedBytes("msgpack+aes", b"new")
KEYS: Any = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}
OF_WRITE = {**KEYS, "task_id": "task", "task_path": "", "idx": 0, "channel": "x"}
PLAIN = {"metadata": "{}"}
BINARY = {**KEYS, "type": "msgpack", "checkpoint": b"body", "metadata": b"{}"}
STORED: list[tuple[Any, str, dict[str, Any], dict[str, Any], list[ValueKind]]] = [
    (
        kagent,
        kagent.CHECKPOINTS,
        {**KEYS, "user_id": "u", "checkpoint": b64(b"body"), "checkpoint_type": "msgpack"}
        | {"metadata": b64(b"{}")},
        {"checkpoint": b64(b"new"), "checkpoint_type": "msgpack+aes"},
        [ValueKind.BODY, ValueKind.METADATA],
    ),
    (
        kagent,
        kagent.WRITES,
        {**OF_WRITE, "user_id": "u", "value": b64(b"body"), "value_type": "msgpack"},
        {"value": b64(b"new"), "value_type": "msgpack+aes"},
        [ValueKind.WRITE],
    ),
    (
        supabase,
        supabase.CHECKPOINTS,
        {**KEYS, "checkpoint": in_json("msgpack", b"body"), **PLAIN},
        {"checkpoint": in_json("msgpack+aes", b"new")},
        [ValueKind.BODY, ValueKind.METADATA],
    ),
    (
        supabase,
        supabase.WRITES,
        {**OF_WRITE, "write": in_json("msgpack", b"body")},
        {"write": in_json("msgpack+aes", b"new")},
        [ValueKind.WRITE],
    ),
    (
        plainredis,
        plainredis.BLOBS,
        {"key": "p:blob:t::x:1", "value": plainredis.wrapped(BODY), "expires_at": 1},
        {"value": plainredis.wrapped(NEW)},
        [ValueKind.VALUE],
    ),
    (three_table, "checkpoint_blobs", {**KEYS, "channel": "x", "type": "msgpack"}, {}, []),
    (
        sql,
        "checkpoints",
        BINARY,
        {"checkpoint": b"new", "type": "msgpack+aes"},
        [ValueKind.BODY, ValueKind.METADATA],
    ),
    (
        sql,
        "writes",
        {**OF_WRITE, "type": "msgpack", "value": b"body"},
        {"type": "msgpack+aes", "value": b"new"},
        [ValueKind.WRITE],
    ),
]


@pytest.mark.parametrize(("module", "table", "cells", "edited", "kinds"), STORED)
def test_a_value_is_changed_in_its_row_and_nothing_else(
    module: Any, table: str, cells: Any, edited: Any, kinds: list[ValueKind]
) -> None:
    seen: list[PlacedValue] = []

    def change(placed: PlacedValue) -> TypedBytes:
        seen.append(placed)
        return NEW if placed.value == BODY else placed.value

    row = Row(table, cells)
    assert module.edited_row("", row, change) == Row(table, {**cells, **edited})
    assert [one.kind for one in seen] == kinds
    assert {one.channel for one in seen} <= {"x" if "idx" in cells or kinds == ["value"] else ""}
    assert len({one.place for one in seen}) == len(seen)
    assert module.edited_row("", row, lambda placed: placed.value) is row
    if kinds[1:]:
        told = module.edited_row("", row, lambda one: one.value._replace(data=b'{"a": 1}'))
        assert told.cells["metadata"] != cells["metadata"]
        assert told.cells.keys() == cells.keys()


def test_a_document_of_kaflow_keeps_its_other_fields() -> None:
    fields = {**KEYS, "username": "u", "checkpoint_data": b"body", "metadata": {"step": 1}}
    row = Row("checkpoints", {"thread_id": "t", "bson": bson.encode(fields)})
    news = {ValueKind.BODY: b"new", ValueKind.METADATA: bson.encode({"step": 2})}
    found = kaflow.edited_row("", row, lambda one: one.value._replace(data=news[one.kind]))
    assert found.cells["thread_id"] == "t"
    made: Any = found.cells["bson"]
    assert bson.decode(made) == {**fields, "checkpoint_data": b"new", "metadata": {"step": 2}}
    assert kaflow.edited_row("", row, lambda one: one.value) is row


@cases(
    "module table cells error",
    (kagent, "other", KEYS, Refused),
    (kagent, kagent.WRITES, {**OF_WRITE, "value": "?", "value_type": "msgpack"}, CannotHold),
    (kagent, kagent.WRITES, {**OF_WRITE, "value": None, "value_type": "msgpack"}, CannotHold),
    (supabase, "other", KEYS, Refused),
    (supabase, supabase.WRITES, {**OF_WRITE, "write": "[]"}, CannotHold),
    (supabase, supabase.WRITES, {**OF_WRITE, "write": in_json("", b"1")[:-2] + '?"}'}, CannotHold),
    (plainredis, plainredis.BLOBS, {"key": "p:blob:t::x:1", "value": b"{}"}, CannotHold),
    (sql, "other", {}, Unsupported),
)
def test_a_damaged_row_has_no_records(module: Any, table: str, cells: Any, error: Any) -> None:
    with pytest.raises(error):
        list(module.records_of("", [Row(table, cells)]))
