"""The SQL statements of changes.

Table names and lists of columns are formatted in; everything else is a parameter. `{hash}` and
`{hash_value}` are empty if the server computes the hash of the namespace, `{type}` and `{path}` if
a table has no such column. `{thread}` is the condition for rows `c` of exactly one thread, even if
other ids are equal in the collation.
"""

from __future__ import annotations

from ckpt_backends.mysql.sql import exact

LOCK = "SELECT GET_LOCK(%(name)s, %(seconds)s)"
UNLOCK = "SELECT RELEASE_LOCK(%(name)s)"
REPEATABLE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
"""Isolation of the next transaction: FOR UPDATE then locks rows and the gaps between them."""

HEADS = f"""
    SELECT {exact("c.checkpoint_ns")} AS ns, MAX(c.checkpoint_id), COUNT(*)
    FROM {{checkpoints}} c WHERE {{thread}} GROUP BY ns
"""
RIVAL = f"""
    SELECT {exact("c.thread_id")} FROM {{checkpoints}} c
    WHERE c.thread_id = {{mark}} AND {exact("c.thread_id")} <> %(exact)s LIMIT 1
"""
"""Another thread with an id that is equal in the collation."""

ADD_CHECKPOINT = """
    INSERT INTO {checkpoints} (thread_id, checkpoint_ns{hash}, checkpoint_id, parent_checkpoint_id,
                               checkpoint, metadata)
    VALUES (%(thread)s, %(ns)s{hash_value}, %(id)s, %(parent)s, %(body)s, %(metadata)s)
"""
ADD_BLOB = """
    INSERT INTO {blobs} (thread_id, checkpoint_ns{hash}, channel, version, type, `blob`)
    VALUES (%(thread)s, %(ns)s{hash_value}, %(channel)s, %(version)s, %(tag)s, %(blob)s)
"""
ADD_WRITE = """
    INSERT INTO {writes} (thread_id, checkpoint_ns{hash}, checkpoint_id, task_id, idx, channel,
                          type, `blob`)
    VALUES (%(thread)s, %(ns)s{hash_value}, %(id)s, %(task)s, %(idx)s, %(channel)s, %(tag)s,
            %(blob)s)
"""

_AT = "{thread} AND c.{ns} = %(ns_key)s AND c.checkpoint_id = %(id)s"

COPY_CHECKPOINT = f"""
    INSERT INTO {{checkpoints}} (thread_id, checkpoint_ns{{hash}}, checkpoint_id,
                                 parent_checkpoint_id{{type}}, checkpoint, metadata)
    SELECT %(new)s, checkpoint_ns{{hash}}, checkpoint_id, parent_checkpoint_id{{type}},
           {{body}}, {{metadata}}
    FROM {{checkpoints}} c WHERE {_AT}
"""
BODY = f"SELECT c.checkpoint FROM {{checkpoints}} c WHERE {_AT}"
COPY_BLOBS = """
    INSERT INTO {blobs} (thread_id, checkpoint_ns{hash}, channel, version, type, `blob`)
    SELECT %(new)s, checkpoint_ns{hash}, channel, version, type, `blob`
    FROM {blobs} c WHERE {thread} AND c.{ns} = %(ns_key)s AND c.channel = %(channel)s
         AND c.version IN %(versions)s
"""
COPY_WRITES = f"""
    INSERT INTO {{writes}} (thread_id, checkpoint_ns{{hash}}, checkpoint_id, task_id{{path}}, idx,
                            channel, type, `blob`)
    SELECT %(new)s, checkpoint_ns{{hash}}, %(new_id)s, task_id{{path}}, idx, channel, type, `blob`
    FROM {{writes}} c WHERE {_AT}
"""
ONE_WRITE = " AND c.task_id = %(task)s AND c.idx = %(idx)s"

REMOVE_CHECKPOINT = f"DELETE c FROM {{checkpoints}} c WHERE {_AT}"
REMOVE_WRITES = f"DELETE c FROM {{writes}} c WHERE {_AT}"
REMOVE_BLOB = """
    DELETE c FROM {blobs} c WHERE {thread} AND c.{ns} = %(ns_key)s AND c.channel = %(channel)s
    AND c.version = %(version)s
"""
REMOVE_BLOBS = "DELETE c FROM {blobs} c WHERE {thread}"

STATE = f"""
    SELECT {exact("c.thread_id")} AS thread, COUNT(*), {{newest}}
    FROM {{table}} c WHERE c.thread_id IN ({{threads}}) GROUP BY thread FOR UPDATE
"""
REMOVE_THREAD = "DELETE c FROM {table} c WHERE {thread}"
REMOVE_SOME = """
    DELETE c FROM {table} c WHERE {thread} AND c.{ns} = %(ns_key)s AND {column} IN %(values)s
"""

ADD_ROW = """
    INSERT INTO {table} ({columns}) VALUES ({values}) ON DUPLICATE KEY UPDATE thread_id = thread_id
"""
IS_THERE = "SELECT COUNT(*) FROM {table} c WHERE {same}"
