"""Baselines on PostgreSQL: plain queries, queries of other tools, and the official saver.

Each is a program for `python -c` that takes the store's URL. `click` is imported if the budget
includes the start of a command line.
"""

from __future__ import annotations

from tests.bench.raw import PARSED

LOOSE_SCAN = """
WITH RECURSIVE walk(thread_id) AS (
    (SELECT thread_id FROM checkpoints ORDER BY 1 LIMIT 1)
    UNION ALL
    SELECT (SELECT c.thread_id FROM checkpoints c WHERE c.thread_id > w.thread_id
            ORDER BY 1 LIMIT 1)
    FROM walk w WHERE w.thread_id IS NOT NULL
)
SELECT thread_id, (SELECT c.checkpoint_id FROM checkpoints c WHERE c.thread_id = w.thread_id
                   ORDER BY c.checkpoint_ns DESC, c.checkpoint_id DESC LIMIT 1) AS newest
FROM walk w WHERE thread_id IS NOT NULL ORDER BY newest DESC LIMIT 50
"""
"""Threads by last activity: one index lookup for each thread, then one for its newest
checkpoint.
"""

KEYSET_PAGE = """
WITH RECURSIVE page(thread_id, n) AS (
    (SELECT thread_id, 1 FROM checkpoints WHERE thread_id > '8' ORDER BY 1 LIMIT 1)
    UNION ALL
    SELECT (SELECT c.thread_id FROM checkpoints c WHERE c.thread_id > p.thread_id
            ORDER BY 1 LIMIT 1), n + 1
    FROM page p WHERE n < 50
)
SELECT thread_id, (SELECT c.checkpoint_id FROM checkpoints c WHERE c.thread_id = p.thread_id
                   ORDER BY c.checkpoint_ns DESC, c.checkpoint_id DESC LIMIT 1) AS newest
FROM page p
"""
"""50 threads by id: without an order by activity, so nothing else must be read."""

GROUP_BY = """
SELECT thread_id, max(checkpoint_id) AS newest, count(*) FROM checkpoints
GROUP BY thread_id ORDER BY newest DESC LIMIT 50
"""

GROUP_BY_TS = """
SELECT thread_id, max(checkpoint ->> 'ts') AS newest FROM checkpoints
GROUP BY thread_id ORDER BY newest DESC LIMIT 50
"""
"""The query of a peer (langmcp 0.1.1)."""

DISTINCT_ON = """
SELECT * FROM (
    SELECT DISTINCT ON (thread_id) thread_id, checkpoint_id FROM checkpoints
    ORDER BY thread_id, checkpoint_id DESC
) newest ORDER BY checkpoint_id DESC LIMIT 50
"""

ALL = """
SELECT thread_id, min(checkpoint_id), max(checkpoint_id) AS newest, count(*) FROM checkpoints
GROUP BY thread_id ORDER BY newest DESC, thread_id
"""

WITH_INTERRUPTS = """
SELECT w.thread_id, w.blob, c.checkpoint, c.metadata FROM (
    SELECT thread_id, max(checkpoint_id) AS head FROM checkpoints
    WHERE checkpoint_ns = '' GROUP BY thread_id
) h
JOIN checkpoint_writes w ON w.thread_id = h.thread_id AND w.checkpoint_id = h.head
     AND w.checkpoint_ns = '' AND w.channel = '__interrupt__'
JOIN checkpoints c ON c.thread_id = h.thread_id AND c.checkpoint_id = h.head
     AND c.checkpoint_ns = ''
"""
"""The open questions, with the rows of the heads at which they are."""

_OPEN = """
import psycopg, sys
store = psycopg.connect(sys.argv[1])
"""


START = f"""
{PARSED}
{_OPEN}
store.execute("SELECT 1").fetchone()
"""

QUERY = f"""
{PARSED}
{_OPEN}
rows = store.cursor("rows")
rows.itersize = 5000
for row in rows.execute(sys.argv[2]):
    pass
"""
"""Streams the rows of a query."""

VALUES = f"""
{PARSED}
{_OPEN}
size = 0
for query in (
    "SELECT checkpoint::text FROM checkpoints",
    "SELECT blob FROM checkpoint_blobs",
    "SELECT blob FROM checkpoint_writes",
):
    rows = store.cursor("rows", binary=True)
    rows.itersize = 2000
    for (body,) in rows.execute(query):
        size += len(body or "")
    rows.close()
print(size)
"""
"""Streams what a search through all values and writes must read."""


