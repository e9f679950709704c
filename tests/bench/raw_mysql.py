"""Baselines on MySQL and MariaDB: plain queries. Each is a program for `python -c`.

It takes the store's URL, as `raw_postgres` does.
"""

from __future__ import annotations

LOOSE_SCAN = """
SELECT thread_id, MAX(newest) AS newest FROM (
    SELECT thread_id, MAX(checkpoint_id) AS newest FROM checkpoints
    GROUP BY thread_id, checkpoint_ns_hash
) per_namespace GROUP BY thread_id ORDER BY newest DESC LIMIT 50
"""
"""Threads by last activity: the server jumps in the index from namespace to namespace."""

ALL = """
SELECT thread_id, MIN(checkpoint_id), MAX(checkpoint_id) AS newest, COUNT(*) FROM checkpoints
GROUP BY thread_id ORDER BY newest DESC, thread_id
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

_OPEN = """
import pymysql, sys
from pymysql.cursors import SSCursor
from urllib.parse import urlsplit
url = urlsplit(sys.argv[1])
store = pymysql.connect(host=url.hostname, port=url.port or 3306, user=url.username or "root",
                        password=url.password or "", database=url.path[1:])
"""


def rows(query: str) -> str:
    """Return a program that streams the rows of a query."""
    return f"""
import click
{_OPEN}
with store.cursor(SSCursor) as cursor:
    cursor.execute({query!r})
    for row in cursor.fetchall_unbuffered():
        pass
"""
