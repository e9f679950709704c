"""Encrypted threads are rolled back, forked and mended with their key, as LangGraph would."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ckpt_backends.testing.encrypted import KEY, key_of, types_of
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

Places: TypeAlias = Callable[[type[Harness]], Harness]
KINDS = [
    *(SqliteHarness, MongoHarness),
    *later(PostgresHarness, MySQLHarness, ValkeyHarness, DynamoDbHarness),
]
"""Some savers encrypt more than the values of channels: metadata, documents, whole texts."""
CONFIG: Any = {"configurable": {"thread_id": "trip"}}


def fill(harness: Harness) -> Any:
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
def test_a_rolled_back_thread_goes_on_as_after_time_travel(
    kind: type[Harness], places: Places, old_key: Path
) -> None:
    harness = places(kind)
    with key_of(harness, KEY):
        graph = fill(harness)
        words = ("-s", harness.url, "--aes-key-file", old_key)
        done = ckpt(*words, "rollback", "trip", "~1", "--yes", "--reason", "why", "-o", "json")
        assert done.code == 0, done.err
        state = graph.get_state(CONFIG)
        assert state.values == {"items": ["in", "first 1"]}
        assert state.next == ("second",)
        assert state.metadata["source"] == "fork"
        assert state.metadata["reason"] == "why"
        assert state.config["configurable"]["checkpoint_id"] == done.json["checkpoint_id"]
        assert all_encrypted(harness)
        undone = ckpt(*words, "undo", "trip", "--yes")
        assert undone.code == 0, undone.err
        assert graph.get_state(CONFIG).values == {"items": ["in", "first 1", "second"]}
        assert ckpt(*words, "rollback", "trip", "~1", "--yes").code == 0
        with quiet():
            assert graph.invoke(None, CONFIG) == {"items": ["in", "first 1", "second"]}
        assert ckpt(*words, "doctor", "trip", "--deep", "-o", "json").json["findings"] == []


@pytest.mark.in_ci("Sqlite", "Postgres")
@pytest.mark.parametrize("kind", KINDS)
def test_an_edited_fork_is_encrypted(kind: type[Harness], places: Places, old_key: Path) -> None:
    harness = places(kind)
    with key_of(harness, KEY):
        graph = fill(harness)
        words = ("-s", harness.url, "--aes-key-file", old_key, "fork", "trip", "~1", "--yes")
        for edit, items in (
            ("--set", ["in", "first 1", "new", "second"]),
            ("--append", ["in", "first 1", "new", "second"]),
            ("--replace", ["new", "second"]),
        ):
            value = '"new"' if edit == "--append" else '["new"]'
            done = ckpt(*words, edit, f"items={value}", "-o", "json")
            assert done.code == 0, done.err
            assert all_encrypted(harness)
            with quiet():
                assert graph.invoke(None, CONFIG) == {"items": items}
            target = done.json["forked_from"]
            again = ckpt(*words[:4], "rollback", "trip", target, "--yes")
            assert again.code == 0, again.err
            with quiet():
                graph.invoke(None, CONFIG)


def test_without_the_key_nothing_is_edited(places: Places, new_key: Path) -> None:
    """With another key, new values would not open with the key of the others."""
    harness = places(PostgresHarness)
    with key_of(harness, KEY):
        graph = fill(harness)
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
        graph = fill(harness)
        refused = ckpt("-s", harness.url, *words, "rollback", "trip", "~1", "--yes")
        assert refused.code == 4
        assert "ckpt rekey THREAD --decrypt" in refused.err
        assert ckpt("-s", harness.url, *words, "rekey", "trip", "--decrypt", "--yes").code == 0
        assert ckpt("-s", harness.url, "rollback", "trip", "~1", "--yes").code == 0
        assert graph.get_state(CONFIG).next == ("second",)
