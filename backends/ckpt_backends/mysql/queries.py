"""The SQL queries. Table and column names are formatted in; everything else is a parameter.

In most collations `Abc` equals `abc`. So rows of a thread are found with the index and then
compared again by their bytes. `{ns}` is the column with which a namespace is found.
"""

from __future__ import annotations

COLUMNS = """
    SELECT table_name, column_name, data_type, extra, character_set_name, collation_name,
           is_nullable = 'NO' AND column_default IS NULL
    FROM information_schema.columns WHERE table_schema = DATABASE()
    ORDER BY table_name, ordinal_position
"""
MIGRATION = "SELECT MAX(v) FROM checkpoint_migrations"


def exact(column: str) -> str:
    """The UTF-8 bytes of a text, for exact comparison and for sorting by code points."""
    return f"CAST(CONVERT({column} USING utf8mb4) AS BINARY)"


GROUPED = f"""
    SELECT {exact("c.thread_id")} AS thread,
           MAX(CASE WHEN c.{{ns}} = %(root)s THEN c.checkpoint_id END) AS head,
           MIN(c.checkpoint_id) AS first_id, MAX(c.checkpoint_id) AS newest, COUNT(*) AS n,
           COUNT(DISTINCT c.{{ns}}) AS spaces
    FROM {{checkpoints}} c {{where}}
    GROUP BY thread
"""
"""Some threads, or all threads, if some ids are equal in the collation. The index of thread ids
contains all columns that are read, because it includes the primary key."""

LISTED = f"""
    SELECT {exact("thread_id")} AS thread, MAX(CASE WHEN ns = %(root)s THEN last_id END) AS head,
           MIN(first_id) AS first_id, MAX(last_id) AS newest, SUM(n) AS n, COUNT(*) AS spaces
    FROM (SELECT c.thread_id, c.{{ns}} AS ns, MIN(c.checkpoint_id) AS first_id,
                 MAX(c.checkpoint_id) AS last_id, COUNT(*) AS n
          FROM {{checkpoints}} c {{where}} GROUP BY c.thread_id, c.{{ns}}) per_namespace
    GROUP BY thread_id
"""
"""The same if no ids are equal in the collation. It groups in the order of the index, which is
about thirty times faster than grouping by bytes."""

NEWEST = f"""
    SELECT thread_id FROM (SELECT c.thread_id, MAX(c.checkpoint_id) AS last_id
                           FROM {{checkpoints}} c GROUP BY c.thread_id, c.{{ns}}) per_namespace
    GROUP BY thread_id ORDER BY MAX(last_id) DESC, {exact("thread_id")} LIMIT %(limit)s
"""
"""The ids of the threads with the newest checkpoints, if no ids are equal in the collation. The
server jumps in the index from namespace to namespace."""

MERGED = """
    SELECT MIN(CAST(thread_id AS BINARY)) AS one, MAX(CAST(thread_id AS BINARY)) AS other
    FROM {checkpoints} GROUP BY thread_id HAVING one <> other LIMIT 1
"""
"""Two different thread ids that are equal in the collation, if any. Reads only the index."""

SHALLOW_ID = "JSON_UNQUOTE(JSON_EXTRACT(c.checkpoint, '$.id'))"
SHALLOW = f"""(
    SELECT thread_id, checkpoint_ns, checkpoint_ns_hash, {SHALLOW_ID} AS checkpoint_id,
           NULL AS parent_checkpoint_id, checkpoint, metadata FROM {{checkpoints}} c)"""
"""The rows of the shallow layout with the columns of the full layout."""

IS_INLINE = """
    SELECT DISTINCT JSON_CONTAINS_PATH(checkpoint, 'one', '$.channel_values')
    FROM ((SELECT checkpoint FROM {checkpoints} ORDER BY thread_id LIMIT 50)
          UNION ALL (SELECT checkpoint FROM {checkpoints} ORDER BY thread_id DESC LIMIT 50)) c
"""
"""Whether some bodies contain small values, as newer releases store it."""
