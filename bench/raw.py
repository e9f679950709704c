"""The same work by the driver alone: the same rows are read or written; little is checked or said.

Each function is run as a program, `main NAME URL WORD...`, after the start of a program with Typer.
Those that find threads yield a row for each, with its id first, so that answers can be compared.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

Rows = Iterable[Sequence[Any]]


def main() -> None:
    """Run the function that is named first, with the other words."""
    from bench import typer_program

    typer_program.parse()
    for _ in globals()[sys.argv[1]](*sys.argv[2:]):
        pass


_DRIVERS = {
    **{"sqlite": "sqlite3", "postgresql": "psycopg", "mysql": "pymysql"},
    **{"redis": "redis", "mongodb": "pymongo"},
}


def engine_of(url: str) -> str:
    """Return the scheme of a URL; what is none is a SQLite file."""
    scheme, found, _ = url.partition("://")
    return scheme if found else "sqlite"


def connect(url: str) -> Any:
    """Connect with the driver of the engine: a connection, a client, or a database."""
    engine, parts = engine_of(url), urlsplit(url)
    driver: Any = import_module(_DRIVERS[engine])
    match engine:
        case "sqlite":
            return driver.connect(f"file:{url}?mode=rw", uri=True)
        case "postgresql":
            return driver.connect(url)
        case "redis":
            return driver.Redis.from_url(url, protocol=2)
        case "mongodb":
            return driver.MongoClient(url)[parts.path[1:]]
    place = {"host": parts.hostname, "port": parts.port, "user": parts.username}
    place |= {"password": parts.password or "", "database": parts.path[1:]}
    return driver.connect(**place, charset="utf8mb4", cursorclass=driver.cursors.SSCursor)


def _rows(url: str, sql: str, *bound: object) -> Iterator[Any]:
    """Stream the rows of a query; `%s` stands for what is bound."""
    engine, store = engine_of(url), connect(url)
    cursor = store.cursor("rows") if engine == "postgresql" else store.cursor()
    if engine == "postgresql":
        cursor.itersize = 5000
    cursor.execute(sql.replace("%s", "?") if engine == "sqlite" else sql, bound)
    yield from cursor


def start(url: str) -> Rows:
    """Connect, and ask for next to nothing."""
    match engine_of(url):
        case "redis":
            connect(url).ping()
        case "mongodb":
            connect(url).command("ping")
        case _:
            yield from _rows(url, "SELECT 1")


_BY_THREAD = """
SELECT thread_id, max(checkpoint_id) AS newest, count(*), min(checkpoint_id) FROM checkpoints
GROUP BY thread_id ORDER BY newest DESC, thread_id
"""
_NEWEST = {
    "sqlite": f"{_BY_THREAD} LIMIT 50",
    # One lookup in the index for each thread, then one for its newest checkpoint.
    "postgresql": """
    WITH RECURSIVE walk(id) AS (
        (SELECT thread_id FROM checkpoints ORDER BY 1 LIMIT 1) UNION ALL
        SELECT (SELECT thread_id FROM checkpoints WHERE thread_id > walk.id ORDER BY 1 LIMIT 1)
        FROM walk WHERE id IS NOT NULL
    ) SELECT id, (SELECT checkpoint_id FROM checkpoints WHERE thread_id = walk.id
                  ORDER BY checkpoint_ns DESC, checkpoint_id DESC LIMIT 1) AS newest
    FROM walk WHERE id IS NOT NULL ORDER BY newest DESC LIMIT 50
    """,
    # The server jumps in the index from namespace to namespace.
    "mysql": """
    SELECT thread_id, max(newest) AS newest FROM (
        SELECT thread_id, max(checkpoint_id) AS newest FROM checkpoints
        GROUP BY thread_id, checkpoint_ns_hash
    ) per_namespace GROUP BY thread_id ORDER BY newest DESC LIMIT 50
    """,
}


def newest(url: str) -> Rows:
    """Find the 50 threads that were active last, in the cheapest way that the index allows."""
    match engine_of(url):
        case "redis":
            # The pointers to the heads have the thread in their names.
            for name in connect(url).scan_iter("checkpoint_latest:*", count=5000):
                yield [name.decode().split(":")[1]]
        case "mongodb":
            yield from every(url)
        case engine:
            yield from _rows(url, _NEWEST[engine])


# Without `TIMEOUT`, the answer ends after half a second.
_AGGREGATE = """
FT.AGGREGATE checkpoint * GROUPBY 1 @thread_id REDUCE MAX 1 @checkpoint_ts AS newest
REDUCE COUNT 0 AS n SORTBY 2 @newest DESC MAX 1000000 LIMIT 0 1000000 TIMEOUT 0
"""


def every(url: str) -> Rows:
    """Find all threads, each with its newest checkpoint and their number, the newest first."""
    match engine_of(url):
        case "redis":
            for row in connect(url).execute_command(*_AGGREGATE.split())[1:]:
                yield row[1].decode(), row[3], int(row[5])
        case "mongodb":
            numbers = {"newest": {"$max": "$checkpoint_id"}, "n": {"$sum": 1}}
            group: list[Any] = [{"$group": {"_id": "$thread_id", **numbers}}]
            for one in connect(url).checkpoints.aggregate([*group, {"$sort": {"newest": -1}}]):
                yield one["_id"], one["newest"], one["n"]
        case _:
            yield from _rows(url, _BY_THREAD)


_WRITES = """
SELECT w.thread_id, w.{value} {more} FROM (
    SELECT thread_id, max(checkpoint_id) AS head FROM checkpoints WHERE {root} GROUP BY thread_id
) h JOIN {writes} w ON w.thread_id = h.thread_id AND w.{root} AND w.checkpoint_id = h.head {join}
WHERE w.channel = %s
"""
_JOIN = "JOIN checkpoints c ON c.thread_id = h.thread_id AND c.{root} AND c.checkpoint_id = h.head"


def writes(url: str, channel: str, bodies: str = "") -> Rows:
    """Find the writes to a channel at the newest checkpoints; in SQL with `bodies`, these, too."""
    match engine_of(url):
        case "redis":
            yield from _writes_on_redis(connect(url), channel)
        case "mongodb":
            heads = {row[0]: row[1] for row in every(url)}
            for one in connect(url).checkpoint_writes.find({"channel": channel}):
                if heads[one["thread_id"]] == one["checkpoint_id"]:
                    yield [one["thread_id"]]
        case engine:
            # The index of MySQL has the hash of a namespace.
            is_mysql = engine == "mysql"
            root = "checkpoint_ns_hash = unhex(md5(''))" if is_mysql else "checkpoint_ns = ''"
            sql = _WRITES.format(
                writes="writes" if engine == "sqlite" else "checkpoint_writes",
                value="value" if engine == "sqlite" else "`blob`" if is_mysql else "blob",
                more=", c.checkpoint, c.metadata" if bodies else "",
                join=_JOIN.format(root=root) if bodies else "",
                root=root,
            )
            yield from _rows(url, sql, channel)


def _writes_on_redis(client: Any, channel: str) -> Rows:
    """Find writes by their search index, and the pointers to the heads."""
    names = list(client.scan_iter("checkpoint_latest:*", count=5000))
    heads = {tuple(one.split(b":")[1:4]) for one in client.mget(names)}
    query = f"FT.AGGREGATE checkpoint_write @channel:{{{channel}}} LOAD 1 @__key WITHCURSOR COUNT"
    found, _ = client.execute_command(*query.split(), 1_000_000)
    keys = [row[1] for row in found[1:] if tuple(row[1].split(b":")[1:4]) in heads]
    _sent(client, "JSON.GET", ([key] for key in keys))
    return ([key.split(b":")[1].decode()] for key in keys)


def values(url: str) -> Rows:
    """Stream what a search through all values and writes must read."""
    yield from _rows(url, "SELECT checkpoint FROM checkpoints")
    yield from _rows(url, "SELECT value FROM writes")


_HEAD = """
SELECT checkpoint, metadata FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = ''
ORDER BY checkpoint_id DESC LIMIT 1
"""
_BLOBS = """
SELECT type, {blob} FROM checkpoint_blobs WHERE thread_id = %s AND checkpoint_ns = ''
AND (channel, version) IN ({marks})
"""


def head(url: str, thread_id: str) -> Rows:
    """Read the newest checkpoint of a thread, and decode its values."""
    import ormsgpack

    packed: list[Any] = []
    match engine_of(url):
        case "redis":
            client = connect(url)
            client.execute_command(
                "JSON.GET", client.get(f"checkpoint_latest:{thread_id}:__empty__")
            )
        case "mongodb":
            place = {"thread_id": thread_id, "checkpoint_ns": ""}
            found = connect(url).checkpoints.find(place).sort("checkpoint_id", -1).limit(1)
            packed = [one["checkpoint"] for one in found]
        case "sqlite":
            packed = [row[0] for row in _rows(url, _HEAD, thread_id)]
        case engine:
            import json

            cursor = connect(url).cursor()
            cursor.execute(_HEAD, [thread_id])
            body = cursor.fetchone()[0]
            versions = (json.loads(body) if engine == "mysql" else body)["channel_versions"]
            marks = ", ".join(["(%s, %s)"] * len(versions))
            sql = _BLOBS.format(marks=marks, blob="`blob`" if engine == "mysql" else "blob")
            cursor.execute(sql, [thread_id, *(one for pair in versions.items() for one in pair)])
            packed = [data for tag, data in cursor.fetchall() if tag == "msgpack"]
    for data in packed:
        ormsgpack.unpackb(data, ext_hook=lambda *_: None)
    return ()


_TASK = "thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type"
_CHECKPOINT = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type"
_COLUMNS = {
    "checkpoint_writes": f"{_TASK}, blob",
    "checkpoint_blobs": "thread_id, checkpoint_ns, channel, version, type, blob",
    "checkpoints": f"{_CHECKPOINT}, checkpoint, metadata",
}
TABLES: dict[str, dict[str, str]] = {
    "sqlite": {"writes": f"{_TASK}, value", "checkpoints": _COLUMNS["checkpoints"]},
    "postgresql": _COLUMNS,
    "mysql": {
        table: columns.replace("_ns,", "_ns, checkpoint_ns_hash,").replace(" blob", " `blob`")
        for table, columns in _COLUMNS.items()
    },
    "mongodb": {"checkpoint_writes": "", "checkpoints": ""},
}
"""The tables or collections of each engine, with their columns."""


def _batches(found: Iterable[Any], number: int = 200) -> Iterator[list[Any]]:
    rest = iter(found)
    while some := list(islice(rest, number)):
        yield some


def _ask(engine: str, store: Any, sql: str, threads: list[str]) -> Any:
    """Run a statement on some threads; returns a cursor."""
    marks = ", ".join(["?" if engine == "sqlite" else "%s"] * len(threads))
    cursor = store.cursor()
    cursor.execute(f"{sql} WHERE thread_id IN ({marks})", threads)
    return cursor


def _sent(client: Any, command: str, rest: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the answers of a Redis to a command with each of these words."""
    with client.pipeline(transaction=False) as pipe:
        for words in rest:
            pipe.execute_command(command, *words)
        return list(pipe.execute())


