"""Tables in PostgreSQL whose values are texts in base64, next to their types."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ckpt_backends.base import BaseStore
from ckpt_backends.codec.values import MOST_BYTES, unread
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write, in_chunks
from ckpt_backends.protocol import CheckpointQuery
from ckpt_backends.rows import Cell
from ckpt_backends.servers import STORE, checked
from ckpt_backends.sql.store import Keyed, SqlStore
from ckpt_backends.sql.tables import (
    BODIES_AT_ONCE,
    KEYS_AT_ONCE,
    STATES_AT_ONCE,
    GroupedThreads,
    RowQuery,
    where_all,
)
from ckpt_backends.transfer.form import CannotHold

_THREADS = """
    SELECT thread_id AS thread, max(checkpoint_id) FILTER (WHERE checkpoint_ns = '') AS head,
           min(checkpoint_id COLLATE "C") AS first_id, max(checkpoint_id COLLATE "C") AS newest,
           count(*) AS n, count(DISTINCT checkpoint_ns) AS spaces{more}
    FROM {checkpoints} c {where} GROUP BY thread_id
"""
_KEYS = """
    unnest(%(threads)s::text[], %(spaces)s::text[], %(ids)s::text[])
    WITH ORDINALITY k(thread, ns, id, n) JOIN {table} c
    ON c.thread_id = k.thread AND c.checkpoint_ns = k.ns AND c.checkpoint_id = k.id
"""


def encoded(data: bytes) -> str:
    """The text that stores some bytes."""
    return b64encode(data).decode()


def decoded(tag: str, text: str) -> TypedBytes:
    """The value that a text stores, decoded as savers do it."""
    problem = "" if tag else "it has no type"
    try:
        return TypedBytes(tag, b64decode(text), problem=problem)
    except ValueError:
        return TypedBytes(tag, text.encode("utf-8", "surrogatepass"), problem="it is not base64")


def typed_text(tag: str, size: int, text: str | None) -> TypedBytes:
    """The value that a text stores; without it, the value was too long to read."""
    return unread(tag, size) if text is None else decoded(tag, text)


def text_cell(cells: Mapping[str, Cell], column: str) -> str:
    """The text in a column of an archived row. Raises `CannotHold` if there is none."""
    found = cells.get(column)
    if not isinstance(found, str):
        raise CannotHold(f"the column '{column}' of a row has no text")
    return found


@checked(*STORE, "faults")
class Base64Store(SqlStore):
    """Tables with such values, opened for reading. A type is in the column `type`."""

    _LENGTH = "(octet_length({0}) / 4 * 3 - octet_length({0}) + octet_length(rtrim({0}, '=')))"
    _BODY_TYPE = "c.type"
    _OF_THREADS = ""
    """Further columns of the query for threads, each after a comma."""

    def notes(self) -> Sequence[str]:
        return self._database.notes()

    def _grouped(self, where: str, made: str = "") -> GroupedThreads:
        where, source = where_all(where, made), self._tables.checkpoints.source
        query = _THREADS.format(checkpoints=source, where=where, more=self._OF_THREADS)
        return GroupedThreads(query, {})

    def _select_checkpoints(self, asked: CheckpointQuery) -> RowQuery:
        columns = [
            f"octet_length({name}), CASE WHEN octet_length({name}) <= {MOST_BYTES} THEN {name} END"
            if is_read
            else "NULL, NULL"
            for name, is_read in (("c.checkpoint", asked.body), ("c.metadata", asked.metadata))
        ]
        has_bodies = asked.body or asked.metadata
        return RowQuery(
            table=self._tables.checkpoints,
            columns=f"c.parent_checkpoint_id, c.type, {', '.join(columns)}",
            order="c.checkpoint_id DESC",
            at_once=STATES_AT_ONCE
            if asked.body
            else BODIES_AT_ONCE
            if has_bodies
            else KEYS_AT_ONCE,
            has_bodies=has_bodies,
        )

    def _read_checkpoints(self, rows: Keyed, asked: CheckpointQuery) -> Iterator[Checkpoint]:
        for key, (parent, tag, size, body, meta_size, metadata) in rows:
            yield Checkpoint(
                key,
                parent,
                typed_text(tag, size, body) if asked.body else None,
                self._metadata(meta_size, metadata) if asked.metadata else None,
            )

    def _metadata(self, size: int, text: str | None) -> TypedBytes:
        """The metadata that a text stores; without it, they were too long to read."""
        return typed_text("json", size, text)

    def _write(self, key: CheckpointKey, row: Sequence[Any]) -> Write:
        task_id, path, idx, channel, tag, size, is_read, text = row
        value = typed_text(tag, size, text) if is_read else None
        return Write(key, task_id, path, idx, channel, size, value)

    def _at(self, query: RowQuery, keys: Sequence[CheckpointKey]) -> Keyed:
        keyed = _KEYS.format(table=query.table.source)
        text = f"SELECT n, {query.columns} FROM {keyed} {query.join} {query.rest}"
        stored = [key for key in keys if self._database.storable("".join(key))]
        for some in in_chunks(stored, BODIES_AT_ONCE):
            threads, spaces, ids = map(list, zip(*some, strict=True))
            values = {**query.values, "threads": threads, "spaces": spaces, "ids": ids}
            for n, *row in self._stream(text, values, query.at_once):
                yield some[n - 1], row

    # Rows hold texts, in which the engine cannot search for bytes.
    records_of = BaseStore.records_of

    def threads_that_may_hold(
        self, thread_ids: Sequence[str], texts: Collection[str], *, ignore_case: bool = False
    ) -> set[str]:
        return BaseStore.threads_that_may_hold(self, thread_ids, texts, ignore_case=ignore_case)
