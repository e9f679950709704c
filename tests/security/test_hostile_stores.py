"""Every command shows or names hostile rows and documents, runs nothing of them, and changes
nothing unasked."""

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pymongo
import pytest
from bson import Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from langgraph.checkpoint.mongodb import MongoDBSaver
from ormsgpack import packb

from ckpt_backends.codec import Opaque, decode, decode_checkpoint, to_json
from ckpt_backends.model import TypedBytes
from tests.kit.cases import cases
from tests.kit.command import CommandResult, ckpt
from tests.kit.harness.mongodb import RAW
from tests.kit.hostile.commands import EVERY_ROW, ON_THREAD, WHOLE, each, on
from tests.kit.hostile.corpus import (
    ANSI,
    DDL,
    HEAVY,
    ORDINARY_ID,
    TASK_ID,
    build_odd_store,
    build_store,
    hostile_rows,
    light_rows,
    ordinary_body,
    whole_values,
)
from tests.kit.hostile.watched import check, inert
from tests.kit.servers import Server, mongodb_database

_PER_STORE = 6
"""Threads of one store: some answers look into other threads of the same store."""


@dataclass(frozen=True)
class Hostile:
    marker: Path
    stores: dict[str, Path]
    """Thread id to the small store that it is in."""
    whole: Path
    """Most of them in one store."""
    listed: list[str]
    """The threads of that store."""

    def hashes(self) -> list[str]:
        paths = dict.fromkeys([*self.stores.values(), self.whole])
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    folder = tmp_path_factory.mktemp("hostile")
    marker = folder / "payload-ran"
    rows = hostile_rows(marker)
    stores: dict[str, Path] = {}
    for start in range(0, len(rows), _PER_STORE):
        path = folder / f"{start}.db"
        stores |= dict.fromkeys(build_store(path, rows[start : start + _PER_STORE]), path)
    whole = folder / "whole.db"
    # What a channel holds is also in a write, and a list of threads reads neither.
    listed = build_store(whole, [row for row in rows if not row.name.startswith("state: ")])
    return Hostile(marker, stores, whole, listed)


def answered(store: Path, words: list[str]) -> CommandResult:
    """Run a command line on a hostile store. It ends cleanly, and what is JSON can be read."""
    may_refuse = {"grep": (0, 1, 7), "replay": (0, 1, 3, 4, 5), "doctor": (0, 1, 7)}
    changes = words[0] in {"rollback", "fork", "copy", "undo", "threads", "purge", "migrate"}
    codes = may_refuse.get(words[0], (0, 2, 3, 4, 5) if changes else (0, 3, 4))
    answer = check(ckpt("-s", store, *words), *codes)
    if "json" in words and answer.out:  # nothing is printed of a thread without messages
        json.loads(answer.out)
    if "ndjson" in words:
        list(map(json.loads, answer.out.splitlines()))
    return answer


def shares(lines: list[list[str]], step: int, *marks: Any, by_default: int = 1) -> list[Any]:
    """Return rows of (command line, the first of its threads, step), some by default."""
    slow = [pytest.mark.nightly]
    return [
        pytest.param(
            *(words, at % step, step),
            id=f"{' '.join(words)}, one in {step}",
            marks=marks if at % by_default == 0 else slow,
        )
        for at, words in enumerate(lines)
    ]


