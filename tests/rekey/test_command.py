"""`ckpt rekey`: which threads it takes, what it refuses, and what it says."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ckpt_backends.testing.encrypted import types_of
from tests.kit.cases import cases
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
        **{"store": str(store), "dry_run": False, "threads": 2, "values": 32, "rekeyed": 32},
        **{"done_before": 0, "skipped": [], "verified": True},
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


@cases(
    "words said",
    ("rekey --new-key-file new", "name the threads in one way"),
    ("rekey t --all --decrypt", "name the threads in one way"),
    ("rekey --all --new-key-file new", "no key to decrypt with"),
    ("--aes-key-file old rekey --all --decrypt --encrypt", "--encrypt"),
    ("--aes-key-file old rekey --all --new-key-file old", "same"),
    ("--aes-key-file old rekey --all --new-key-file none", "no such file"),
)
def test_options_that_do_not_fit(
    store: Path, old_key: Path, new_key: Path, words: str, said: str
) -> None:
    places = {"old": old_key, "new": new_key, "none": old_key.with_name("none")}
    answer = ckpt("-s", store, *(places.get(word, word) for word in words.split()), "--yes")
    assert (answer.code, said in answer.err) == (2, True)


def test_a_wrong_key_or_one_thread_with_another_keeps_all_from_being_written(
    store: Path, tmp_path: Path, old_key: Path, new_key: Path
) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"the key of one thread...")
    other.chmod(0o600)
    before = contents(store)
    for more in (["--new-key-file", new_key], ["--decrypt"], ["--encrypt"]):
        answer = ckpt("-s", store, "--aes-key-file", other, "rekey", "--all", *more, "--yes")
        assert (answer.code, "key" in answer.err) == (5, True)
    assert contents(store) == before
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


def test_nothing_of_the_old_values_stays_in_the_file(store: Path, old_key: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        query = "SELECT checkpoint FROM checkpoints WHERE thread_id = 'pickle-unused'"
        (plain, *_) = [row[0] for row in connection.execute(query)]
    assert plain in store.read_bytes()
    done = ckpt("-s", store, "rekey", "--all", "--encrypt", "--new-key-file", old_key, "--yes")
    assert done.code == 0, done.err
    files = store.parent.glob(store.name + "*")
    assert not any(plain[-60:] in one.read_bytes() for one in files)
