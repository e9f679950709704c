"""Damage a small store at random, and run commands that read it.

`python -m tests.kit.hostile.mutations FOLDER SEED COUNT COMMANDS` tries stores in one process with
limited memory; it prints the command lines that did not end as documented, and exits with 1 if
there are any.
"""

import json
import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ormsgpack import OPT_NON_STR_KEYS, OPT_PASSTHROUGH_BIG_INT, Ext, packb, unpackb

from tests.kit.command import SAMPLE, ckpt
from tests.kit.hostile.commands import CHANGING, EVERY_ROW, ON_THREAD, WHOLE, on
from tests.kit.hostile.watched import check

MEMORY = 3 << 30
"""Bytes that one process may use, for all stores together."""
_LONG = "x" * 100_000
_UUIDS = ("1f0a0000-0000-6000-8000-000000000001", "ffffffff-ffff-6fff-bfff-ffffffffffff")
_ODD: list[Any] = [
    *(None, 0, -1, 2**62, -(2**63), 1.5, float("inf"), b"", b"\xff\x00\x1b[2J", "", "\n"),
    *("\x1b[31m\u202e", _LONG, "a\x00b", "[]", "{}", "null", "1e999", "9" * 5000, "[" * 50_000),
    *(b"\x91" * 5000, b"\xdf\xff\xff\xff\xff", b"\x80\x04.", "pickle", "msgpack", "json", "~1"),
    *("msgpack+aes", "__start__", "__error__", "__interrupt__", "__resume__", "a|b:c|d", "head"),
    *("é\u0301", "\ud7ff", *_UUIDS),
]
"""Values of a cell."""
_INNER: list[Any] = [
    *(None, True, -1, 2**63, 1.5, float("nan"), b"\xff", "", "\x1b[2J", "x", [], {}, [None]),
    *({"": 1}, "9" * 5000, _LONG, {"a": {"b": []}}, [[], {}], Ext(0, b"\xc1"), Ext(99, b"")),
    *(Ext(5, b"\x90"), Ext(7, b"\xc0"), Ext(2, packb(["m", "C", {"a": 1}])), {1: 2}),
    {"id": "x", "value": 1},
]
"""Values inside of a value."""
_NO_THREAD = {"gc", "purge", "list"}


