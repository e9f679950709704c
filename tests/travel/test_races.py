"""Others write at the same time: what `ckpt` adds is whole or not there, and never over theirs."""

from __future__ import annotations

import os
import pty
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from ckpt_backends.errors import StoreChanged
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.postgres.database import lock_number
from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import config_of, state, stored_ids
from ckpt_backends.url import parse_url
from ckpt_cli.core.forking import CheckpointPlan
from ckpt_cli.plans.fork import RollbackOptions
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.command import ckpt, first_now, later
from tests.travel.conftest import Filled

COMMAND = [sys.executable, "-m", "ckpt_cli"]
_SECONDS = 30.0


@pytest.fixture(params=first_now(["sqlite_filled", "postgres_filled", "mysql_filled"]))
def filled(request: pytest.FixtureRequest) -> Iterator[Filled]:
    found: Filled = request.getfixturevalue(request.param)
    found.thread("subgraph-stateful")
    found.harness.copy("subgraph-stateful", "ours")
    yield found
    found.harness.forget("ours")


def plan(filled: Filled) -> CheckpointPlan:
    first = stored_ids(filled.saver, "ours")[-1]
    with open_store(filled.harness.url) as store:
        reader = ThreadReader(store, "ours")
        return plan_rollback(reader, store, first, datetime.now(UTC), RollbackOptions())


def another_turn(filled: Filled) -> None:
    thread = filled.thread("subgraph-stateful")
    thread.graph(filled.saver).invoke(thread.first_input, config_of("ours"))


def test_a_plan_is_carried_out_once(filled: Filled) -> None:
    made = plan(filled)
    with open_writable(parse_url(filled.harness.url)) as store:
        store.apply(made.change)
        after = filled.harness.rows("ours")
        with pytest.raises(StoreChanged):
            store.apply(made.change)
    assert filled.harness.rows("ours") == after


def test_an_agent_that_goes_on_after_the_plan_wins(filled: Filled) -> None:
    made = plan(filled)
    another_turn(filled)
    before = filled.harness.rows("ours")
    with open_writable(parse_url(filled.harness.url)) as store, pytest.raises(StoreChanged):
        store.apply(made.change)
    assert filled.harness.rows("ours") == before


def answered(
    filled: Filled, words: list[str], answer: bytes, meanwhile: Any = None
) -> tuple[int, str]:
    """A command on a terminal, with something that happens while it asks."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "-s", filled.harness.url, *words],
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
    )
    os.close(theirs)
    said = b""
    end = time.monotonic() + _SECONDS
    while b"[y/N]" not in said and time.monotonic() < end:
        said += os.read(ours, 1000)
    if meanwhile is not None:
        meanwhile()
    os.write(ours, answer)
    assert process.stdout is not None
    process.stdout.read()
    code = process.wait(_SECONDS)
    try:
        while part := os.read(ours, 1000):
            said += part
    except OSError:  # the terminal is gone with its process
        pass
    os.close(ours)
    return code, said.decode()


def test_an_agent_that_goes_on_while_the_user_thinks_wins(filled: Filled) -> None:
    words = ["rollback", "ours", "--steps", "2"]
    code, said = answered(filled, words, b"y\n", lambda: another_turn(filled))
    assert code == 6, said
    assert "changed meanwhile, so nothing was written" in said
    forks = list(filled.saver.list(config_of("ours"), filter={"forked_by": "ckpt"}))
    assert forks == []


@pytest.mark.parametrize(
    ("answer", "code", "says"), [(b"n\n", 5, "not confirmed"), (b"y\n", 0, "")]
)
def test_the_user_decides(sqlite_filled: Filled, answer: bytes, code: int, says: str) -> None:
    sqlite_filled.thread("linear")
    sqlite_filled.harness.copy("linear", "ours")
    try:
        before = sqlite_filled.harness.rows("ours")
        found, said = answered(sqlite_filled, ["rollback", "ours", "step:1"], answer)
        assert (found, says in said) == (code, True)
        assert (sqlite_filled.harness.rows("ours") == before) == (code != 0)
    finally:
        sqlite_filled.harness.forget("ours")


def test_two_rollbacks_at_once_are_one_and_a_refusal(filled: Filled) -> None:
    """Or two, where the second one looked when the first was done."""
    words = [*COMMAND, "-s", filled.harness.url, "rollback", "ours", "step:1", "--yes"]
    before = filled.harness.rows("ours")["checkpoints"]
    both = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
    ]
    for process in both:
        process.communicate(timeout=_SECONDS)
    codes = sorted(process.returncode for process in both)
    added = len(filled.harness.rows("ours")["checkpoints"]) - len(before)
    assert codes in ([0, 0], [0, 6])
    assert added == codes.count(0) * 2


@pytest.mark.parametrize("times", [*later(2), pytest.param(20, marks=pytest.mark.slow)])
def test_a_killed_rollback_is_whole_or_not_there(filled: Filled, times: int) -> None:
    graph = filled.thread("subgraph-stateful").graph(filled.saver)
    words = [*COMMAND, "-s", filled.harness.url, "rollback", "ours", "step:1", "--yes"]
    started = time.monotonic()
    subprocess.run(words, check=True, capture_output=True)
    usual = time.monotonic() - started
    target = state(graph, config_of("ours"))
    seed = random.Random(4)
    for _ in range(times):
        before = filled.harness.rows("ours")
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(usual * seed.uniform(0.5, 1.05))
        process.kill()
        process.communicate()
        after = filled.harness.rows("ours")
        if after != before:
            # The root and the namespace of the subgraph.
            assert len(after["checkpoints"]) == len(before["checkpoints"]) + 2
            assert all(row in after["checkpoints"] for row in before["checkpoints"])
        assert state(graph, config_of("ours")) == target


@pytest.mark.slow
def test_a_locked_file_is_waited_for_and_then_left_alone(sqlite_filled: Filled) -> None:
    place = sqlite_filled.harness
    sqlite_filled.thread("linear")
    place.copy("linear", "ours")
    try:
        before = place.rows("ours")
        with closing(sqlite3.connect(place.url, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            answer = ckpt("-s", place.url, "rollback", "ours", "step:1", "--yes")
        assert answer.code == 4
        assert "another process is writing to it" in answer.err
        assert place.rows("ours") == before
    finally:
        place.forget("ours")


def test_a_change_of_the_same_thread_is_waited_for(postgres_filled: Filled) -> None:
    place = postgres_filled.harness
    postgres_filled.thread("linear")
    place.copy("linear", "ours")
    place.copy("linear", "other")
    url = f"{place.url}?options=-clock_timeout%3D300"
    try:
        with psycopg.connect(place.url) as other:
            other.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [lock_number("ours")])
            before = place.rows("ours")
            answer = ckpt("-s", url, "rollback", "ours", "step:1", "--yes")
            assert answer.code == 4
            assert "another session holds a lock" in answer.err
            assert place.rows("ours") == before
            assert ckpt("-s", url, "rollback", "other", "step:1", "--yes").code == 0
    finally:
        place.forget("ours")
        place.forget("other")
