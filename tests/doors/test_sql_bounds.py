"""Conditions of a query, as its plan tells them, choose what is read."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from ckpt_cli.sql.bounds import RowBounds
from ckpt_cli.sql.planning import QueryPlanner, TableNeed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def planner() -> QueryPlanner:
    return QueryPlanner()


def need(planner: QueryPlanner, query: str) -> TableNeed:
    (found,) = planner.needs(query)
    return found


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("thread_id = 'a'", RowBounds(thread_ids=frozenset("a"))),
        ("'a' = thread_id", RowBounds(thread_ids=frozenset("a"))),
        ("thread_id IN ('a', 'b', 'c')", RowBounds(thread_ids=frozenset("abc"))),
        ("thread_id = 'a' OR thread_id = 'b'", RowBounds(thread_ids=frozenset("ab"))),
        ("thread_id = 'it''s) OR (x'", RowBounds(thread_ids=frozenset({"it's) OR (x"}))),
        ("thread_id LIKE 'user-%'", RowBounds(first_id="user-", last_id="user.")),
        (
            "thread_id = 'a' AND channel = 'b'",
            RowBounds(thread_ids=frozenset("a"), channels=frozenset("b")),
        ),
        ("thread_id = 'a' AND upper(node) = 'B'", RowBounds(thread_ids=frozenset("a"))),
        ("ts >= '2026-01-01 12:00+00'", RowBounds(since=NOON)),
        ("ts < TIMESTAMPTZ '2026-01-01 12:00+00'", RowBounds(until=NOON)),
        ("thread_id > 'm' AND thread_id <> 'q'", RowBounds(first_id="m")),
        (
            "thread_id IN ('a', 'optional: b') AND thread_id LIKE '%b'",
            RowBounds(thread_ids=frozenset({"a", "optional: b"})),
        ),
        # What is not certain bounds nothing.
        ("thread_id = 'a' OR node = 'b'", RowBounds()),
        ("NOT thread_id = 'a'", RowBounds()),
        ("thread_id <> 'a'", RowBounds()),
        ("upper(thread_id) = 'A'", RowBounds()),
        ("thread_id = node", RowBounds()),
        ("thread_id = 'a' || chr(0)", RowBounds()),
        ("idx = 3", RowBounds()),
    ],
)
def test_bounds_of_a_condition(planner: QueryPlanner, condition: str, bounds: RowBounds) -> None:
    found = need(planner, f"SELECT count(*) FROM writes WHERE {condition}").bounds
    if condition == "thread_id = 'a' || chr(0)":
        assert found in {bounds, RowBounds(thread_ids=frozenset({"a\0"}))}
    else:
        assert found == bounds


def test_columns_are_those_that_a_query_names(planner: QueryPlanner) -> None:
    assert need(planner, "SELECT count(*) FROM writes").columns == ("thread_id",)
    assert need(planner, "SELECT node, count(*) FROM writes GROUP BY 1").columns == ("node",)
    found = need(planner, "SELECT value->>'$.x' FROM writes WHERE channel = 'a' AND idx > 1")
    assert found.columns == ("idx", "channel", "value")
    assert set(need(planner, "FROM threads").columns) > {"status", "bytes"}
    joined = planner.needs("SELECT t.step FROM threads t JOIN writes USING (thread_id)")
    assert {one.table: one.columns for one in joined} == {
        "threads": ("thread_id", "step"),
        "writes": ("thread_id",),
    }


def test_two_scans_of_one_table_read_what_both_need(planner: QueryPlanner) -> None:
    query = """
        SELECT (SELECT max(idx) FROM writes WHERE thread_id = 'a'),
               (SELECT max(node) FROM writes WHERE thread_id = 'b' AND channel = 'c')
    """
    found = need(planner, query)
    assert found.columns == ("thread_id", "node", "idx", "channel")
    assert found.bounds == RowBounds(thread_ids=frozenset("ab"))
    assert need(planner, "SELECT 1 FROM writes, writes w WHERE w.thread_id = 'a'").bounds == (
        RowBounds()
    )


def test_a_long_list_of_ids_is_not_cut(planner: QueryPlanner) -> None:
    names = [f"{'long' * 30}-{n}" for n in range(500)]
    listed = ", ".join(f"'{one}'" for one in names)
    found = need(planner, f"SELECT count(*) FROM writes WHERE thread_id IN ({listed})")
    assert found.bounds.thread_ids == frozenset(names)


def test_dates_without_a_zone_mean_the_zone_of_the_run() -> None:
    with QueryPlanner(zone=ZoneInfo("America/New_York")) as one:
        assert need(one, "FROM checkpoints WHERE ts < '2026-01-01 07:00'").bounds.until == NOON
