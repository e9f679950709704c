"""Baselines of a removal on SQLite and PostgreSQL: in batches, and by the official savers.

Each is a program for `python -c` that takes the store's URL. They look for the threads, as a purge
has to.
"""

from __future__ import annotations

_FIND_SQLITE = """
import fnmatch, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
query = "SELECT thread_id, max(checkpoint_id), count(*) FROM checkpoints GROUP BY thread_id"
names = [row[0] for row in connection.execute(query) if fnmatch.fnmatch(row[0], sys.argv[2])]
"""

FIND_AND_DELETE_SQLITE = f"""
{_FIND_SQLITE}
for start in range(0, len(names), 100):
    batch = names[start:start + 100]
    marks = ", ".join("?" * len(batch))
    connection.execute("BEGIN IMMEDIATE")
    for table in ("writes", "checkpoints"):
        connection.execute(f"DELETE FROM {{table}} WHERE thread_id IN ({{marks}})", batch)
    connection.execute("COMMIT")
"""

OFFICIAL_SQLITE = f"""
{_FIND_SQLITE}
from langgraph.checkpoint.sqlite import SqliteSaver
with sqlite3.connect(sys.argv[1]) as connection:
    saver = SqliteSaver(connection)
    for name in names:
        saver.delete_thread(name)
"""

_FIND_POSTGRES = """
import psycopg, sys
query = "SELECT thread_id, max(checkpoint_id) FROM checkpoints GROUP BY thread_id"
with psycopg.connect(sys.argv[1]) as connection:
    names = [row[0] for row in connection.execute(query) if row[0].startswith("old-")]
"""

FIND_AND_DELETE_POSTGRES = f"""
{_FIND_POSTGRES}
    for start in range(0, len(names), 100):
        batch = names[start:start + 100]
        for table in ("checkpoint_writes", "checkpoint_blobs", "checkpoints"):
            connection.execute(f"DELETE FROM {{table}} WHERE thread_id = ANY(%s)", [batch])
        connection.commit()
"""

OFFICIAL_POSTGRES = f"""
{_FIND_POSTGRES}
from langgraph.checkpoint.postgres import PostgresSaver
with PostgresSaver.from_conn_string(sys.argv[1]) as saver:
    for name in names:
        saver.delete_thread(name)
"""
