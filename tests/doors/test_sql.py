"""The queries of docs/sql.md run, and what they print is right; results of all types."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.kit.command import ROOT, SAMPLE, ckpt, copy_store

QUERIES = re.findall(
    r"^([A-Z][^\n]*)\n\n```sql\n(.*?)```", (ROOT / "docs/sql.md").read_text("utf-8"), re.M | re.S
)
WITHOUT_ROWS = (
    "What did agents answer in the last week",
    "Which messages did people send more than once",
    "How much does long-term memory hold",
)
"""The sample store is old, nobody repeats a message in it, and it has no long-term memory."""


def test_there_are_fifteen_queries() -> None:
    assert len(QUERIES) == 15


@pytest.mark.parametrize(("question", "query"), QUERIES, ids=[one[0] for one in QUERIES])
def test_a_query_of_the_cookbook_answers(question: str, query: str, tmp_path: Path) -> None:
    found = ckpt("-s", copy_store(SAMPLE, tmp_path), "sql", query, "-o", "json", "--utc").json
    assert found or question.startswith(WITHOUT_ROWS)


def test_big_channels_are_those_of_stats() -> None:
    query = "SELECT channel, sum(bytes) AS bytes FROM writes GROUP BY channel"
    found = ckpt("-s", SAMPLE, "sql", query, "-o", "json").json
    stats = ckpt("-s", SAMPLE, "stats", "-o", "json").json["channels"]
    assert {one["channel"]: one["bytes"] for one in found} == {
        one["channel"]: one["bytes"] for one in stats if one["writes"]
    }


def test_threads_that_called_a_tool_are_found() -> None:
    query = next(query for question, query in QUERIES if "called a tool" in question)
    found = ckpt("-s", SAMPLE, "sql", query, "-o", "json").json
    assert found == [{"thread_id": "trip-to-kyoto"}]


def test_types_of_results() -> None:
    query = """
        SELECT 9007199254740993 AS big, 1.50::DECIMAL(9, 2) AS decimal, [1, NULL] AS list,
          {'a': 1, 'b': '{"c": [1]}'::JSON} AS struct, MAP {'k': 2} AS map, 'ab'::BLOB AS blob,
          'NaN'::DOUBLE AS nan, DATE '2026-01-02' AS date,
          TIMESTAMPTZ '2026-01-02 03:04:05+00' AS ts,
          INTERVAL 90 SECOND AS interval, NULL AS nothing, '"x"'::JSON AS text, 2 AS big
    """
    (found,) = ckpt("-s", SAMPLE, "sql", query, "-o", "json", "--utc").json
    assert found == {
        "big": {"$int": "9007199254740993"},
        "decimal": 1.5,
        "list": [1, None],
        "struct": {"a": 1, "b": {"c": [1]}},
        "map": {"k": 2},
        "blob": {"$bytes": "YWI="},
        "nan": {"$float": "NaN"},
        "date": "2026-01-02",
        "ts": "2026-01-02T03:04:05.000000Z",
        "interval": 90.0,
        "nothing": None,
        "text": "x",
        "big_2": 2,
    }


def test_formats_agree() -> None:
    query = "SELECT thread_id, checkpoints FROM threads ORDER BY thread_id"
    as_json = ckpt("-s", SAMPLE, "sql", query, "-o", "json").json
    lines = ckpt("-s", SAMPLE, "sql", query, "-o", "ndjson").out.splitlines()
    header, *rows = ckpt("-s", SAMPLE, "sql", query, "-o", "tsv").out.splitlines()
    assert list(map(json.loads, lines)) == as_json
    assert header == "thread_id\tcheckpoints"
    assert [row.split("\t") for row in rows] == [
        [one["thread_id"], str(one["checkpoints"])] for one in as_json
    ]


def test_days_begin_in_the_zone_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT date_trunc('day', TIMESTAMPTZ '2026-01-01 23:30:00+00')::DATE::VARCHAR AS day"
    assert ckpt("-s", SAMPLE, "sql", query, "--utc", "-o", "json").json == [{"day": "2026-01-01"}]
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert ckpt("-s", SAMPLE, "sql", query, "-o", "json").json == [{"day": "2026-01-02"}]


def test_redacted_values_are_not_shown() -> None:
    query = """
        SELECT value FROM "values" WHERE channel = 'hotel' UNION ALL SELECT content FROM messages
    """
    found = ckpt("-s", SAMPLE, "--redact", "sql", query)
    assert "Kyoto" not in found.out
    assert "ckpt.redacted" in found.out


def test_several_stores(tmp_path: Path) -> None:
    (tmp_path / "ckpt.toml").write_text(
        f'default = "prod"\n[stores.prod]\nurl = "{SAMPLE}"\n[stores.staging]\nurl = "{SAMPLE}"\n'
    )
    config = ("--config", str(tmp_path / "ckpt.toml"))
    query = """
        SELECT count(*) AS n FROM prod.threads JOIN staging.threads USING (thread_id)
        JOIN threads USING (thread_id)
    """
    found = ckpt(*config, "-s", "prod", "sql", "--attach", "staging", query, "-o", "json").json
    assert found == [{"n": 8}]
    twice = ckpt(*config, "-s", "prod", "sql", "--attach", "prod", query)
    assert (twice.code, "two stores are named 'prod'" in twice.err) == (2, True)
