"""The SQL statements of changes. Table names are formatted in; everything else is a parameter.

Columns are always named, because `checkpoint_writes.task_path` is the last column in older tables.
`{type}` and `{path}` are empty if a table has no such column.
"""

LOCK = "SELECT pg_advisory_xact_lock(%(number)s::bigint)"

HEADS = """
    SELECT checkpoint_ns, max(checkpoint_id), count(*) FROM {checkpoints}
    WHERE thread_id = %(thread)s GROUP BY checkpoint_ns
"""

ADD_CHECKPOINT = """
    INSERT INTO {checkpoints} (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id,
                               checkpoint, metadata)
    VALUES (%(thread)s, %(ns)s, %(id)s, %(parent)s, %(body)s::text::jsonb,
            %(metadata)s::text::jsonb)
"""

ADD_BLOB = """
    INSERT INTO {blobs} (thread_id, checkpoint_ns, channel, version, type, blob)
    VALUES (%(thread)s, %(ns)s, %(channel)s, %(version)s, %(tag)s, %(blob)s)
"""

ADD_WRITE = """
    INSERT INTO {writes} (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type,
                          blob)
    VALUES (%(thread)s, %(ns)s, %(id)s, %(task)s, %(idx)s, %(channel)s, %(tag)s, %(blob)s)
"""

_KEYS = "unnest(%(ns)s::text[], %(id)s::text[])"

COPY_CHECKPOINTS = """
    INSERT INTO {checkpoints} (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id{type},
                               checkpoint, metadata)
    SELECT %(new)s::text, c.checkpoint_ns, c.checkpoint_id, c.parent_checkpoint_id{type},
           coalesce(k.body::jsonb, c.checkpoint), coalesce(k.metadata::jsonb, c.metadata)
    FROM unnest(%(ns)s::text[], %(id)s::text[], %(body)s::text[], %(metadata)s::text[])
         k(ns, id, body, metadata)
    JOIN {checkpoints} c ON c.thread_id = %(thread)s AND c.checkpoint_ns = k.ns
         AND c.checkpoint_id = k.id
"""

COPY_BLOBS = f"""
    INSERT INTO {{blobs}} (thread_id, checkpoint_ns, channel, version, type, blob)
    SELECT %(new)s::text, b.checkpoint_ns, b.channel, b.version, b.type, b.blob FROM {{blobs}} b
    WHERE b.thread_id = %(thread)s AND (b.checkpoint_ns, b.channel, b.version) IN (
        SELECT c.checkpoint_ns, v.key, v.value
        FROM {_KEYS} k(ns, id)
        JOIN {{checkpoints}} c ON c.thread_id = %(thread)s AND c.checkpoint_ns = k.ns
             AND c.checkpoint_id = k.id
        CROSS JOIN LATERAL jsonb_each_text(
            CASE jsonb_typeof(c.checkpoint -> 'channel_versions')
                 WHEN 'object' THEN c.checkpoint -> 'channel_versions' END
        ) v
    )
"""

COPY_WRITES = f"""
    INSERT INTO {{writes}} (thread_id, checkpoint_ns, checkpoint_id, task_id{{path}}, idx, channel,
                            type, blob)
    SELECT %(new)s::text, checkpoint_ns, checkpoint_id, task_id{{path}}, idx, channel, type, blob
    FROM {_KEYS} k(ns, id)
    JOIN {{writes}} w ON w.thread_id = %(thread)s AND w.checkpoint_ns = k.ns
         AND w.checkpoint_id = k.id
"""

COPY_SOME_WRITES = """
    INSERT INTO {writes} (thread_id, checkpoint_ns, checkpoint_id, task_id{path}, idx, channel,
                          type, blob)
    SELECT %(new)s::text, w.checkpoint_ns, k.new_id, w.task_id{path}, w.idx, w.channel, w.type,
           w.blob
    FROM unnest(%(ns)s::text[], %(id)s::text[], %(new_id)s::text[], %(task)s::text[],
                %(idx)s::int[]) k(ns, id, new_id, task, number)
    JOIN {writes} w ON w.thread_id = %(thread)s AND w.checkpoint_ns = k.ns
         AND w.checkpoint_id = k.id AND w.task_id = k.task AND w.idx = k.number
"""

_CHECKPOINT = "thread_id = %(thread)s AND checkpoint_ns = %(ns)s AND checkpoint_id = %(id)s"

REMOVE_CHECKPOINT = f"DELETE FROM {{checkpoints}} WHERE {_CHECKPOINT}"
REMOVE_WRITES = f"DELETE FROM {{writes}} WHERE {_CHECKPOINT}"
REMOVE_BLOB = """
    DELETE FROM {blobs} WHERE thread_id = %(thread)s AND checkpoint_ns = %(ns)s
    AND channel = %(channel)s AND version = %(version)s
"""
REMOVE_BLOBS_OF_NOBODY = """
    DELETE FROM {blobs} WHERE thread_id = %(thread)s AND NOT EXISTS (
        SELECT FROM {checkpoints} WHERE thread_id = %(thread)s)
"""
"""Removes all values of a thread whose last checkpoint was removed."""

LOCK_TABLES = "LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE"

STATE_OF_THREADS = """
    SELECT t.thread_id, of_thread.newest, of_thread.n,
           (SELECT count(*) FROM {writes} w WHERE w.thread_id = t.thread_id)
    FROM unnest(%(threads)s::text[]) t(thread_id), LATERAL (
        SELECT max(c.checkpoint_id COLLATE "C") AS newest, count(*) AS n
        FROM {heads} c WHERE c.thread_id = t.thread_id
    ) of_thread
"""

REMOVE_THREADS = """
    WITH gone AS (
        DELETE FROM {table} WHERE thread_id = ANY(%(threads)s::text[]) RETURNING thread_id
    )
    SELECT thread_id, count(*) FROM gone GROUP BY thread_id
"""

REMOVE_KEYS = """
    WITH gone AS (
        DELETE FROM {table} c
        USING unnest(%(threads)s::text[], %(ns)s::text[], %(ids)s::text[]) k(thread, ns, id)
        WHERE c.thread_id = k.thread AND c.checkpoint_ns = k.ns AND {id} = k.id
        RETURNING c.thread_id
    )
    SELECT thread_id, count(*) FROM gone GROUP BY thread_id
"""

REMOVE_VALUES = """
    WITH gone AS (
        DELETE FROM {table} b
        USING unnest(%(threads)s::text[], %(ns)s::text[], %(channels)s::text[],
                     %(versions)s::text[]) k(thread, ns, channel, version)
        WHERE b.thread_id = k.thread AND b.checkpoint_ns = k.ns AND b.channel = k.channel
              AND b.version = k.version
        RETURNING b.thread_id
    )
    SELECT thread_id, count(*) FROM gone GROUP BY thread_id
"""

ADD_ROW = """
    INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING
"""
IS_THERE = "SELECT count(*) FROM {table} WHERE {same}"
