"""The table `memory`."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.memory.protocol import MemoryStore
from ckpt_cli.core.memory.item_filter import ItemFilter
from ckpt_cli.queries.memory import list_items, read_items
from ckpt_cli.render.memory.items import item_record, read_record
from ckpt_cli.sql.tables.table import Need, QueryTable, SqlColumn, SqlRow, TableReading


def _items(memory: MemoryStore, reading: TableReading) -> Iterator[SqlRow]:
    redacted, now = reading.opening.redact, reading.now
    if Need.VALUE in reading.needs:
        for one in read_items(memory, (), ItemFilter(), now, redacted=redacted):
            yield read_record(one, now)
        return
    for item in list_items(memory, (), ItemFilter(), now, redacted=redacted):
        yield item_record(item, now)


MEMORY = QueryTable(
    "memory",
    "Items of long-term memory, as `memory list` and `memory export` list them.",
    (
        SqlColumn("namespace", "VARCHAR[]", "Labels of the namespace."),
        SqlColumn("key", "VARCHAR", "Key."),
        SqlColumn("created_at", "TIMESTAMPTZ", "When it was first stored."),
        SqlColumn("updated_at", "TIMESTAMPTZ", "When it was last stored."),
        SqlColumn("expires_at", "TIMESTAMPTZ", "When it expires."),
        SqlColumn("expired", "BOOLEAN", "Whether it has expired."),
        SqlColumn("bytes", "BIGINT", "Stored size of the value.", unit="bytes"),
        SqlColumn("vectors", "JSON", "Fields with vectors, and their sizes, a list."),
        SqlColumn("category", "VARCHAR", "Category of a fact."),
        SqlColumn("confidence", "DOUBLE", "Confidence of a fact, from 0 to 1."),
        SqlColumn("source", "JSON", "Where a fact came from: kind, thread_id."),
        SqlColumn("value", "JSON", "Value.", Need.VALUE),
    ),
    items=_items,
    commands="memory list, memory export",
)
