"""A thread with a canary in all that the official saver stores of it, beside a neighbour."""

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from ckpt_backends.changes import Remains, Removal
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness, StoredRows
from ckpt_backends.url import parse_url
from tests.kit.agents.steps import graph_of
from tests.kit.servers import mysql_connection

CANARY = "canary8f3a"
"""Part of the thread's id, of its metadata, and of its values and writes."""
THREAD, OTHER = f"{CANARY}-thread", "neighbour"


def fill(harness: Harness) -> StoredRows:
    """Run a graph in two threads. Returns the rows of the neighbour."""
    with harness.saver() as saver:
        graph = graph_of(saver)
        for thread, text in ((THREAD, CANARY), (OTHER, "harmless")):
            config: Any = {
                "configurable": {"thread_id": thread},
                "metadata": {"user": f"{text} user"},
            }
            for number in (1, 2):
                graph.invoke({"items": [f"{text} {number}"]}, config)
    return harness.rows(OTHER)


def erase(url: str, *, rewrite: bool = False) -> Remains:
    """Erase the thread. Returns what the store says about it."""
    parsed = parse_url(url)
    with open_store(parsed) as store:
        thread = store.thread(THREAD)
        assert thread is not None
        writes = store.size(THREAD).writes
    removal = Removal(THREAD, thread.last_at, thread.checkpoints, writes)
    with open_writable(parsed) as writable:
        writable.begin_erasure()
        (removed,) = writable.remove([removal])
        assert not removed.skipped
        return writable.erase_remains(rewrite=rewrite)


def still_there(remains: Remains) -> list[str]:
    """Return the places that a later run, or one with `rewrite`, could erase."""
    return [one.place for one in remains.places if one.is_reachable or one.needs_rewrite]


def relation_files(url: str) -> bytes:
    """Return the bytes of all tables and indexes of a database, as they are on disk."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        ((folder, number),) = connection.execute(
            "SELECT current_setting('data_directory'), oid FROM pg_database"
            " WHERE datname = current_database()"
        ).fetchall()
    files = sorted((Path(folder) / "base" / str(number)).iterdir())
    return b"".join(one.read_bytes() for one in files)


def table_files(url: str) -> bytes:
    """Return the bytes of the files of a database's tables, as they are on disk."""
    with closing(mysql_connection(url)) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH TABLES checkpoints, checkpoint_blobs, checkpoint_writes FOR EXPORT")
        cursor.execute("SELECT CONCAT(@@datadir, DATABASE())")
        ((folder,),) = cursor.fetchall()
        found = b"".join(one.read_bytes() for one in sorted(Path(folder).glob("*.ibd")))
        cursor.execute("UNLOCK TABLES")
        return found
