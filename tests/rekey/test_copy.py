"""`ckpt copy` keeps values encrypted, gives them another key, encrypts or decrypts them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ckpt_backends.testing.encrypted import KEY, NEW, key_of, types_of
from ckpt_backends.testing.harness import Harness
from tests.kit.command import ckpt
from tests.kit.differing import difference
from tests.kit.harness.dynamodb import DynamoDbHarness
from tests.kit.harness.langgraph_dev import DevHarness
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.official import Source, fill, what_follows, what_is_read
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
    """Check that the library reads all threads with a key, and goes on with them.

    Unless `exact`, only the numbers of versions count.
    """
    with key_of(target, key):
        for name in SCENARIOS:
            read = what_is_read(target, name)
            assert difference(read, source.read[name], name, exact=exact) == ""
            assert what_follows(target, name, name, source.inputs[name]) == source.resumed[name]


@pytest.mark.nightly
def test_encrypted_values_keep_their_key(source: Source, places: Places, old_key: Path) -> None:
    harness = places(PostgresHarness)
    first = copied(source.harness.url, harness, "--aes-key-file", old_key)
    again = copied(source.harness.url, harness, "--aes-key-file", old_key)
    assert (again["added"], again["present"]) == (0, first["added"])
    assert any(tag.endswith("+aes") for tag in types_of(harness.url, "chat"))
    for name in SCENARIOS:
        assert fails(harness, name, NEW)
    check(harness, source, KEY)


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
