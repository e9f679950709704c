"""Listing threads: the newest 50, and all."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench import raw, raw_keys, raw_mysql, raw_postgres, raw_redis
from tests.bench.declared import Asked, Beside, Made, Measurement, Subject, ckpt, python
from tests.bench.made_servers import on_mysql, on_postgres
from tests.bench.made_sqlite import rows
from tests.bench.make_redis import STEPS, name_of
from tests.bench.peer import peer_threads

_FIRST = ckpt("threads", "list")
_ALL = ckpt("threads", "list", "--all", "-o", "json")
_NEWEST = "SELECT thread_id, max(checkpoint_id) AS head, count(*) FROM checkpoints GROUP BY 1"
_SHOWN = 50


def _first(store: str, *beside: Beside, check: Callable[[Made, Asked], None]) -> Measurement:
    return Measurement(
        what="threads list (50)", store=store, ours=_FIRST, beside=beside, check=check
    )


def _all(store: str, *beside: Beside, check: Callable[[Made, Asked], None]) -> Measurement:
    what = "threads list --all -o json, {threads} threads"
    return Measurement(what=what, store=store, ours=_ALL, beside=beside, check=check)


def _equals(query: Callable[[str, str], list[tuple[object, ...]]]) -> Callable[[Made, Asked], None]:
    """Return a check of both listings against a query for threads, heads and numbers."""

    def check(made: Made, ask: Asked) -> None:
        expected = sorted(query(made.url, _NEWEST), key=lambda row: str(row[1]), reverse=True)
        every = ask("threads", "list", "--all")
        assert [(one["thread_id"], one["head"], one["checkpoints"]) for one in every] == expected
        first = ask("threads", "list")
        assert [(one["thread_id"], one["head"]) for one in first] == [
            row[:2] for row in expected[:_SHOWN]
        ]

    return check


def _as_all_queries(made: Made, ask: Asked) -> None:
    """Check PostgreSQL: the queries beside `ckpt` find the same threads."""
    _equals(on_postgres)(made, ask)
    expected = [row[:2] for row in on_postgres(made.url, raw_postgres.GROUP_BY)]
    for query in (raw_postgres.LOOSE_SCAN, raw_postgres.DISTINCT_ON):
        assert on_postgres(made.url, query) == expected


def _listed_on_redis(made: Made, ask: Asked) -> None:
    found = ask("threads", "list", "--all")
    assert {one["thread_id"] for one in found} == set(
        map(name_of, range(int(made.facts["threads"])))
    )
    assert {one["checkpoints"] for one in found} == {STEPS}


def _all_listed(made: Made, ask: Asked) -> None:
    found = ask("threads", "list", "--all")
    assert {one["thread_id"] for one in found} == set(
        map(name_of, range(int(made.facts["threads"])))
    )


_ON_POSTGRES = [
    Beside("start + loose index scan", python(raw_postgres.newest(raw_postgres.LOOSE_SCAN)), 1.5),
    Beside("start + keyset page", python(raw_postgres.newest(raw_postgres.KEYSET_PAGE))),
    Beside("start + GROUP BY", python(raw_postgres.newest(raw_postgres.GROUP_BY))),
    Beside("start + max of ts (langmcp)", python(raw_postgres.newest(raw_postgres.GROUP_BY_TS))),
    Beside("start + DISTINCT ON", python(raw_postgres.newest(raw_postgres.DISTINCT_ON))),
    Beside("official list(limit=50)", python(raw_postgres.OFFICIAL_LIST)),
]
_TO_REDIS = {"redis": "checkpoint_latest:*", "redis hashes": "*"}
"""The names that a listing must pass: pointers, or all keys where there is no index."""


def _on_redis(store: str) -> list[Measurement]:
    start, scan = python(raw_keys.REDIS_START), python(raw_redis.SCAN, _TO_REDIS[store])
    first = [Beside("start + SCAN", scan, 1.5)]
    every = [Beside("SCAN", scan, 3, start)]
    if store == "redis":
        aggregate = python(raw_keys.REDIS_AGGREGATE)
        first += [Beside("start + FT.AGGREGATE", aggregate)]
        every = [Beside("FT.AGGREGATE", aggregate, 3, start)]
        every += [Beside("official list(limit=50)", python(raw_keys.REDIS_OFFICIAL, "50"))]
    return [
        _first(store, *first, check=_listed_on_redis),
        _all(store, *every, check=_listed_on_redis),
    ]


SUBJECT = Subject(
    "listing",
    "threads list",
    [
        _first(
            "sqlite",
            Beside("start + raw query", python(raw.NEWEST_THREADS), 1.5),
            check=_equals(rows),
        ),
        _all(
            "sqlite",
            Beside("raw query", python(raw.ALL_THREADS), 3, python(raw.START)),
            Beside("peer", peer_threads, 1 / 300),
            check=_equals(rows),
        ),
        _first("postgres", *_ON_POSTGRES, check=_as_all_queries),
        _all(
            "postgres",
            Beside("raw query", python(raw_postgres.ALL_THREADS), 3, python(raw_postgres.START)),
            check=_equals(on_postgres),
        ),
        _first(
            "mysql",
            Beside("start + raw query", python(raw_mysql.QUERY, raw_mysql.LOOSE_SCAN), 1.5),
            check=_equals(on_mysql),
        ),
        _all(
            "mysql",
            Beside("raw query", python(raw_mysql.QUERY, raw_mysql.ALL), 3, python(raw_mysql.START)),
            check=_equals(on_mysql),
        ),
        *_on_redis("redis"),
        *_on_redis("redis hashes"),
        _first(
            "mongodb",
            Beside("start + $group", python(raw_keys.MONGODB_THREADS), 1.5),
            check=_all_listed,
        ),
        _all(
            "mongodb",
            Beside("$group", python(raw_keys.MONGODB_THREADS), 3, python(raw_keys.MONGODB_START)),
            check=_all_listed,
        ),
        _first(
            "dynamodb",
            Beside("start + scan of keys", python(raw_keys.DYNAMODB_SCAN), 1.5),
            check=_all_listed,
        ),
        _all(
            "dynamodb",
            Beside(
                "scan of keys", python(raw_keys.DYNAMODB_SCAN), 3, python(raw_keys.DYNAMODB_START)
            ),
            check=_all_listed,
        ),
    ],
)
