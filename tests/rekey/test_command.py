"""`ckpt rekey`: which threads it takes, what it refuses and says, and what a killed run leaves."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.encrypted import KEY, NEW, key_of, types_of
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_backends.testing.library import config_of_thread, graph_of
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.rows import change, rows_of

THREADS = {"aes-after-plain", "aes-pickle", "aes-error", "aes-types", "aes-asking", "aes-chat"}
PLAIN = {"pickle-unused", "pickle-objects"}
MANY = [f"t{number}" for number in range(6)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A file with encrypted and plain threads, and with one that is encrypted from its middle."""
    return copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)


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
    plain = change(store, "SELECT checkpoint FROM checkpoints WHERE type NOT LIKE '%+aes'")
    assert all(one[:60] in store.read_bytes() for (one,) in plain)
    done = ckpt(*words, "--new-key-file", new_key, "--encrypt").json
    assert (done["rekeyed"], done["done_before"]) == (48, 90)
    for name in THREADS | PLAIN:
        assert all(tag.endswith("+aes") for tag in types_of(str(store), name))
    encrypted = change(store, "SELECT checkpoint FROM checkpoints")
    decrypt = ("-s", store, "--aes-key-file", new_key, "rekey", "--all", "--yes", "--decrypt")
    for before in (plain, encrypted):
        # Nothing of what was replaced stays in the file, not even where it is not used.
        left = b"".join(one.read_bytes() for one in store.parent.glob(f"{store.name}*"))
        assert [one for (one,) in before if one[:60] in left] == []
        assert before is encrypted or ckpt(*decrypt).code == 0


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
    before = rows_of(store)
    for more in (["--new-key-file", new_key], ["--decrypt"], ["--encrypt"]):
        answer = ckpt("-s", store, "--aes-key-file", other, "rekey", "--all", *more, "--yes")
        assert (answer.code, "key" in answer.err) == (5, True)
    assert rows_of(store) == before
    words = ("-s", store, "--aes-key-file", old_key, "rekey")
    assert ckpt(*words, "aes-pickle", "--new-key-file", other, "--yes").code == 0
    before = rows_of(store)
    answer = ckpt(*words, "--all", "--new-key-file", new_key, "--yes")
    assert answer.code == 5
    assert "'aes-pickle'" in answer.err
    assert "neither key fits" in answer.err
    assert rows_of(store) == before


def test_a_value_that_no_key_opens_stops_the_run_before_its_thread_is_written(
    store: Path, old_key: Path, new_key: Path
) -> None:
    last = "SELECT max(rowid) FROM checkpoints WHERE thread_id = 'aes-chat'"
    change(store, f"UPDATE checkpoints SET checkpoint = zeroblob(100) WHERE rowid = ({last})")
    words = ("-s", store, "--aes-key-file", old_key, "rekey", "--new-key-file", new_key, "--yes")
    before = rows_of(store)
    assert ckpt(*words, "aes-chat").code == 5
    assert rows_of(store) == before
    stopped = ckpt(*words, "aes-error", "aes-chat", "aes-types", "-o", "json")
    assert stopped.code == 7
    assert json.loads(stopped.out)["threads"] == 1
    assert "2 threads left" in stopped.err
    for name, key in (("aes-error", new_key), ("aes-types", old_key)):
        assert ckpt("-s", store, "--aes-key-file", key, "show", name).code == 0


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file with encrypted threads."""
    with SqliteHarness(tmp_path_factory.mktemp("killed")) as harness, key_of(harness, KEY), quiet():
        graph = graph_of(harness.kept_saver)
        for thread_id in MANY:
            graph.invoke({"items": [thread_id]}, config_of_thread(thread_id))
        harness.kept_saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        yield harness.path


def keys_of(harness: SqliteHarness, thread_id: str) -> set[bytes]:
    """Return the keys with which the library loads all of a thread."""
    found = set()
    for key in (KEY, NEW):
        with key_of(harness, key):
            try:
                history = list(harness.kept_saver.list(config_of_thread(thread_id)))
            except ValueError:  # The tag of the ciphertext is wrong.
                continue
            assert history[0].checkpoint["channel_values"]["items"][0] == thread_id
            found.add(key)
    return found


@pytest.mark.parametrize("at_random", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_killed_run_leaves_each_thread_with_one_key_and_the_next_finishes(
    filled: Path, tmp_path: Path, old_key: Path, new_key: Path, at_random: bool, chance: Chance
) -> None:
    path = tmp_path / "store.db"
    words: list[str | Path] = ["-s", path, "--aes-key-file", old_key, "rekey", "--all"]
    words += ["--new-key-file", new_key, "--yes"]
    shutil.copy(filled, path)
    calls = calls_of(words, since="open_writable")
    rounds = (dice.choice(calls) for dice in chance.rounds(30))
    half = calls[len(calls) // 2]
    for call in rounds if at_random else (calls[len(calls) // 4], half, calls[len(calls) * 3 // 4]):
        for one in tmp_path.glob("store.db*"):
            one.unlink()
        shutil.copy(filled, path)
        kill_at(words, call, since="open_writable")
        with SqliteHarness.at(str(path)) as harness:
            found = [keys_of(harness, one) for one in MANY]
        assert all(len(one) == 1 for one in found)
        done = found.count({NEW})
        # Half way, some threads are written, and some are not.
        assert 0 < done < len(MANY) or call != half
        again = ckpt(*words, "-o", "json").json
        assert (again["threads"], again["skipped"]) == (len(MANY), [])
        assert again["done_before"] * len(MANY) == again["values"] * done
        assert again["rekeyed"] + again["done_before"] == again["values"]
        with SqliteHarness.at(str(path)) as harness:
            assert [keys_of(harness, one) for one in MANY] == [{NEW}] * len(MANY)