def newest(query: str) -> str:
    """Return a program that prints the rows of a query."""
    return f"""
{PARSED}
{_OPEN}
for row in store.execute({query!r}):
    print(*row)
"""


ALL_THREADS = f"""
{PARSED}
{_OPEN}
rows = store.cursor("threads")
rows.itersize = 5000
for row in rows.execute({ALL!r}):
    pass
"""

HEAD = f"""
{PARSED}
import ormsgpack
{_OPEN}
body, metadata, values = store.execute('''
    SELECT checkpoint, metadata, (
        SELECT array_agg(array[b.channel::bytea, b.type::bytea, b.blob])
        FROM jsonb_each_text(c.checkpoint -> 'channel_versions') v
        JOIN checkpoint_blobs b ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns
             AND b.channel = v.key AND b.version = v.value)
    FROM checkpoints c WHERE thread_id = %s AND checkpoint_ns = ''
    ORDER BY checkpoint_id DESC LIMIT 1''',
    [sys.argv[2]],
).fetchone()
for channel, tag, value in values or []:
    if tag == b"msgpack":
        ormsgpack.unpackb(value, ext_hook=lambda code, data: None)
"""

OFFICIAL_LIST = """
import sys
from langgraph.checkpoint.postgres import PostgresSaver
with PostgresSaver.from_conn_string(sys.argv[1]) as saver:
    for found in saver.list(None, limit=50):
        print(found.config["configurable"]["thread_id"])
"""
"""The newest 50 checkpoints: a saver cannot list threads."""

OFFICIAL_HISTORY = """
import sys
from langgraph.checkpoint.postgres import PostgresSaver
with PostgresSaver.from_conn_string(sys.argv[1]) as saver:
    for found in saver.list({"configurable": {"thread_id": sys.argv[2]}}):
        print(found.config["configurable"]["checkpoint_id"])
"""

_STREAM = """
def stream(query):
    rows = store.cursor("rows")
    rows.itersize = 5000
    for row in rows.execute(query):
        yield row
    rows.close()
"""
_READ_HEADS = """
import ormsgpack
heads = '''SELECT DISTINCT ON (thread_id) thread_id, checkpoint_id FROM checkpoints
           WHERE checkpoint_ns = '' ORDER BY thread_id, checkpoint_id DESC'''
for body, metadata, values in stream(f'''
    SELECT c.checkpoint, c.metadata, (
        SELECT array_agg(array[b.channel::bytea, b.type::bytea, b.blob])
        FROM jsonb_each_text(c.checkpoint -> 'channel_versions') v
        JOIN checkpoint_blobs b ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns
             AND b.channel = v.key AND b.version = v.value)
    FROM ({heads}) h JOIN checkpoints c USING (thread_id, checkpoint_id) WHERE checkpoint_ns = ''
'''):
    for channel, tag, value in values or []:
        if tag == b"msgpack":
            ormsgpack.unpackb(value, ext_hook=lambda code, data: None)
for row in stream(f'''
    SELECT w.* FROM ({heads}) h JOIN checkpoint_writes w USING (thread_id, checkpoint_id)
    WHERE checkpoint_ns = '' '''):
    pass
"""

KEYS_AND_HEADS = f"""
{PARSED}
{_OPEN}
{_STREAM}
for row in stream(
    "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints"
):
    pass
for row in stream("SELECT DISTINCT thread_id, checkpoint_ns, checkpoint_id FROM checkpoint_writes"):
    pass
{_READ_HEADS}
"""
"""The keys of all checkpoints and writes, and the rows of each head."""

COMPARED_KEYS_AND_HEADS = f"""
{PARSED}
{_OPEN}
{_STREAM}
for row in stream('''
    SELECT c.thread_id FROM checkpoints c WHERE c.parent_checkpoint_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM checkpoints p WHERE p.thread_id = c.thread_id
                    AND p.checkpoint_ns = c.checkpoint_ns
                    AND p.checkpoint_id = c.parent_checkpoint_id)'''
):
    pass
for row in stream('''
    SELECT w.thread_id FROM checkpoint_writes w
    WHERE NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.thread_id = w.thread_id
                      AND c.checkpoint_ns = w.checkpoint_ns
                      AND c.checkpoint_id = w.checkpoint_id)'''
):
    pass
{_READ_HEADS}
"""
"""The same, but the server compares the keys: missing parents, and writes without checkpoint."""