@cases(
    "words first step",
    *shares(EVERY_ROW, 10),
    *shares(EVERY_ROW[::-1], 4, pytest.mark.engines, by_default=2),
    *shares(ON_THREAD, len(ON_THREAD), by_default=3),
    *shares([*EVERY_ROW, *ON_THREAD], 1, pytest.mark.nightly),
)
def test_rows_are_shown_or_named(hostile: Hostile, words: list[str], first: int, step: int) -> None:
    light = [one for one in hostile.stores if one not in HEAVY or step == 1]
    before = hostile.hashes()
    answered(hostile.stores[light[first]], on(light[first], words))
    with inert(hostile.marker):
        for thread_id in light[first::step]:
            answered(hostile.stores[thread_id], on(thread_id, words))
    assert hostile.hashes() == before


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(one, marks=pytest.mark.nightly if one[0] in {"grep", "purge", "gc"} else ())
        for one in WHOLE
    ],
    ids=" ".join,
)
def test_the_whole_store_is_listed(hostile: Hostile, words: list[str]) -> None:
    answered(hostile.stores[hostile.listed[0]], words)
    with inert(hostile.marker):
        answered(hostile.whole, words)


def test_every_thread_is_listed_under_its_own_id(hostile: Hostile) -> None:
    listed = ckpt("-s", hostile.whole, "threads", "list", "--all", "-o", "json").json
    assert sorted(row["thread_id"] for row in listed) == sorted(hostile.listed)
    assert len(hostile.stores) >= 250


@pytest.mark.parametrize("words", WHOLE, ids=" ".join)
def test_a_store_of_wrong_types_is_listed(tmp_path: Path, words: list[str]) -> None:
    build_odd_store(tmp_path / "odd.db")
    answered(tmp_path / "odd.db", words)


@cases("words first step", *shares(EVERY_ROW, 1), *shares(ON_THREAD, 5, by_default=3))
def test_wrong_types_are_shown(tmp_path: Path, words: list[str], first: int, step: int) -> None:
    for thread_id in build_odd_store(tmp_path / "odd.db")[first::step]:
        answered(tmp_path / "odd.db", on(thread_id, words))


def rows_of(store: Path, thread_id: str) -> list[Any]:
    """The rows of a thread, and how many there are in all."""
    with closing(sqlite3.connect(store)) as connection:
        connection.text_factory = bytes
        return [
            (
                connection.execute(
                    f"SELECT * FROM {table} WHERE thread_id = CAST(? AS TEXT)"
                    " ORDER BY checkpoint_ns, checkpoint_id, rowid",
                    [thread_id.encode("utf-8", "surrogateescape")],
                ).fetchall(),
                connection.execute(f"SELECT count(*) FROM {table}").fetchone(),
            )
            for table in ("checkpoints", "writes")
        ]


