"""Every command shows or names hostile rows, runs nothing of them, and changes nothing unasked."""

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ormsgpack import packb

from ckpt_backends.codec import Opaque, decode, decode_checkpoint, to_json
from ckpt_backends.model import TypedBytes
from tests.kit.cases import cases
from tests.kit.command import CommandResult, ckpt
from tests.kit.hostile.commands import EVERY_ROW, ON_THREAD, WHOLE, each, on
from tests.kit.hostile.corpus import (
    ANSI,
    DDL,
    HEAVY,
    ORDINARY_ID,
    build_odd_store,
    build_store,
    hostile_rows,
    light_rows,
    whole_values,
)
from tests.kit.hostile.watched import check, inert

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
    may_refuse = {"grep": (0, 1, 7), "replay": (0, 1, 3, 4, 5), "memory": (0, 3, 4)}
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
    answered(hostile.whole, words)
    assert not hostile.marker.exists()


def test_every_thread_is_listed_under_its_own_id(hostile: Hostile) -> None:
    listed = ckpt("-s", hostile.whole, "threads", "list", "--all", "-o", "json").json
    assert sorted(row["thread_id"] for row in listed) == sorted(hostile.listed)
    assert len(hostile.stores) >= 250


@pytest.mark.parametrize("words", WHOLE, ids=" ".join)
def test_a_store_of_wrong_types_is_listed(tmp_path: Path, words: list[str]) -> None:
    build_odd_store(tmp_path / "odd.db")
    answered(tmp_path / "odd.db", words)


@cases("words first step", *shares(EVERY_ROW, 1), *shares(ON_THREAD, 5, by_default=3))
def test_threads_of_wrong_types_are_shown(
    tmp_path: Path, words: list[str], first: int, step: int
) -> None:
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
def test_a_change_of_a_hostile_thread_is_whole_and_undone_or_refused(
    tmp_path: Path, step: int
) -> None:
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
def test_texts_of_a_conversation_are_shown_as_text(
    conversations: Path, words: list[str], form: str
) -> None:
    for number in range(len(TEXTS)):
        answer = ckpt("-s", conversations, "-o", form, *on(f"thread-{number}", words))
        assert check(answer, 0).out


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
