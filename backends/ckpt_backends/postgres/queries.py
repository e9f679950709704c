"""The SQL queries. Table names are formatted into the text; everything else is a parameter.

Ids are text in the collation of the database. Within a namespace, checkpoints are sorted in that
collation, because savers find the head that way; for UUIDs it is the order of their characters.
Threads and names are sorted by code points, with `COLLATE "C"`.
"""

from __future__ import annotations

START = """
    SELECT current_schemas(false),
           set_config('search_path', 'pg_catalog', true),
           CASE WHEN current_setting('jit', true) = 'on' THEN set_config('jit', 'off', true) END,
           CASE WHEN current_setting('cursor_tuple_fraction', true) IS NOT NULL
                THEN set_config('cursor_tuple_fraction', '1', true) END,
           CASE current_setting('lock_timeout')
                WHEN '0' THEN set_config('lock_timeout', %(lock_timeout)s, true) END,
           current_setting('transaction_read_only')
"""
"""Returns the schemas of the search path and whether the transaction is read-only, and sets the
search path to `pg_catalog`.

After that, no name in a query can refer to a function or type of a user. JIT is turned off, because
compiling takes longer than running these queries. (The server overestimates their cost: it expects
a hundred channels in each checkpoint.) Results are read to their end, so plans for a fast start of
a cursor are not wanted.
"""

COLUMNS = """
    SELECT n.nspname::text, c.relname::text, a.attname::text,
           CASE o.nspname WHEN 'pg_catalog' THEN '' ELSE quote_ident(o.nspname) || '.' END
           || quote_ident(t.typname),
           a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    JOIN pg_namespace o ON o.oid = t.typnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname = ANY(%(names)s::text[])
    ORDER BY 1, 2, a.attnum
"""
"""Types are quoted for use in queries. Types outside of `pg_catalog` have their schema. Last,
whether the column has no default and must have a value."""
TABLES = """
    SELECT DISTINCT n.nspname::text, c.relname::text
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname = ANY(%(schemas)s::text[])
"""

ALIKE = """
    SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND n.nspname = %(schema)s AND left(c.relname, 10) = 'checkpoint'
"""
"""The tables that are named like those of the saver."""

ROWS_PER_THREAD = """
    SELECT c.reltuples / nullif(CASE WHEN s.n_distinct > 0 THEN s.n_distinct
                                     ELSE -s.n_distinct * c.reltuples END, 0)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname
    WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND s.attname = 'thread_id'
"""
"""The server's estimate of checkpoints per thread; no row if the table was never analysed."""

_WALK = """
    WITH RECURSIVE walk(thread_id) AS (
        (SELECT thread_id FROM {checkpoints} ORDER BY thread_id LIMIT 1)
        UNION ALL
        SELECT (SELECT c.thread_id FROM {checkpoints} c WHERE c.thread_id > w.thread_id
                ORDER BY c.thread_id LIMIT 1)
        FROM walk w WHERE w.thread_id IS NOT NULL
    )
"""

WALKED = f"""{_WALK}
    SELECT w.thread_id, CASE of_last_ns.checkpoint_ns WHEN '' THEN of_last_ns.checkpoint_id
        ELSE greatest(
            (SELECT c.checkpoint_id FROM {{checkpoints}} c
             WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = ''
             ORDER BY c.checkpoint_id DESC LIMIT 1) COLLATE "C",
            (SELECT max(c.checkpoint_id COLLATE "C") FROM {{checkpoints}} c
             WHERE c.thread_id = w.thread_id AND c.checkpoint_ns > '')) END AS last_id
    FROM walk w, LATERAL (
        SELECT c.checkpoint_ns, c.checkpoint_id FROM {{checkpoints}} c
        WHERE c.thread_id = w.thread_id
        ORDER BY c.checkpoint_ns DESC, c.checkpoint_id DESC LIMIT 1
    ) of_last_ns
    WHERE w.thread_id IS NOT NULL
"""
"""Threads and their newest checkpoints, found by jumping in the primary key from thread to thread.

Most threads have only the root namespace, which sorts first in every collation.
"""

WALKED_HEADS = f"""{_WALK}
    SELECT w.thread_id AS thread, of_root.checkpoint_id AS head
    FROM walk w, LATERAL (
        SELECT c.checkpoint_id FROM {{checkpoints}} c
        WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = ''
        ORDER BY c.checkpoint_id DESC LIMIT 1
    ) of_root
"""
"""The root head of each thread, found in the same way."""

SCANNED = """
    SELECT thread_id, max(checkpoint_id COLLATE "C") AS last_id
    FROM {checkpoints} c GROUP BY thread_id
"""
"""The same result by reading the whole primary key, which is faster for short threads."""

