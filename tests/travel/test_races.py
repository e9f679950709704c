"""Others write at the same time: what `ckpt` adds is whole or not there, and never over theirs."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from ckpt_backends.postgres.database import lock_number
from ckpt_backends.testing.official import ScenarioStore, config_of
from tests.kit.agents.asking import on_terminal
from tests.kit.cases import cases
from tests.kit.command import ckpt, first_now

ENGINES = pytest.mark.parametrize(
    "filled", first_now(["sqlite", "postgres", "mysql"]), indirect=True
)


@pytest.fixture(autouse=True)
def _ours(filled: ScenarioStore) -> None:
    """A thread to change."""
    filled.thread("subgraph-stateful")
    filled.harness.copy("subgraph-stateful", "ours")


def another_turn(filled: ScenarioStore) -> None:
    thread = filled.thread("subgraph-stateful")
    thread.graph(filled.saver).invoke(thread.first_input, config_of("ours"))


@ENGINES
def test_an_agent_that_goes_on_while_the_user_thinks_wins(filled: ScenarioStore) -> None:
    words = ["-s", filled.harness.url, "rollback", "ours", "--steps", "2"]
    code, _, said = on_terminal(words, b"y\n", lambda: another_turn(filled))
    assert code == 6, said
    assert "changed meanwhile, so nothing was written" in said
    assert list(filled.saver.list(config_of("ours"), filter={"forked_by": "ckpt"})) == []


@cases("answer code says", (b"n\n", 5, "not confirmed"), (b"y\n", 0, ""))
def test_the_user_decides(filled: ScenarioStore, answer: bytes, code: int, says: str) -> None:
    before = filled.harness.rows("ours")
    words = ["-s", filled.harness.url, "rollback", "ours", "step:1"]
    found, _, said = on_terminal(words, answer, lambda: None)
    assert (found, says in said) == (code, True)
    assert (filled.harness.rows("ours") == before) == (code != 0)


@pytest.mark.nightly
def test_a_locked_file_is_waited_for_and_then_left_alone(filled: ScenarioStore) -> None:
    place = filled.harness
    before = place.rows("ours")
    with closing(sqlite3.connect(place.url, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = ckpt("-s", place.url, "rollback", "ours", "step:1", "--yes")
    assert (answer.code, "another process is writing to it" in answer.err) == (4, True)
    assert place.rows("ours") == before


@pytest.mark.parametrize("filled", ["postgres"], indirect=True)
def test_a_change_of_the_same_thread_is_waited_for(filled: ScenarioStore) -> None:
    place = filled.harness
    place.copy("subgraph-stateful", "other")
    url = f"{place.url}?options=-clock_timeout%3D300"
    with psycopg.connect(place.url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [lock_number("ours")])
        before = place.rows("ours")
        answer = ckpt("-s", url, "rollback", "ours", "step:1", "--yes")
        assert (answer.code, "another session holds a lock" in answer.err) == (4, True)
        assert place.rows("ours") == before
        assert ckpt("-s", url, "rollback", "other", "step:1", "--yes").code == 0
