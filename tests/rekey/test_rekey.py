"""`ckpt rekey`, and how encrypted threads are copied and edited; LangGraph goes on with them."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ckpt_backends.rows import RowEdit
from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.encrypted import KEY, NEW, key_of, types_of
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_backends.testing.library import config_of_thread, graph_of
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, copy_store, later
from tests.kit.harness.dynamodb import DynamoDbHarness
from tests.kit.harness.langgraph_dev import DevHarness
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.harness.mysql import MySQLHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.harness.valkey import ValkeyHarness
from tests.kit.official import Source, difference, fill, what_is_read
from tests.kit.opening import empty_store
from tests.kit.pairs import count_alike
from tests.kit.rows import change, rows_of


@pytest.fixture
def places(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[type[Harness]], Harness]]:
    """Return a function that opens an empty store of a layout, until the test ends."""
    with ExitStack() as stack:

        def place(kind: type[Harness]) -> Harness:
            return stack.enter_context(empty_store(kind, request, tmp_path_factory.mktemp("store")))

        yield place


@pytest.fixture
def old_key(tmp_path: Path) -> Path:
    """The file of the key that the stores have."""
    return _file(tmp_path / "old.key", KEY)


@pytest.fixture
def new_key(tmp_path: Path) -> Path:
    """The file of another key."""
    return _file(tmp_path / "new.key", NEW)


def _file(path: Path, key: bytes) -> Path:
    path.write_bytes(key)
    path.chmod(0o600)
    return path


THREADS = {"aes-after-plain", "aes-pickle", "aes-error", "aes-types", "aes-asking", "aes-chat"}
PLAIN = {"pickle-unused", "pickle-objects"}
MANY = [f"t{number}" for number in range(6)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A file with encrypted and plain threads, and with one that is encrypted from its middle."""
    return copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)


def test_some_threads(store: Path, old_key: Path, new_key: Path) -> None:
    words = ("-s", store, "--aes-key-file", old_key, "rekey", "aes-chat", "aes-error")
    assert ckpt(*words, "--new-key-file", new_key, "--yes", "-o", "json").json == {
        **{"store": str(store), "dry_run": False, "threads": 2, "values": 32, "rekeyed": 32},
        **{"done_before": 0, "skipped": [], "verified": True},
    }
    assert "answer" in ckpt("-s", store, "--aes-key-file", new_key, "messages", "aes-chat").out
    ckpt("-s", store, "--aes-key-file", old_key, "messages", "aes-chat", code=4)
    ckpt("-s", store, "--aes-key-file", old_key, "show", "aes-types", code=0)


def test_plain_values_stay_plain_unless_told(store: Path, old_key: Path, new_key: Path) -> None:
    words = ("-s", store, "--aes-key-file", old_key, "rekey", "--all", "--yes", "-o", "json")
    assert ckpt(*words, "--new-key-file", new_key).json["values"] == 138
    for name in PLAIN:
        assert not any(tag.endswith("+aes") for tag in types_of(str(store), name))
    assert {"msgpack", "msgpack+aes"} < types_of(str(store), "aes-after-plain")
    plain = change(store, "SELECT checkpoint FROM checkpoints WHERE type NOT LIKE '%+aes'")
    assert all(one[-60:] in store.read_bytes() for (one,) in plain)
    done = ckpt(*words, "--new-key-file", new_key, "--encrypt").json
    assert (done["rekeyed"], done["done_before"]) == (48, 90)
    for name in THREADS | PLAIN:
        assert all(tag.endswith("+aes") for tag in types_of(str(store), name))
    # Nothing of the plain values stays in the file.
    left = b"".join(one.read_bytes() for one in store.parent.glob(f"{store.name}*"))
    assert [one for (one,) in plain if one[-60:] in left] == []


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
    ckpt(*words, "aes-pickle", "--new-key-file", other, "--yes", code=0)
    before = rows_of(store)
    answer = ckpt(*words, "--all", "--new-key-file", new_key, "--yes", code=5, says="'aes-pickle'")
    assert "neither key fits" in answer.err
    assert rows_of(store) == before