NEWEST = """
    WITH newest AS (
        SELECT * FROM ({threads}) t ORDER BY last_id DESC, thread_id COLLATE "C" LIMIT %(limit)s
    )
    SELECT t.thread_id, of_thread.head, of_thread.first_id, t.last_id, of_thread.n, of_thread.spaces
    FROM newest t, LATERAL (
        SELECT max(last_id) FILTER (WHERE checkpoint_ns = '') AS head,
               min(first_id COLLATE "C") AS first_id, sum(n)::bigint AS n, count(*) AS spaces
        FROM (SELECT checkpoint_ns, min(checkpoint_id) AS first_id, max(checkpoint_id) AS last_id,
                     count(*) AS n
              FROM {checkpoints} c WHERE c.thread_id = t.thread_id GROUP BY 1) per_namespace
    ) of_thread
    ORDER BY t.last_id DESC, t.thread_id COLLATE "C"
"""
"""Counts checkpoints and namespaces only for the threads that are returned."""

GROUPED = """
    SELECT thread_id AS thread, max(last_id) FILTER (WHERE checkpoint_ns = '') AS head,
           min(first_id COLLATE "C") AS first_id, max(last_id COLLATE "C") AS newest,
           sum(n)::bigint AS n, count(*) AS spaces
    FROM (SELECT thread_id, checkpoint_ns, min(checkpoint_id) AS first_id,
                 max(checkpoint_id) AS last_id, count(*) AS n
          FROM {checkpoints} c {where} GROUP BY thread_id, checkpoint_ns) per_namespace
    GROUP BY thread_id
"""
"""One thread, some or all threads."""
NEWEST_FIRST = 'ORDER BY newest DESC, thread_id COLLATE "C"'

SHALLOW = """(
    SELECT thread_id, checkpoint_ns, checkpoint ->> 'id' AS checkpoint_id,
           NULL::text AS parent_checkpoint_id, checkpoint, metadata FROM {checkpoints})"""
"""The rows of the shallow layout with the columns of the full layout."""

SIZES = """
    SELECT t.thread_id::text, c.n, w.n, c.bytes + w.bytes + b.bytes, b.n
    FROM unnest(%(threads)s::{thread_type}[]) t(thread_id),
         LATERAL (SELECT count(*) AS n, coalesce(
              sum(pg_column_size(checkpoint) + pg_column_size(metadata)), 0)::bigint AS bytes
          FROM {checkpoints} c WHERE c.{thread} = t.thread_id) c,
         LATERAL (SELECT count(*) AS n, coalesce(sum(octet_length(blob)), 0)::bigint AS bytes
          FROM {checkpoint_writes} w WHERE w.{thread} = t.thread_id) w,
         LATERAL (SELECT count(*) AS n, coalesce(sum(octet_length(blob)), 0)::bigint AS bytes
          FROM {checkpoint_blobs} b WHERE b.{thread} = t.thread_id) b
"""
"""Reads no value that is stored out of line (TOAST): its size is stored in the row.

With a UNION ALL, the server would plan parallel workers, which take 10 ms to start.
"""

KEYS = """
    unnest(%(threads)s::{thread_type}[], %(spaces)s::text[], %(ids)s::{id_type}[])
    WITH ORDINALITY k(thread, ns, id, n) JOIN
"""
AT_KEY = "c.{thread} = k.thread AND c.checkpoint_ns = k.ns AND c.{id} = k.id"
"""Checkpoints or writes of several threads. An id is compared in the type in which it is stored,
because only then the server uses an index."""