@pytest.mark.parametrize("step", [40, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_hostile_threads_change_is_whole_and_undone_or_refused(tmp_path: Path, step: int) -> None:
    store, marker, done = tmp_path / "store.db", tmp_path / "payload-ran", 0
    threads = build_store(store, light_rows(marker)[::step])
    answered(store, on(threads[0], ["rollback", "--at", "head", "--dry-run"]))
    with inert(marker):
        for thread_id in threads:
            before = rows_of(store, thread_id)
            for words in each("rollback --at head", "--dry-run", "--dry-run -o json", "--yes"):
                answer = answered(store, on(thread_id, words))
            if answer.code == 0:
                done += 1
                assert rows_of(store, thread_id)[0] != before[0]
                assert answered(store, on(thread_id, ["undo", "--yes"])).code == 0
            assert rows_of(store, thread_id) == before, thread_id
            if answered(store, on(thread_id, ["copy", "--as", "new", "--yes"])).code == 0:
                assert answered(store, ["undo", "new", "--yes"]).code == 0
            assert rows_of(store, thread_id) == before, thread_id
    assert done


TEXTS = [*ANSI.values(), "a\r\nb\tc\x0bd\u2028e \x00", "{0} %s $(id) `id`", "x" * 5000]


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thread for each text, which stands wherever a message or a file has one."""
    path = tmp_path_factory.mktemp("hostile") / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DDL)
        for number, text in enumerate(TEXTS):
            call = {"name": text, "args": {text: text}, "id": text}
            said = {"content": text, "name": text, "id": text, "tool_calls": [call]}
            told = {"response_metadata": {"model_name": text}, "usage": {"prompt_tokens": 2**62}}
            messages = [
                {"role": text, **said, **told},
                {"role": "tool", "tool_call_id": text, "content": [{"type": text}, text]},
                {"role": "ai", "content": {text: [text]}, "tool_calls": text, "usage": text},
                text,
            ]
            channels = {text: messages, "files": {text: text}}
            versions = dict.fromkeys(channels, "1.0")
            body = {"v": 4, "channel_values": channels, "channel_versions": versions}
            connection.execute(
                "INSERT INTO checkpoints VALUES (?, '', ?, NULL, 'msgpack', ?, '{}')",
                [f"thread-{number}", ORDINARY_ID, packb(body)],
            )
        connection.commit()
    return path


@pytest.mark.parametrize("form", ["table", "json", "ndjson", "tsv"])
@cases(
    "words",
    *each("messages", "", "--full", "--stat"),
    *each("blame", "{} files"),
    *each("grep", ". --match {}"),
    *each("du", "", "--by channel"),
    ids=" ".join,
)
def test_conversations_are_shown_as_text(conversations: Path, words: list[str], form: str) -> None:
    for number in range(len(TEXTS)):
        assert check(ckpt("-s", conversations, "-o", form, *on(f"thread-{number}", words)), 0).out


@pytest.mark.parametrize("tag", ["msgpack", "json", "pickle"])
def test_a_value_that_is_cut_off_or_has_a_wrong_byte_is_named(tag: str) -> None:
    whole = whole_values()[tag]
    assert not isinstance(decode(TypedBytes(tag, whole)), Opaque)
    for at in range(len(whole)):
        for read in (decode, decode_checkpoint):
            assert isinstance(read(TypedBytes(tag, whole[:at])), Opaque), at
        for byte in (0x00, 0x28, 0x2E, 0x52, 0x62, 0x81, 0xFF):
            broken = whole[:at] + bytes([byte]) + whole[at + 1 :]
            json.dumps(to_json(decode(TypedBytes(tag, broken))))


METADATA = {"source": ["msgpack", packb("loop")], "step": ["msgpack", packb(1)], "parents": {}}
ODD: list[Any] = [
    *(None, True, 7, Int64(2**62), -2.5, math.inf, math.nan, "text", "$thread_id", "\0", ""),
    *(b"", b"\xff\x00\x1b[2J", [], [["msgpack", b"\xc1"]], {}, {"a": {"b": [1, {"c": b"\0"}]}}),
    *({"$where": "1", "a.b": 2, "": 3}, ["msgpack", b"\xc1"], ["json", b"{"], ["gone", 7]),
    *(ObjectId("0" * 24), Regex("a*"), Code("1"), Timestamp(1, 1), MinKey(), MaxKey()),
    *(Decimal128("1.5"), datetime(9999, 12, 31, tzinfo=UTC), "\x1b[31m\u202e"),
]
"""What MongoDB lets stand in any field."""
CHECKPOINT: dict[str, Any] = {
    **{"checkpoint_ns": "", "checkpoint_id": ORDINARY_ID, "parent_checkpoint_id": None},
    **{"type": "msgpack", "checkpoint": ordinary_body(ORDINARY_ID), "metadata": METADATA},
}
WRITE: dict[str, Any] = {
    **{"checkpoint_ns": "", "checkpoint_id": ORDINARY_ID, "task_id": TASK_ID, "idx": 0},
    **{"task_path": "~__pregel_pull, node", "channel": "answer", "type": "msgpack"},
    "value": packb("x"),
}
KAFLOW: dict[str, Any] = {
    **{"checkpoint_id": ORDINARY_ID, "parent_checkpoint_id": None, "username": "me"},
    **{"checkpoint_data": b"\x80\x04}.", "metadata": {"source": "loop", "step": 1}},
    **{"created_at": datetime(2026, 4, 7, tzinfo=UTC), "updated_at": datetime.now(UTC)},
}


@dataclass(frozen=True)
class Place:
    """A database and the threads in it."""

    url: str
    threads: list[str]

    def documents(self) -> object:
        """All that is in it, byte for byte, its indexes too."""
        with pymongo.MongoClient[Any](self.url) as client:
            found = client[self.url.rpartition("/")[2]]
            return {
                name: (
                    [one.raw for one in found.get_collection(name, RAW).find().sort("_id", 1)],
                    sorted(found[name].index_information()),
                )
                for name in found.list_collection_names()
            }


def fill_documents(url: str, documents: dict[str, list[Any]]) -> None:
    name = url.rpartition("/")[2]
    with pymongo.MongoClient[Any](url) as client:
        if "checkpoint_writes" in documents:
            MongoDBSaver(client, name)
        for collection, rows in documents.items():
            client[name][collection].insert_many(rows)


def odd(name: str, like: dict[str, Any], others: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Each odd value in each field once, and each field missing; beside an ordinary document."""
    for field in like:
        for number, value in enumerate([*ODD, ...]):
            thread = f"odd {name} {field} {number}"
            document = {"thread_id": thread, **like, field: value}
            if value is ...:
                del document[field]
            yield thread, document, {"thread_id": thread, **others}


@pytest.fixture(scope="module")
def wrong(mongodb_server: Server) -> Iterator[Place]:
    found = list(odd("checkpoint", CHECKPOINT, WRITE))
    documents: dict[str, list[Any]] = {
        "checkpoints": [{"thread_id": "first", **CHECKPOINT}, *(one for _, one, _ in found)],
        "checkpoint_writes": [{"thread_id": "first", **WRITE}, *(other for _, _, other in found)],
    }
    for thread, one, other in odd("write", WRITE, CHECKPOINT):
        documents["checkpoint_writes"].append(one)
        documents["checkpoints"].append(other)
        found.append((thread, one, other))
    # Ids of threads that are no texts; of a list, the unique index takes each item for one.
    ids = [one for one in ODD if not isinstance(one, list) or not one]
    documents["checkpoints"] += [{"thread_id": one, **CHECKPOINT} for one in ids]
    with mongodb_database(mongodb_server) as url:
        fill_documents(url, documents)
        yield Place(url, [thread for thread, _, _ in found])


@pytest.fixture(scope="module")
def wrong_kaflow(mongodb_server: Server) -> Iterator[Place]:
    found = list(odd("kaflow", KAFLOW, {}))
    rows = [{"thread_id": "first", **KAFLOW}, *(one for _, one, _ in found)]
    rows += [{"thread_id": one, **KAFLOW} for one in ODD]
    with mongodb_database(mongodb_server) as url:
        fill_documents(url, {"checkpoints": rows})
        yield Place(url, [thread for thread, _, _ in found])


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["wrong", "wrong_kaflow"])
def test_each_document_goes_through_some_command(kind: str, request: pytest.FixtureRequest) -> None:
    place: Place = request.getfixturevalue(kind)
    before = place.documents()
    for number, words in enumerate([*EVERY_ROW, *ON_THREAD]):
        for thread in place.threads[number % 10 :: 10]:
            check(ckpt("-s", place.url, *on(thread, words)))
    for words in WHOLE:
        check(ckpt("-s", place.url, *words))
    assert place.documents() == before


@pytest.mark.engines
def test_documents_of_wrong_types_are_listed(wrong: Place) -> None:
    listed = check(ckpt("-s", wrong.url, "threads", "list", "--all", "-o", "json")).json
    assert {"first", *wrong.threads} - {row["thread_id"] for row in listed} == set()
    for thread in wrong.threads[::31]:
        check(ckpt("-s", wrong.url, "show", "--writes", "--", thread))
    # Its id is a number, by which it is listed and not found.
    check(ckpt("-s", wrong.url, "show", "--as", "pytest", "--", "odd checkpoint checkpoint_id 4"))
