"""Pruning inside threads: what the official library reads of what stays is what it read before."""

from __future__ import annotations

import pytest

from tests.retention.trials import POLICIES, check_pruned
from tests.travel.conftest import FEW, NAMES, PLAIN, SAMPLE, Filled, tiered
from tests.travel.test_generated import GRAPHS, generate


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        pytest.param(name, policy, marks=() if at % 4 == which else pytest.mark.engines)
        for at, name in enumerate(SAMPLE)
        for which, policy in enumerate(POLICIES)
    ],
)
def test_each_kind_of_thread(sqlite_filled: Filled, name: str, policy: str) -> None:
    check_pruned(sqlite_filled, sqlite_filled.thread(name), POLICIES[policy])


LATER = [pytest.param(name, marks=pytest.mark.slow) for name in SAMPLE if name not in FEW]
"""Kinds of threads whose pruning PostgreSQL proves for the other servers."""


@pytest.mark.parametrize("name", tiered(SAMPLE, FEW))
def test_each_kind_of_thread_on_postgres(postgres_filled: Filled, name: str) -> None:
    check_pruned(postgres_filled, postgres_filled.thread(name), POLICIES["last-2-tips"])


@pytest.mark.parametrize("name", [*tiered(FEW, FEW[3:]), *LATER])
def test_each_kind_of_thread_on_mysql(mysql_filled: Filled, name: str) -> None:
    check_pruned(mysql_filled, mysql_filled.thread(name), POLICIES["last-2-tips"])


@pytest.mark.parametrize("name", [*tiered(FEW, FEW[3:4]), *LATER])
def test_each_kind_of_thread_on_mongodb(mongodb_filled: Filled, name: str) -> None:
    check_pruned(mongodb_filled, mongodb_filled.thread(name), POLICIES["last-2-tips"])


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        *(pytest.param("redis", *one.values, marks=one.marks) for one in tiered(SAMPLE, FEW[3:])),
        *(
            pytest.param(
                layout, name, marks=pytest.mark.engines if name in FEW else pytest.mark.slow
            )
            for layout in ("plain_redis", "plain_redis_saver")
            for name in SAMPLE
        ),
    ],
)
def test_each_kind_of_thread_on_redis(
    request: pytest.FixtureRequest, layout: str, name: str
) -> None:
    filled: Filled = request.getfixturevalue(f"{layout}_filled")
    check_pruned(filled, filled.thread(name), POLICIES["last-2-tips"])


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in PLAIN])
def test_every_thread(sqlite_filled: Filled, name: str, policy: str) -> None:
    check_pruned(sqlite_filled, sqlite_filled.thread(name), POLICIES[policy])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["fanout_asking", "delta_rarely"])
def test_threads_of_random_calls(sqlite_filled: Filled, name: str, policy: str) -> None:
    _check_generated(sqlite_filled, name, 1, policy)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
@pytest.mark.parametrize("name", GRAPHS)
def test_many_threads_of_random_calls(sqlite_filled: Filled, name: str, seed: int) -> None:
    _check_generated(sqlite_filled, name, seed, list(POLICIES)[seed % len(POLICIES)])


def _check_generated(filled: Filled, name: str, seed: int, policy: str) -> None:
    thread = generate(filled, name, seed)
    try:
        check_pruned(filled, thread, POLICIES[policy])
    finally:
        filled.harness.forget(thread.thread_id)
