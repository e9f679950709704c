"""Checkpoints that are one pickle, as `pickle_fallback` stores them, are gone back to as others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.mongodb import MongoDBSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.registry import open_store
from tests.servers import Server, mongodb_database
from tests.support import ckpt
from tests.travel.conftest import Filled
from tests.travel.official import drive, graphs, scenarios, stored_ids
from tests.travel.places.mongodb import MongoPlace
from tests.travel.places.sqlite import SqlitePlace
from tests.travel.trials import check_clone, check_rollback

NAME = "pickled"


class PickledSqlite(SqlitePlace):
    """A SQLite file whose saver pickles what nothing else can store."""

    def saver(self) -> Any:
        return SqliteSaver(self.connection, serde=JsonPlusSerializer(pickle_fallback=True))


class PickledMongo(MongoPlace):
    """The same in a MongoDB database."""

    def saver(self) -> Any:
        serde = JsonPlusSerializer(pickle_fallback=True)
        return MongoDBSaver(self.client, self.database.name, serde=serde)


@pytest.fixture(params=["sqlite", "mongodb"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Filled]:
    if request.param == "sqlite":
        place = PickledSqlite(tmp_path / "store.db")
        yield Filled(place)
        place.close()
        return
    server: Server = request.getfixturevalue("mongodb_server")
    with mongodb_database(server) as url:
        there = PickledMongo(url)
        yield Filled(there)
        there.close()


def fill(filled: Filled) -> list[str]:
    """Two turns of a graph whose state only a pickle can hold; gives the ids, newest first."""
    values = [scenarios.zoo_types.Unserializable("by hand", [1, 2]), {"complex": 1 + 2j}]
    drive_it = scenarios.keep_each(values)
    scenario = scenarios.Scenario(NAME, NAME, graphs.holder, drive_it)
    filled.known[NAME] = drive(filled.saver, scenario)
    return stored_ids(filled.saver, NAME)


def test_every_checkpoint_is_gone_back_to_and_resumed(filled: Filled) -> None:
    ids = fill(filled)
    with open_store(filled.place.url) as store:
        kinds = [one.body.type for one in store.checkpoints(NAME, body=True) if one.body]
    assert kinds.count("pickle") == len(ids) == 6
    for number, target in enumerate(ids):
        check_rollback(filled, filled.known[NAME], target)
        check_clone(filled, filled.known[NAME], target, is_head=number == 0)


def test_a_rollback_is_taken_back_byte_for_byte(filled: Filled) -> None:
    ids = fill(filled)
    before = filled.place.rows(NAME)
    made = ckpt("-s", filled.place.url, "rollback", NAME, ids[2], "--yes")
    assert made.code == 0, made.err
    assert filled.place.rows(NAME) != before
    assert ckpt("-s", filled.place.url, "undo", NAME, "--yes").code == 0
    assert filled.place.rows(NAME) == before


@pytest.mark.parametrize("option", ["--set", "--append", "--replace", "--as-node"])
def test_edits_are_refused_and_nothing_is_written(filled: Filled, option: str) -> None:
    fill(filled)
    before = filled.place.rows(NAME)
    edit = "keep" if option == "--as-node" else "seen=[1]"
    words = ["fork", NAME, "head", option, edit, "--yes"]
    answer = ckpt("-s", filled.place.url, *words)
    assert (answer.code, answer.out) == (4, "")
    assert "is pickled" in answer.err
    assert "hint: " in answer.err
    assert filled.place.rows(NAME) == before