def delete(url: str, prefix: str) -> Rows:
    """Look for the threads whose names begin with a text, and remove them in batches."""
    engine, store = engine_of(url), connect(url)
    if engine == "redis":
        for some in _batches(store.scan_iter(f"*:{prefix}*", count=5000), 1000):
            store.unlink(*some)
        return ()
    for some in _batches([row[0] for row in every(url) if row[0].startswith(prefix)]):
        for table in TABLES[engine]:
            if engine == "mongodb":
                store[table].delete_many({"thread_id": {"$in": some}})
            else:
                _ask(engine, store, f"DELETE FROM {table}", some)
        if engine != "mongodb":
            store.commit()
    return ()


def copy(url: str, target: str) -> Rows:
    """Copy all rows to an empty store of the same layout in bulk, and compare what is there."""
    engine, source, to = engine_of(url), connect(url), connect(target)
    if engine == "redis":
        for names in _batches(source.scan_iter(count=5000), 1000):
            sent = _sent(source, "DUMP", ([one] for one in names))
            _sent(to, "RESTORE", ([one, 0, data] for one, data in zip(names, sent, strict=True)))
            assert _sent(to, "DUMP", ([one] for one in names)) == sent
        return ()
    for some in _batches([row[0] for row in every(url)]):
        for table, columns in TABLES[engine].items():
            sent = _read(engine, source, table, columns, some)
            _write(engine, to, table, columns, sent)
            found = _read(engine, to, table, columns, some)
            assert sorted(map(str, found)) == sorted(map(str, sent))
    return ()


def _read(engine: str, store: Any, table: str, columns: str, threads: list[str]) -> list[Any]:
    if engine == "mongodb":
        return list(store[table].find({"thread_id": {"$in": threads}}))
    if engine == "postgresql":
        columns = columns.replace("checkpoint, metadata", "checkpoint::text, metadata::text")
    return list(_ask(engine, store, f"SELECT {columns} FROM {table}", threads).fetchall())


def _write(engine: str, store: Any, table: str, columns: str, sent: list[Any]) -> None:
    if engine == "mongodb":
        store[table].insert_many(sent)
        return
    cursor = store.cursor()
    if engine == "postgresql":
        with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as into:
            for row in sent:
                into.write_row(row)
    else:
        marks = ", ".join(["?" if engine == "sqlite" else "%s"] * len(columns.split(", ")))
        cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", sent)
    store.commit()
