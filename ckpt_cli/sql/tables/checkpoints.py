"""The table `checkpoints`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ckpt_backends.model import CheckpointKey, Thread
from ckpt_cli.core.redact import redact_metadata
from ckpt_cli.core.state import read_metadata, source_from
from ckpt_cli.queries.history import branch_depths, namespace_entries
from ckpt_cli.render.records import entry_record, values_record
from ckpt_cli.render.terminal.units import optional_iso
from ckpt_cli.sql.tables.table import (
    Need,
    QueryTable,
    SqlColumn,
    SqlRow,
    TableReading,
    keys_of,
)
from ckpt_cli.threads import redaction
from ckpt_cli.threads.checkpoint import number_of
from ckpt_cli.threads.thread import ThreadReader


def _rows(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    for reader in reading.readers(threads):
        sizes = _sizes(reading, reader)
        for ns, ids in reading.namespaces(reader):
            head = reader.head(ns)
            for record in _of_namespace(reading, reader, ns, ids):
                key = CheckpointKey(reader.thread_id, ns, record["checkpoint_id"])
                is_head = key.checkpoint_id == head
                yield {**record, "is_head": is_head, "bytes": sizes.get(key)}


def _of_namespace(
    reading: TableReading, reader: ThreadReader, ns: str, ids: set[str] | None
) -> Iterator[SqlRow]:
    if Need.STEP in reading.needs:
        operations = reading.operations(reader.thread_id)
        for entry in namespace_entries(reader, ns, operations, ids):
            yield entry_record(entry)
        return
    index = reader.index(ns)
    depths = branch_depths(index, reader.head(ns)) if "depth" in reading.columns else {}
    times = reader.times(ns) if "ts" in reading.columns else {}
    metadata = Need.METADATA in reading.needs
    hide = redaction.is_redacted(reader.store)
    stored = (
        reader.store.checkpoints(
            reader.thread_id, checkpoint_ns=ns, checkpoint_ids=ids, metadata=True
        )
        if metadata
        else (one for one in index if ids is None or one.key.checkpoint_id in ids)
    )
    for one in stored:
        checkpoint_id = one.key.checkpoint_id
        row: dict[str, Any] = {
            "thread_id": reader.thread_id,
            "checkpoint_ns": ns,
            "checkpoint_id": checkpoint_id,
            "parent_checkpoint_id": one.parent_checkpoint_id,
            "ts": optional_iso(times.get(checkpoint_id)),
            "depth": depths.get(checkpoint_id),
        }
        if metadata:
            found = read_metadata(one)
            row["step"] = number_of(checkpoint_id, found)
            row["source"] = source_from(found)
            row["metadata"] = values_record(redact_metadata(found) if hide else found)
        yield row


def _sizes(reading: TableReading, reader: ThreadReader) -> Counter[CheckpointKey]:
    found: Counter[CheckpointKey] = Counter()
    if Need.SIZES in reading.needs:
        for key, size in reader.store.checkpoint_sizes(reader.thread_id):
            found[key] += size.bytes
    return found


_META, _STEP = Need.METADATA, Need.STEP

CHECKPOINTS = QueryTable(
    "checkpoints",
    "Checkpoints of all namespaces, as `history --all-ns` lists them.",
    keys_of(
        SqlColumn("parent_checkpoint_id", "VARCHAR", "Checkpoint before it."),
        SqlColumn("ts", "TIMESTAMPTZ", "When it was saved."),
        SqlColumn("is_head", "BOOLEAN", "Whether LangGraph resumes its namespace from it."),
        SqlColumn("depth", "BIGINT", "Forks between it and the branch of the head."),
        SqlColumn(
            "bytes",
            "BIGINT",
            "Stored size with its writes, without values that are stored apart.",
            Need.SIZES,
            "bytes",
        ),
        SqlColumn("step", "BIGINT", "Step.", _META),
        SqlColumn("source", "VARCHAR", "How it was made: input, loop, update, fork.", _META),
        SqlColumn("metadata", "JSON", "Metadata.", _META),
        SqlColumn("nodes", "VARCHAR[]", "Nodes that ran to make it, one for each task.", _STEP),
        SqlColumn("next", "VARCHAR[]", "Nodes of the step after it; NULL if not known.", _STEP),
        SqlColumn("waiting", "VARCHAR[]", "Those without output.", _STEP),
        SqlColumn("status", "VARCHAR", "error, interrupted, pending, done, unknown.", _STEP),
        SqlColumn("conditions", "VARCHAR[]", "All that hold, the worst first.", _STEP),
        SqlColumn("state", "VARCHAR", "The same; NULL if the run went on.", _STEP),
        SqlColumn("marks", "VARCHAR[]", "What `history` says about its tasks.", _STEP),
        SqlColumn("children", "VARCHAR[]", "Checkpoints made from it, oldest first.", _STEP),
        SqlColumn("versions", "JSON", "Channel to version.", _STEP),
        SqlColumn("write_count", "BIGINT", "Writes stored with it.", _STEP),
        SqlColumn("problem", "VARCHAR", "Why its body cannot be read.", _STEP),
    ),
    _rows,
    commands="history",
)