def damage_rows(path: Path, chance: random.Random) -> None:
    """Change some cells and rows of a store."""
    with closing(sqlite3.connect(path)) as db, db:
        if chance.random() < 0.5:
            _loosen(db)
        named = [
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for _ in range(chance.randint(1, 8)):
            table = chance.choice(named)
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            rows = db.execute(f"SELECT rowid, * FROM {table}").fetchall()
            if rows:
                _damage_row(db, chance, table, columns, rows)


def _loosen(db: sqlite3.Connection) -> None:
    """Drop the types and keys of the tables, so that a column holds anything."""
    for table in ("checkpoints", "writes"):
        columns = ", ".join(row[1] for row in db.execute(f"PRAGMA table_info({table})"))
        db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        db.execute(f"CREATE TABLE {table} ({columns})")
        db.execute(f"INSERT INTO {table} SELECT * FROM old_{table}")
        db.execute(f"DROP TABLE old_{table}")


def _damage_row(
    db: sqlite3.Connection, chance: random.Random, table: str, columns: list[str], rows: list[Any]
) -> None:
    row = chance.choice(rows)
    place = chance.randrange(len(columns))
    column, held = columns[place], row[place + 1]
    other = chance.choice(rows)
    new: list[Any] = [
        chance.choice(_ODD),
        other[place + 1],
        other[chance.randrange(len(columns)) + 1],
        damaged(held, chance),
        damaged(held, chance),
    ]
    try:
        match chance.randrange(8):
            case 0:
                db.execute(f"DELETE FROM {table} WHERE rowid=?", [row[0]])
            case 1 if "parent_checkpoint_id" in columns:
                ids = "parent_checkpoint_id=?"
                child = other[columns.index("checkpoint_id") + 1]
                db.execute(f"UPDATE {table} SET {ids} WHERE rowid=?", [child, row[0]])
            case 2:
                marks = ", ".join("?" * len(columns))
                copy = [*other[1:]]
                copy[place] = chance.choice(new)
                db.execute(f"INSERT INTO {table} VALUES ({marks})", copy)
            case _:
                value = chance.choice(new)
                db.execute(f"UPDATE {table} SET {column}=? WHERE rowid=?", [value, row[0]])
    except (sqlite3.Error, OverflowError):  # a key of the table, or an integer that it cannot hold
        return


def damaged(held: Any, chance: random.Random) -> Any:
    """Return a value that differs a little from a stored one."""
    if isinstance(held, str):
        at = chance.randint(0, len(held))
        new = chance.choice(["\x1b", "\x00", "\u202e", "9", "-", _LONG, ""])
        return held[:at] + new + held[at + 1 :]
    if not isinstance(held, bytes):
        return chance.choice(_ODD)
    if chance.random() < 0.6:
        try:
            return _damaged_value(held, chance)
        except (ValueError, TypeError):
            pass
    return flipped(held, chance)


def _damaged_value(data: bytes, chance: random.Random) -> bytes:
    """Replace, remove or move a part of a msgpack or JSON value."""
    is_json = data[:1] in b"{["
    value = json.loads(data) if is_json else unpackb(data, ext_hook=Ext, option=OPT_NON_STR_KEYS)
    for _ in range(chance.randint(1, 3)):
        value = _replaced(value, chance)
    if is_json:
        return json.dumps(value, default=lambda _: "other").encode()
    return packb(value, option=OPT_NON_STR_KEYS | OPT_PASSTHROUGH_BIG_INT, default=lambda _: None)


def _replaced(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict | list) and value and chance.random() < 0.85:
        key = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
        match chance.randrange(6):
            case 0:
                del value[key]
            case 1 if isinstance(value, dict):
                value[chance.choice(["", "\x1b[1m", "id", "v", "lc", "type", 7])] = value.pop(key)
            case _:
                value[key] = _replaced(value[key], chance)
        return value
    return chance.choice(_INNER)


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Change some bytes, cut off the end, or repeat a part."""
    if not data:
        return b"\x00"
    changed = bytearray(data)
    match chance.randrange(4):
        case 0:
            return data[: chance.randrange(len(data))]
        case 1:
            at = chance.randrange(len(data))
            again = data[at : at + chance.randrange(64)] * chance.randrange(4)
            return data[:at] + again + data[at:]
        case _:
            for _ in range(chance.randint(1, 8)):
                new = chance.choice([0, 1, 0x7F, 0x80, 0xC1, 0xFF, chance.randrange(256)])
                changed[chance.randrange(len(changed))] = new
    return bytes(changed)


def damage_file(path: Path, chance: random.Random) -> None:
    """Change bytes of the file itself, as a failing disk or an attacker would."""
    data = flipped(path.read_bytes(), chance)
    if chance.random() < 0.3:
        head = bytearray(data[:4096])
        if head:
            head[chance.randrange(len(head))] = chance.randrange(256)
        data = bytes(head) + data[4096:]
    path.write_bytes(data)


def damaged_store(folder: Path, seed: int) -> tuple[Path, list[str]]:
    """Make the damaged store of a seed; returns its path and the ids of its threads."""
    chance = random.Random(seed)
    path = folder / f"store{seed}.db"
    shutil.copyfile(SAMPLE, path)
    damage_rows(path, chance)
    threads: list[str] = []
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=DELETE")
        for (one,) in db.execute("SELECT DISTINCT thread_id FROM checkpoints"):
            text = os.fsdecode(one) if isinstance(one, bytes) else str(one)
            if text and "\0" not in text and len(text) < _LONGEST_ARGUMENT:
                threads.append(text)
    if chance.random() < 0.3:
        damage_file(path, chance)
    return path, threads or ["none"]


_LONGEST_ARGUMENT = 120_000


def words_for(seed: int, threads: list[str], count: int) -> Iterator[list[str]]:
    """Yield `count` command lines, other ones for each seed, or all if it is 0; then those that
    change the store.
    """
    chance = random.Random(seed)
    reading = [on(chance.choice(threads), words) for words in (*EVERY_ROW, *ON_THREAD)] + WHOLE
    yield from chance.sample(reading, count) if count else reading
    for words in CHANGING if count == 0 or chance.random() < 0.3 else []:
        needs_none = "--" in words or words[0] in _NO_THREAD or words[1] in _NO_THREAD
        yield words if needs_none else on(chance.choice(threads), words)


def fault_of(store: Path, words: list[str]) -> str | None:
    """Run a command line; return what is wrong with its end, its exit code or its output."""
    answer = ckpt("-s", store, *words)
    if any(one in answer.err for one in ("no such option", "argument", "Usage", "internal error")):
        return answer.err
    try:
        check(answer)
        if "json" in words and answer.code in {0, 1} and answer.out:
            json.loads(answer.out)
    except (AssertionError, ValueError) as error:
        return f"{error}: {answer.err}"
    return None


def main(folder: Path, seed: int, count: int, commands: int) -> int:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faults = 0
    os.chdir(folder)
    for one in range(seed, seed + count):
        store, threads = damaged_store(folder, one)
        for words in words_for(one, threads, commands):
            if fault := fault_of(store, words):
                faults += 1
                print(f"seed {one}: {[word[:80] for word in words]}: {fault[:2000]}", flush=True)
        for path in folder.glob(f"store{one}.db*"):
            path.unlink()
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
