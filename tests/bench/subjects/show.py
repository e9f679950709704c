"""Showing one named thread, and its tree."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench import raw, raw_keys, raw_mysql, raw_postgres, raw_redis
from tests.bench.declared import (
    Asked,
    Beside,
    Made,
    MakesCommand,
    Measurement,
    Subject,
    ckpt,
    python,
)
from tests.bench.made_sqlite import rows
from tests.bench.official import equals_official_on_postgres, equals_official_on_sqlite

_MOST = 1.3
_SHAPES = ("loop", "straight", "forked")


def _named(
    store: str,
    other: MakesCommand,
    check: Callable[[Made, Asked], None] | None = None,
    thread: str = "{waiting}",
) -> Measurement:
    name = "show THREAD" if thread == "{waiting}" else f"show THREAD, {{{thread}}} checkpoints"
    return Measurement(
        what=f"{name} -o json",
        store=store,
        ours=ckpt("show", thread, "-o", "json"),
        beside=[Beside("start + row + decode", other, _MOST)],
        check=check,
        rounds=9,
    )


def _shown(made: Made, ask: Asked) -> None:
    assert ask("show", made.facts["waiting"])["thread_id"] == made.facts["waiting"]


def _tree(thread: str) -> Callable[[Made, Asked], None]:
    def check(made: Made, ask: Asked) -> None:
        sql = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY 1 DESC"
        ids = [one for (one,) in rows(made.url, sql, thread)]
        assert len(ids) >= int(made.facts["deep"])
        assert [one["checkpoint_id"] for one in ask("show", thread, "--tree")] == ids

    return check


def _timeline(thread: str) -> Callable[[Made, Asked], None]:
    def check(_: Made, ask: Asked) -> None:
        found = ask("timeline", thread)["steps"]
        ids = [one["checkpoint_id"] for one in found]
        assert ids == sorted(set(ids))
        assert all(one["nodes"] is not None for one in found)

    return check


SHOW = Subject(
    "show",
    "show of a named thread",
    [
        _named("sqlite", python(raw.HEAD, "{waiting}"), equals_official_on_sqlite),
        _named("postgres", python(raw_postgres.HEAD, "{waiting}"), equals_official_on_postgres),
        _named("postgres", python(raw_postgres.HEAD, "deep"), thread="deep"),
        _named("mysql", python(raw_mysql.HEAD, "{waiting}"), _shown),
        _named("redis", python(raw_keys.REDIS_START), _shown),
        _named("redis hashes", python(raw_redis.SCAN, "*"), _shown),
        _named("mongodb", python(raw_keys.MONGODB_HEAD, "{waiting}"), _shown),
        _named("dynamodb", python(raw_keys.DYNAMODB_HEAD, "{waiting}"), _shown),
    ],
)
TREE = Subject(
    "tree",
    "show --tree and timeline of a long thread",
    [
        *(
            Measurement(
                what=f"show --tree, {{deep}} checkpoints, {thread}",
                store="sqlite deep",
                ours=ckpt("show", thread, "--tree"),
                seconds=1,
                check=_tree(thread),
            )
            for thread in _SHAPES
        ),
        Measurement(
            what="show --tree, {deep} checkpoints",
            store="postgres",
            ours=ckpt("show", "deep", "--tree"),
            seconds=1,
        ),
        *(
            Measurement(
                what=f"timeline, {{deep}} checkpoints, {thread}",
                store="sqlite deep",
                ours=ckpt("timeline", thread),
                seconds=1.5,
                check=_timeline(thread),
            )
            for thread in _SHAPES
        ),
        Measurement(
            what="show THREAD@~{middle} -o json",
            store="sqlite deep",
            ours=ckpt("show", "straight@~{middle}", "-o", "json"),
            rounds=3,
        ),
    ],
)
