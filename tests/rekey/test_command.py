"""`ckpt rekey`: which threads it takes, what it refuses, and what it says."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ckpt_backends.errors import StoreChanged
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.rows import RowEdit
from ckpt_backends.testing.encrypted import KEY, NEW, types_of
from ckpt_backends.url import parse_url
from tests.kit.command import FIXTURES, ckpt, copy_store

THREADS = {"aes-after-plain", "aes-pickle", "aes-error", "aes-types", "aes-asking", "aes-chat"}
PLAIN = {"pickle-unused", "pickle-objects"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A file with encrypted and plain threads, and with one that is encrypted from its middle."""
    return copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)


def contents(path: Path) -> list[str]:
    """Return all rows of a file."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_some_threads(store: Path, old_key: Path, new_key: Path) -> None:
    words = ("-s", store, "--aes-key-file", old_key, "rekey", "aes-chat", "aes-error")
    done = ckpt(*words, "--new-key-file", new_key, "--yes", "-o", "json")
    assert done.json == {
        "store": str(store),
        "dry_run": False,
        "threads": 2,
        "values": 32,
        "rekeyed": 32,
        "done_before": 0,
        "skipped": [],
        "verified": True,
    }
    assert "answer" in ckpt("-s", store, "--aes-key-file", new_key, "messages", "aes-chat").out
    assert ckpt("-s", store, "--aes-key-file", old_key, "messages", "aes-chat").code == 4
    assert ckpt("-s", store, "--aes-key-file", old_key, "show", "aes-types").code == 0


def test_plain_values_stay_plain_unless_told(store: Path, old_key: Path, new_key: Path) -> None:
    words = ("-s", store, "--aes-key-file", old_key, "rekey", "--all", "--yes", "-o", "json")
    assert ckpt(*words, "--new-key-file", new_key).json["values"] == 138
    for name in PLAIN:
        assert not any(tag.endswith("+aes") for tag in types_of(str(store), name))
    assert {"msgpack", "msgpack+aes"} < types_of(str(store), "aes-after-plain")
    done = ckpt(*words, "--new-key-file", new_key, "--encrypt").json
    assert (done["rekeyed"], done["done_before"]) == (48, 90)
    for name in THREADS | PLAIN:
        assert all(tag.endswith("+aes") for tag in types_of(str(store), name))


def test_a_dry_run_counts_and_writes_nothing(store: Path, old_key: Path, new_key: Path) -> None:
    before = store.read_bytes()
    words = ("-s", store, "--aes-key-file", old_key, "rekey", "--all", "--new-key-file", new_key)
    planned = ckpt(*words, "--dry-run", "-o", "json")
    assert planned.json["dry_run"]
    assert not planned.json["verified"]
    assert store.read_bytes() == before
    assert ckpt(*words).code == 5
    assert store.read_bytes() == before
    done = ckpt(*words, "--yes", "-o", "json").json
    assert {**done, "dry_run": True, "verified": False} == planned.json
    for one in (KEY, NEW):
        assert one.decode() not in planned.out + planned.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rekey", "--all"], "nothing to do"),
        (["rekey", "--new-key-file", "new"], "name the threads in one way"),
        (["rekey", "t", "--all", "--decrypt"], "name the threads in one way"),
        (["rekey", "--all", "--new-key-file", "new"], "no key to decrypt with"),
        (["rekey", "--all", "--decrypt"], "no key to decrypt with"),
        (["rekey", "--all", "--encrypt"], "no key to encrypt with"),
        (["--aes-key-file", "old", "rekey", "--all", "--decrypt", "--encrypt"], "--encrypt"),
        (["--aes-key-file", "old", "rekey", "--all", "--new-key-file", "old"], "same"),
        (["--aes-key-file", "old", "rekey", "--all", "--new-key-file", "none"], "no such file"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else None,
)
def test_options_that_do_not_fit(
    store: Path, old_key: Path, new_key: Path, words: list[str], said: str
) -> None:
    places = {"old": old_key, "new": new_key, "none": old_key.with_name("none")}
    answer = ckpt("-s", store, *(places.get(word, word) for word in words), "--yes")
    assert answer.code == 2
    assert said in answer.err


def test_a_wrong_key_is_refused_before_anything_is_written(
    store: Path, tmp_path: Path, new_key: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"a key that does not fit.")
    wrong.chmod(0o600)
    before = contents(store)
    for more in (["--new-key-file", new_key], ["--decrypt"], ["--encrypt"]):
        answer = ckpt("-s", store, "--aes-key-file", wrong, "rekey", "--all", *more, "--yes")
        assert answer.code == 5
        assert "key" in answer.err
    assert contents(store) == before


def test_one_thread_with_another_key_keeps_all_from_being_written(
    store: Path, tmp_path: Path, old_key: Path, new_key: Path
) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"the key of one thread...")
    other.chmod(0o600)
    words = ("-s", store, "--aes-key-file", old_key, "rekey")
    assert ckpt(*words, "aes-pickle", "--new-key-file", other, "--yes").code == 0
    before = contents(store)
    answer = ckpt(*words, "--all", "--new-key-file", new_key, "--yes")
    assert answer.code == 5
    assert "'aes-pickle'" in answer.err
    assert "neither key fits" in answer.err
    assert contents(store) == before


def test_a_value_that_no_key_opens_stops_the_run_before_its_thread_is_written(
    store: Path, old_key: Path, new_key: Path
) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(
            "UPDATE checkpoints SET checkpoint = zeroblob(100) WHERE rowid = (SELECT max(rowid)"
            " FROM checkpoints WHERE thread_id = 'aes-chat')"
        )
        connection.commit()
    words = ("-s", store, "--aes-key-file", old_key, "rekey", "--new-key-file", new_key, "--yes")
    before = contents(store)
    assert ckpt(*words, "aes-chat").code == 5
    assert contents(store) == before
    stopped = ckpt(*words, "aes-error", "aes-chat", "aes-types", "-o", "json")
    assert stopped.code == 7
    assert json.loads(stopped.out)["threads"] == 1
    assert "2 threads left" in stopped.err
    for name, key in (("aes-error", new_key), ("aes-types", old_key)):
        assert ckpt("-s", store, "--aes-key-file", key, "show", name).code == 0


def test_a_value_that_changed_meanwhile_is_not_replaced(store: Path) -> None:
    url = parse_url(str(store))
    with open_store(url) as opened:
        rows = [row for row in opened.rows("aes-chat") if row.table == "writes"]
    one, other = rows[:2]
    old = replace(one, cells={**one.cells, "value": b"as it was before"})
    mended = replace(other, cells={**other.cells, "value": b"new"})
    before = contents(store)
    with open_writable(url) as writable, pytest.raises(StoreChanged):
        writable.replace("aes-chat", [RowEdit(other, mended), RowEdit(old, one)])
    assert contents(store) == before


def test_nothing_of_the_old_values_stays_in_the_file(store: Path, old_key: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        query = "SELECT checkpoint FROM checkpoints WHERE thread_id = 'pickle-unused'"
        (plain, *_) = [row[0] for row in connection.execute(query)]
    assert plain in store.read_bytes()
    done = ckpt("-s", store, "rekey", "--all", "--encrypt", "--new-key-file", old_key, "--yes")
    assert done.code == 0, done.err
    files = store.parent.glob(store.name + "*")
    assert not any(plain[-60:] in one.read_bytes() for one in files)


def test_layouts_that_cannot_be_encrypted(tmp_path: Path, old_key: Path) -> None:
    made = tmp_path / "memory.json"
    made.write_text("{}")
    answer = ckpt("-s", made, "rekey", "--all", "--encrypt", "--new-key-file", old_key, "--yes")
    assert answer.code == 4
