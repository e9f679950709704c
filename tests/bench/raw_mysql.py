"""Baselines on MySQL and MariaDB: plain queries through the driver.

Each is a program for `python -c` that takes the store's URL.
"""

from __future__ import annotations

from tests.bench.raw import PARSED

_OPEN = (
    PARSED
    + """
import sys
from urllib.parse import urlsplit
import pymysql
parts = urlsplit(sys.argv[1])
store = pymysql.connect(host=parts.hostname, port=parts.port or 3306, user=parts.username,
                        password=parts.password or "", database=parts.path[1:], charset="utf8mb4")
"""
)

START = f"""
{_OPEN}
store.cursor().execute("SELECT 1")
"""

QUERY = f"""
{_OPEN}
from pymysql.cursors import SSCursor
rows = SSCursor(store)
rows.execute(sys.argv[2])
for row in rows:
    pass
"""
"""Streams the rows of a query."""

LOOSE_SCAN = """
SELECT thread_id, MAX(newest) AS newest FROM (
    SELECT thread_id, MAX(checkpoint_id) AS newest FROM checkpoints
    GROUP BY thread_id, checkpoint_ns_hash
) per_namespace GROUP BY thread_id ORDER BY newest DESC LIMIT 50
"""
"""Threads by last activity: the server jumps in the index from namespace to namespace."""

ALL = """
SELECT thread_id, min(checkpoint_id), max(checkpoint_id) AS newest, count(*) FROM checkpoints
GROUP BY thread_id ORDER BY newest DESC
"""

WITH_INTERRUPTS = """
SELECT w.thread_id, w.checkpoint_id, w.`blob`, c.checkpoint, c.metadata FROM (
    SELECT thread_id, MAX(checkpoint_id) AS head FROM checkpoints
    WHERE checkpoint_ns_hash = UNHEX(MD5('')) GROUP BY thread_id
) h
JOIN checkpoint_writes w ON w.thread_id = h.thread_id AND w.checkpoint_id = h.head
     AND w.checkpoint_ns_hash = UNHEX(MD5('')) AND w.channel = '__interrupt__'
JOIN checkpoints c ON c.thread_id = h.thread_id AND c.checkpoint_id = h.head
     AND c.checkpoint_ns_hash = UNHEX(MD5(''))
"""
"""The open questions, with the rows of the heads at which they are."""

HEAD = f"""
{_OPEN}
import ormsgpack
rows = store.cursor()
rows.execute("SELECT checkpoint, metadata FROM checkpoints WHERE thread_id = %s AND"
             " checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 1", [sys.argv[2]])
body, metadata = rows.fetchone()
import json
versions = json.loads(body)["channel_versions"]
rows.execute("SELECT channel, version, type, `blob` FROM checkpoint_blobs WHERE thread_id = %s AND"
             " checkpoint_ns = '' AND channel IN %s AND version IN %s",
             [sys.argv[2], list(versions), list(versions.values())])
for channel, version, tag, value in rows.fetchall():
    if tag == "msgpack" and versions.get(channel) == version:
        ormsgpack.unpackb(value, ext_hook=lambda code, data: None)
"""

FIND_AND_DELETE = f"""
{_OPEN}
rows = store.cursor()
rows.execute("SELECT thread_id, max(checkpoint_id) FROM checkpoints GROUP BY thread_id")
names = [row[0] for row in rows.fetchall() if row[0].startswith("old-")]
for start in range(0, len(names), 100):
    for table in ("checkpoint_writes", "checkpoint_blobs", "checkpoints"):
        rows.execute(f"DELETE FROM {{table}} WHERE thread_id IN %s", [names[start:start + 100]])
    store.commit()
"""
"""Looks for threads and removes them in batches, as a purge has to."""

OFFICIAL_DELETE = """
import sys
from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver
with PyMySQLSaver.from_conn_string(sys.argv[1]) as saver:
    for n in range(int(sys.argv[2])):
        saver.delete_thread(f"old-{n}")
"""
