"""Removing threads, beside the official loop and the removal of the same rows in batches."""

from __future__ import annotations

from collections.abc import Callable

import pymongo
import redis

from tests.bench import raw_keys, raw_mysql, raw_purge
from tests.bench.declared import Beside, Made, Measurement, Subject, ckpt, python
from tests.bench.made_keys import OLD
from tests.bench.made_servers import POSTGRES_TABLES, on_mysql, on_postgres
from tests.bench.made_sqlite import count

_MOST = 2
_WHATEVER = ("--include-interrupted", "--include-pending")
_OLD = "{} WHERE thread_id >= 'old-' AND thread_id < 'old.'"


def _purge(
    store: str, left: Callable[[Made], int], *beside: Beside, more: bool = False
) -> Measurement:
    words = _WHATEVER if more else ()

    def after(made: Made) -> None:
        assert left(made) == 0, "threads are left"

    return Measurement(
        what=" ".join(("purge --match '{old}'", *words)) + ", {threads} threads",
        store=store,
        ours=ckpt("purge", "--match", "{old}", *words, "--yes", "-o", "ndjson"),
        beside=beside,
        changes=True,
        after=after,
        rounds=2,
    )


def _on_sqlite(made: Made) -> int:
    where = _OLD if made.facts["old"] == "old-*" else "{} WHERE thread_id < '6'"
    return sum(count(made.path, where.format(table)) for table in ("writes", "checkpoints"))


def _counted(query: Callable[[str, str], list[tuple[int]]]) -> Callable[[Made], int]:
    def left(made: Made) -> int:
        sql = "SELECT count(*) FROM "
        return sum(query(made.url, sql + _OLD.format(one))[0][0] for one in POSTGRES_TABLES)

    return left


def _on_redis(made: Made) -> int:
    with redis.Redis.from_url(made.url) as client:
        return sum(1 for _ in client.scan_iter("*old-*", count=5000))


def _on_mongodb(made: Made) -> int:
    with pymongo.MongoClient[dict[str, object]](made.url) as client:
        database = client[made.url.rpartition("/")[2]]
        names = ("checkpoints", "checkpoint_writes")
        return sum(database[one].count_documents({"thread_id": OLD}) for one in names)


_LOOP = "delete_thread loop"
_ON_SQLITE = [
    Beside("find and DELETE", python(raw_purge.FIND_AND_DELETE_SQLITE, "{old}"), _MOST),
    Beside(_LOOP, python(raw_purge.OFFICIAL_SQLITE, "{old}")),
]
_ON_POSTGRES = [
    Beside("find and DELETE", python(raw_purge.FIND_AND_DELETE_POSTGRES), _MOST),
    Beside(_LOOP, python(raw_purge.OFFICIAL_POSTGRES)),
]
_ON_MYSQL = Beside("find and DELETE", python(raw_mysql.FIND_AND_DELETE), _MOST)
_ON_REDIS = Beside("SCAN and UNLINK", python(raw_keys.REDIS_FIND_AND_DELETE), _MOST)
_ON_MONGODB = Beside("find and DELETE", python(raw_keys.MONGODB_FIND_AND_DELETE), _MOST)
SUBJECT = Subject(
    "purge",
    "removal of threads",
    [
        _purge("sqlite", _on_sqlite, _ON_SQLITE[0], more=True),
        _purge("sqlite small threads", _on_sqlite, *_ON_SQLITE),
        _purge("sqlite small threads", _on_sqlite, _ON_SQLITE[0], more=True),
        _purge("postgres small threads", _counted(on_postgres), *_ON_POSTGRES),
        _purge("postgres small threads", _counted(on_postgres), _ON_POSTGRES[0], more=True),
        _purge("mysql small threads", _counted(on_mysql), _ON_MYSQL),
        _purge(
            "redis small threads",
            _on_redis,
            _ON_REDIS,
            Beside(_LOOP, python(raw_keys.REDIS_OFFICIAL_DELETE, "{count}")),
        ),
        # The plain savers of hashes have no way to delete a thread.
        _purge("redis hashes, small threads", _on_redis, _ON_REDIS),
        _purge(
            "mongodb small threads",
            _on_mongodb,
            _ON_MONGODB,
            Beside(_LOOP, python(raw_keys.MONGODB_OFFICIAL_DELETE, "{count}")),
        ),
    ],
)