@cases("most", 8 << 20, 10)  # bytes of a thread that is not streamed
def test_a_value_that_no_key_opens_stops_the_run_before_its_thread_is_written(
    store: Path, old_key: Path, new_key: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt_cli.apply.copy._IN_MEMORY", most)
    last = "SELECT max(rowid) FROM checkpoints WHERE thread_id = 'aes-chat'"
    change(store, f"UPDATE checkpoints SET checkpoint = zeroblob(100) WHERE rowid = ({last})")
    words = ("-s", store, "--aes-key-file", old_key, "rekey", "--new-key-file", new_key, "--yes")
    before = rows_of(store)
    ckpt(*words, "aes-chat", code=5)
    assert rows_of(store) == before
    stopped = ckpt(*words, "aes-error", "aes-chat", "aes-types", "-o", "json", code=7)
    assert json.loads(stopped.out)["threads"] == 1
    assert "2 threads left" in stopped.err
    for name, key in (("aes-error", new_key), ("aes-types", old_key)):
        ckpt("-s", store, "--aes-key-file", key, "show", name, code=0)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_thread_in_which_an_agent_stores_a_value_meanwhile_is_not_called_done(
    store: Path, old_key: Path, new_key: Path, is_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(edits: Iterator[RowEdit]) -> tuple[list[RowEdit], bool]:
        found = list(edits)
        if not is_new:  # one that was rekeyed is stored with the old key again
            return found[1:], True
        cells = "thread_id, checkpoint_ns, checkpoint_id, idx, channel, type, value"
        late = f"SELECT 'late', {cells} FROM writes WHERE thread_id = 'aes-chat' LIMIT 1"
        change(store, f"INSERT INTO writes (task_id, {cells}) {late}")
        return found, True

    monkeypatch.setattr("ckpt_cli.apply.copy._small", slowly)
    words = ("-s", store, "--aes-key-file", old_key, "rekey", "aes-chat", "--yes")
    ckpt(*words, "--new-key-file", new_key, code=6, says="it changed meanwhile")


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


Places: TypeAlias = Callable[[type[Harness]], Harness]
SCENARIOS = frozenset({"chat", "interrupt-parallel", "delta-rarely"})
TARGETS = [
    SqliteHarness,
    *(
        pytest.param(kind, marks=pytest.mark.engines)
        for kind in (PostgresHarness, MongoHarness, DevHarness)
    ),
    pytest.param(DynamoDbHarness, marks=pytest.mark.nightly),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """A file with encrypted threads."""
    with SqliteHarness(tmp_path_factory.mktemp("source")) as harness, key_of(harness, KEY):
        yield fill(harness, SCENARIOS)


def copied(source: str, target: Harness, *more: str | Path) -> Any:
    """Copy all threads; return the answer."""
    words = ("--all", "--to", target.url, "--create", "--yes", "-o", "json")
    done = ckpt("-s", source, "copy", *words, *more, code=0)
    assert done.json["verified"]
    assert done.json["threads"] == len(SCENARIOS)
    return done.json


def fails(harness: Harness, name: str, key: bytes) -> bool:
    """Return whether the library cannot read a thread with a key."""
    try:
        with key_of(harness, key):
            what_is_read(harness, name)
    except Exception:
        return True
    return False


def check(target: Harness, source: Source, key: bytes | None, *, exact: bool = True) -> None:
    """Check that the library reads all threads with a key.

    Unless `exact`, only the numbers of versions count.
    """
    with key_of(target, key):
        for name in SCENARIOS:
            read = what_is_read(target, name)
            assert difference(read, source.read[name], name, exact=exact) == ""


@pytest.mark.in_ci("Postgres")
@pytest.mark.parametrize("target", TARGETS)
def test_a_copy_has_another_key(
    source: Source, places: Places, old_key: Path, new_key: Path, target: type[Harness]
) -> None:
    harness = places(target)
    keys = ("--aes-key-file", old_key)
    words = ("copy", "--all", "--to", harness.url, "--new-key-file", new_key, "--create", "--yes")
    done = ckpt("-s", source.harness.url, *keys, *words, "--jobs", "2", "-o", "json", code=0)
    again = ckpt("-s", source.harness.url, *keys, *words, "-o", "json").json
    assert (again["added"], again["present"]) == (0, done.json["added"])
    for name in SCENARIOS:
        assert fails(harness, name, KEY)
    check(harness, source, NEW, exact=count_alike(source.harness.name, target.name))


@pytest.mark.in_ci("Sqlite")
@pytest.mark.parametrize("target", TARGETS)
def test_a_copy_is_decrypted_and_its_copy_encrypted(
    source: Source, places: Places, old_key: Path, target: type[Harness]
) -> None:
    plain, sealed = places(target), places(SqliteHarness)
    copied(source.harness.url, plain, "--aes-key-file", old_key, "--decrypt")
    for name in SCENARIOS:
        assert not any(tag.endswith("+aes") for tag in types_of(plain.url, name))
    copied(plain.url, sealed, "--aes-key-file", old_key, "--encrypt")
    for name in SCENARIOS:
        assert all(tag.endswith("+aes") for tag in types_of(sealed.url, name))
    exact = count_alike(source.harness.name, target.name)
    check(sealed, source, KEY, exact=exact)
    check(plain, source, None, exact=exact)


def test_without_the_key_a_thread_is_left_if_forms_change(source: Source, places: Places) -> None:
    same, other = places(SqliteHarness), places(PostgresHarness)
    copied(source.harness.url, same)
    words = ("-s", source.harness.url, "copy", "--all", "--to", other.url, "--create", "--yes")
    ckpt(*words, code=4, says="set LANGGRAPH_AES_KEY or add --aes-key-file FILE")
    check(same, source, KEY)


KINDS = [
    *(SqliteHarness, MongoHarness),
    *later(PostgresHarness, MySQLHarness, ValkeyHarness, DynamoDbHarness),
]
"""Some savers encrypt more than the values of channels: metadata, documents, whole texts."""
CONFIG: Any = {"configurable": {"thread_id": "trip"}}


def run(harness: Harness) -> Any:
    """Run a graph on an encrypted thread. Return the graph."""
    graph = graph_of(harness.kept_saver)
    with quiet():
        graph.invoke({"items": ["in"]}, CONFIG)
    return graph


@pytest.mark.in_ci("Sqlite", "Mongo", "Postgres", "Valkey", "DynamoDb")
@pytest.mark.parametrize("kind", KINDS)
def test_a_rolled_back_or_edited_thread_stays_encrypted_and_goes_on(
    kind: type[Harness], places: Places, old_key: Path
) -> None:
    harness = places(kind)
    with key_of(harness, KEY):
        graph = run(harness)
        words = ("-s", harness.url, "--aes-key-file", old_key)
        done = ckpt(*words, "rollback", "trip", "~1", "--yes", "--reason", "why", "-o", "json")
        assert done.code == 0, done.err
        state = graph.get_state(CONFIG)
        assert (state.values, state.next) == ({"items": ["in", "first 1"]}, ("second",))
        assert (state.metadata["source"], state.metadata["reason"]) == ("fork", "why")
        assert state.config["configurable"]["checkpoint_id"] == done.json["checkpoint_id"]
        ckpt(*words, "undo", "trip", "--yes", code=0)
        assert graph.get_state(CONFIG).values == {"items": ["in", "first 1", "second"]}
        for edit, value, items in (
            ("--append", '"new"', ["in", "first 1", "new", "second"]),
            ("--replace", '["new"]', ["new", "second"]),
        ):
            edited = ("fork", "trip", "~1", "--yes", edit, f"items={value}", "-o", "json")
            done = ckpt(*words, *edited, code=0)
            # Bodies of SQL savers with a table of values are JSON.
            tags = types_of(harness.url, "trip") - {"empty", "json"}
            assert all(tag.endswith("+aes") for tag in tags)
            with quiet():
                assert graph.invoke(None, CONFIG) == {"items": items}
            ckpt(*words, "rollback", "trip", done.json["forked_from"], "--yes", code=0)
            with quiet():
                assert graph.invoke(None, CONFIG) == {"items": ["in", "first 1", "second"]}
        assert ckpt(*words, "doctor", "trip", "--deep", "-o", "json").json["findings"] == []


def test_without_the_key_nothing_is_edited(places: Places, new_key: Path) -> None:
    """With another key, new values would not open with the key of the others."""
    harness = places(PostgresHarness)
    with key_of(harness, KEY):
        graph = run(harness)
        before = harness.fingerprint()
        words = ["-s", harness.url, "fork", "trip", "~1", "--set", 'items=["new"]', "--yes"]
        for more in ([], ["--aes-key-file", str(new_key)]):
            ckpt(*words, *more, code=4, says="encrypted")
        assert harness.fingerprint() == before
        ckpt("-s", harness.url, "rollback", "trip", "~1", "--yes", code=0)
        assert graph.get_state(CONFIG).next == ("second",)


def test_encrypted_bodies_that_name_their_values(places: Places, old_key: Path) -> None:
    """In the files of `langgraph dev`, values are found by the versions in the body."""
    harness = places(DevHarness)
    words: tuple[str | Path, ...] = ("--aes-key-file", old_key)
    with key_of(harness, KEY):
        graph = run(harness)
        refused = ckpt("-s", harness.url, *words, "rollback", "trip", "~1", "--yes", code=4)
        assert "ckpt rekey THREAD --decrypt" in refused.err
        ckpt("-s", harness.url, *words, "rekey", "trip", "--decrypt", "--yes", code=0)
        ckpt("-s", harness.url, "rollback", "trip", "~1", "--yes", code=0)
        assert graph.get_state(CONFIG).next == ("second",)