BLOBS = """
    LEFT JOIN LATERAL (
        SELECT array_agg(b.channel) FILTER (WHERE {filled}) AS channels,
               array_agg(b.type) FILTER (WHERE {filled}) AS types,
               array_agg(coalesce(octet_length(b.blob), 0)) FILTER (WHERE {filled}) AS sizes,
               array_agg({wanted}) FILTER (WHERE {filled}) AS wanted,
               array_agg(CASE WHEN {wanted} AND {short} THEN b.blob END)
                   FILTER (WHERE {filled}) AS blobs,
               array_agg(v.channel) FILTER (WHERE b.channel IS NULL AND {marked}) AS missing
        FROM jsonb_each_text(
            CASE jsonb_typeof(c.checkpoint -> 'channel_versions')
                 WHEN 'object' THEN c.checkpoint -> 'channel_versions' END
        ) v(channel, version)
        LEFT JOIN LATERAL (
            SELECT b.channel, b.type, b.blob FROM {blobs} b
            WHERE b.{thread} = c.{thread} AND b.checkpoint_ns = c.checkpoint_ns
                  AND b.channel = v.channel {same_version}
            OFFSET 0
        ) b ON true
    ) kept ON true
"""
"""`OFFSET 0` forces the server to look up only the blobs that the checkpoint names. Without it, the
server expects few blobs per thread and would read all of them for each checkpoint."""
FILLED_CHANNELS = """
    LEFT JOIN LATERAL (
        SELECT array_agg(v.channel) AS channels
        FROM jsonb_each_text(
            CASE jsonb_typeof(c.checkpoint -> 'channel_versions')
                 WHEN 'object' THEN c.checkpoint -> 'channel_versions' END
        ) v(channel, version), LATERAL (
            SELECT 1 FROM {blobs} b
            WHERE b.{thread} = c.{thread} AND b.checkpoint_ns = c.checkpoint_ns
                  AND b.channel = v.channel {same_version} AND {filled}
            OFFSET 0
        ) b
    ) kept ON true
"""
"""The names of the same blobs alone, in half the time."""
SHAPES = """
    CROSS JOIN LATERAL (
        SELECT array_agg(v.channel) AS named, array_agg(b.filled) AS filled,
               array_agg(jsonb_typeof(c.checkpoint -> 'channel_versions' -> v.channel)) AS types
        FROM jsonb_each_text(
            CASE jsonb_typeof(c.checkpoint -> 'channel_versions')
                 WHEN 'object' THEN c.checkpoint -> 'channel_versions' END
        ) v(channel, version) LEFT JOIN LATERAL (
            SELECT {filled} AS filled FROM {blobs} b
            WHERE b.{thread} = c.{thread} AND b.checkpoint_ns = c.checkpoint_ns
                  AND b.channel = v.channel {same_version}
            OFFSET 0
        ) b ON true
    ) versions
    CROSS JOIN LATERAL (
        SELECT array_agg(s.node) AS nodes, array_agg(r.channel) AS read
        FROM jsonb_each(
            CASE jsonb_typeof(c.checkpoint -> 'versions_seen')
                 WHEN 'object' THEN c.checkpoint -> 'versions_seen' END
        ) s(node, channels) LEFT JOIN LATERAL jsonb_object_keys(
            CASE jsonb_typeof(s.channels) WHEN 'object' THEN s.channels END
        ) r(channel) ON true
    ) seen
    CROSS JOIN LATERAL (
        SELECT array_agg(i.channel) AS channels
        FROM jsonb_object_keys(
            CASE jsonb_typeof(c.checkpoint -> 'channel_values')
                 WHEN 'object' THEN c.checkpoint -> 'channel_values' END
        ) i(channel)
    ) inside
    GROUP BY versions.named, versions.filled, versions.types, seen.nodes, seen.read,
             inside.channels, jsonb_typeof(c.checkpoint -> 'channel_versions'),
             jsonb_typeof(c.checkpoint -> 'versions_seen'),
             jsonb_typeof(c.checkpoint -> 'channel_values'), (c.checkpoint -> 'v')::text,
             (c.checkpoint -> 'channel_values' -> '__pregel_tasks')::text,
             (c.metadata -> 'source')::text
"""
"""Groups checkpoints that an outline cannot tell apart; see `Store.outlines_at`. The keys of an
object come in an order of its own, which only depends on the keys."""
FILLED = "b.channel IS NOT NULL AND b.type IS DISTINCT FROM 'empty'"
"""The condition for a stored value. The type `empty` marks a channel without a value."""
MARKED = "NOT c.checkpoint ? 'channel_values'"
"""The condition for bodies of savers that store such a mark: those of Python until 2.0.22, of the
shallow layout, and of LangGraph.js. Later savers store small values in the body instead."""
CONTROL = """(
    left(b.channel, 2) = '__' AND b.channel <> ALL(%(users)s::text[])
    OR b.channel ~ '^(branch|join|start):'
    OR c.checkpoint ->> 'v' IN ('1', '2', '3')
       AND octet_length(b.blob) < octet_length(b.channel) + 6
)"""
"""The condition for LangGraph's control channels. Before format 4 each node has a channel of the
same name, with the node's name as its value. Short values are read because they may be such."""

MARKS = """
    SELECT DISTINCT CASE
               WHEN NOT c.checkpoint ? 'channel_values' AND t.type IS NULL THEN 'empty'
               WHEN t.type = 'number' THEN 'js'
               WHEN c.checkpoint ? 'channel_values' THEN 'inline' ELSE 'apart' END
    FROM ((SELECT checkpoint FROM {checkpoints} LIMIT 50)
          UNION ALL (SELECT checkpoint FROM {checkpoints}
                     ORDER BY thread_id LIMIT 50)
          UNION ALL (SELECT checkpoint FROM {checkpoints}
                     ORDER BY thread_id DESC LIMIT 50)) c
    LEFT JOIN LATERAL (
        SELECT jsonb_typeof(v.version) AS type
        FROM jsonb_each(CASE jsonb_typeof(c.checkpoint -> 'channel_versions')
                             WHEN 'object' THEN c.checkpoint -> 'channel_versions' END
        ) v(channel, version) LIMIT 1
    ) t ON true
"""
"""What some bodies tell about the saver: JavaScript's versions are numbers, and newer releases
store small values in the body. The bodies are those stored first, and those of the first and the
last ids of threads, which most applications choose at random."""
