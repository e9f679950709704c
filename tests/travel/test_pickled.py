"""Checkpoints that are one pickle, as `pickle_fallback` stores them, are gone back to as others."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import ScenarioStore, drive, stored_ids
from ckpt_backends.testing.scenarios import channel_graphs
from ckpt_backends.testing.scenarios.running import Scenario
from ckpt_backends.testing.scenarios.values import Unserializable, keep_each
from ckpt_backends.testing.trials import check_clone, check_rollback
from tests.kit.command import ckpt
from tests.kit.harness.sqlite import SqliteHarness

NAME = "pickled"


class PickledSqlite(SqliteHarness):
    """A SQLite file whose saver pickles what nothing else can store."""

    @cached_property
    def kept_saver(self) -> Any:
        return SqliteSaver(self.connection, serde=JsonPlusSerializer(pickle_fallback=True))


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[ScenarioStore]:
    with PickledSqlite(tmp_path) as harness:
        yield ScenarioStore(harness)


def fill(filled: ScenarioStore) -> list[str]:
    """Two turns of a graph whose state only a pickle can hold; gives the ids, newest first."""
    values = [Unserializable("by hand", [1, 2]), {"complex": 1 + 2j}]
    scenario = Scenario(NAME, NAME, channel_graphs.holder, keep_each(values))
    filled.known[NAME] = drive(filled.saver, scenario)
    return stored_ids(filled.saver, NAME)


def test_every_checkpoint_is_gone_back_to_and_resumed(filled: ScenarioStore) -> None:
    ids = fill(filled)
    with open_store(filled.harness.url) as store:
        kinds = [one.body.type for one in store.checkpoints(NAME, body=True) if one.body]
    assert kinds.count("pickle") == len(ids) == 6
    for number, target in enumerate(ids):
        check_rollback(filled, filled.known[NAME], target)
        check_clone(filled, filled.known[NAME], target, is_head=number == 0)


def test_edits_are_refused_and_nothing_is_written(filled: ScenarioStore) -> None:
    fill(filled)
    before = filled.harness.rows(NAME)
    for edit in (["--set", "seen=[1]"], ["--as-node", "keep"]):
        answer = ckpt("-s", filled.harness.url, "fork", NAME, "head", *edit, "--yes")
        assert (answer.code, answer.out, "is pickled" in answer.err) == (4, "", True)
        assert "hint: " in answer.err
    assert filled.harness.rows(NAME) == before
