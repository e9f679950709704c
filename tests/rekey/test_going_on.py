"""Encrypted threads are copied, rolled back and edited; LangGraph goes on with them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ckpt_backends.testing.encrypted import KEY, NEW, key_of, types_of
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.library import graph_of
from tests.kit.command import ckpt, later
from tests.kit.harness.dynamodb import DynamoDbHarness
from tests.kit.harness.langgraph_dev import DevHarness
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.harness.mysql import MySQLHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.harness.valkey import ValkeyHarness
from tests.kit.official import Source, difference, fill, what_is_read
from tests.kit.pairs import count_alike

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
    done = ckpt("-s", source, "copy", *words, *more)
    assert done.code == 0, done.err
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
    done = ckpt("-s", source.harness.url, *keys, *words, "--jobs", "2", "-o", "json")
    assert done.code == 0, done.err
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


def test_without_the_key_a_thread_is_skipped_if_its_form_changes(
    source: Source, places: Places
) -> None:
    same, other = places(SqliteHarness), places(PostgresHarness)
    copied(source.harness.url, same)
    words = ("-s", source.harness.url, "copy", "--all", "--to", other.url, "--create", "--yes")
    refused = ckpt(*words)
    assert refused.code == 4
    assert "set LANGGRAPH_AES_KEY or add --aes-key-file FILE" in refused.err
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


def all_encrypted(harness: Harness) -> bool:
    """Return whether the thread has no plain body, write or value."""
    found = types_of(harness.url, "trip") - {"empty"}
    # Bodies of SQL savers with a table of values are JSON.
    return all(tag.endswith("+aes") for tag in found - {"json"})


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
        undone = ckpt(*words, "undo", "trip", "--yes")
        assert undone.code == 0, undone.err
        assert graph.get_state(CONFIG).values == {"items": ["in", "first 1", "second"]}
        for edit, value, items in (
            ("--append", '"new"', ["in", "first 1", "new", "second"]),
            ("--replace", '["new"]', ["new", "second"]),
        ):
            edited = ("fork", "trip", "~1", "--yes", edit, f"items={value}", "-o", "json")
            done = ckpt(*words, *edited)
            assert done.code == 0, done.err
            assert all_encrypted(harness)
            with quiet():
                assert graph.invoke(None, CONFIG) == {"items": items}
            again = ckpt(*words, "rollback", "trip", done.json["forked_from"], "--yes")
            assert again.code == 0, again.err
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
            answer = ckpt(*words, *more)
            assert answer.code == 4
            assert "encrypted" in answer.err
        assert harness.fingerprint() == before
        assert ckpt("-s", harness.url, "rollback", "trip", "~1", "--yes").code == 0
        assert graph.get_state(CONFIG).next == ("second",)


def test_encrypted_bodies_that_name_their_values(places: Places, old_key: Path) -> None:
    """In the files of `langgraph dev`, values are found by the versions in the body."""
    harness = places(DevHarness)
    words: tuple[str | Path, ...] = ("--aes-key-file", old_key)
    with key_of(harness, KEY):
        graph = run(harness)
        refused = ckpt("-s", harness.url, *words, "rollback", "trip", "~1", "--yes")
        assert refused.code == 4
        assert "ckpt rekey THREAD --decrypt" in refused.err
        assert ckpt("-s", harness.url, *words, "rekey", "trip", "--decrypt", "--yes").code == 0
        assert ckpt("-s", harness.url, "rollback", "trip", "~1", "--yes").code == 0
        assert graph.get_state(CONFIG).next == ("second",)
