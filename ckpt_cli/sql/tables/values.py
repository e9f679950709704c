"""The table `values`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ckpt_backends.codec import channel_sizes, to_json
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Thread
from ckpt_cli.core.diff.state_diff import json_size
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
from ckpt_cli.threads.checkpoint import DecodedCheckpoint
from ckpt_cli.threads.states import State, read_state, state_channels
from ckpt_cli.threads.thread import ThreadReader


def _rows(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    for reader in reading.readers(threads):
        for ns, ids in reading.namespaces(reader):
            wanted = reading.bounds.channels
            values: bool | frozenset[str] = Need.VALUE in reading.needs
            if values and wanted is not None:
                values = wanted
            for one in reader.decoded(ns, ids, state=values):
                yield from _of_checkpoint(reading, reader, one)


def _of_checkpoint(
    reading: TableReading, reader: ThreadReader, one: DecodedCheckpoint
) -> Iterator[SqlRow]:
    if one.body.problem is not None:
        return
    wanted = reading.bounds.channels
    state: State | None = None
    if Need.VALUE in reading.needs:
        state = read_state(reader, one, wanted)
        names: Sequence[str] = list(state.values)
    else:
        names = state_channels(reader, one)
    sizes = _stored_sizes(one, names) if "bytes" in reading.columns else {}
    if state is not None and redaction.is_redacted(reader.store):
        state = redaction.state(state)
    blobs = one.checkpoint.blobs or {}
    for name in names:
        if wanted is not None and name not in wanted:
            continue
        stored = name in one.body.values
        row: dict[str, Any] = {
            "thread_id": reader.thread_id,
            "checkpoint_ns": one.key.checkpoint_ns,
            "checkpoint_id": one.key.checkpoint_id,
            "ts": optional_iso(one.at),
            "step": one.number,
            "is_head": one.key.checkpoint_id == reader.head(one.key.checkpoint_ns),
            "channel": name,
            "version": _text(one.body.versions.get(name)),
            "type": blobs[name].type if name in blobs else _body_type(one) if stored else None,
            "bytes": sizes.get(name),
        }
        if state is not None:
            row["rebuilt"] = state.rebuilt.get(name)
            row["value"] = to_json(state.values[name])
        yield row


def _stored_sizes(one: DecodedCheckpoint, names: Sequence[str]) -> Mapping[str, int]:
    """Return the bytes of each stored value; as JSON if its form in the body has no length."""
    blobs, body = one.checkpoint.blobs or {}, one.checkpoint.body
    found = None if body is None else channel_sizes(body)
    sizes = {name: blob.size for name, blob in blobs.items()}
    for name in names:
        if name not in sizes and name in one.body.values:
            held: Value = one.body.values[name]
            sizes[name] = json_size(held) if found is None else found.get(name, json_size(held))
    return sizes


def _body_type(one: DecodedCheckpoint) -> str | None:
    return None if one.checkpoint.body is None else one.checkpoint.body.type


def _text(version: object) -> str | None:
    return None if version is None else str(version)


_STEP = Need.STEP

VALUES = QueryTable(
    "values",
    "The state at each checkpoint, one row for each channel; `values` of `show`.",
    keys_of(
        SqlColumn("ts", "TIMESTAMPTZ", "When the checkpoint was saved.", _STEP),
        SqlColumn("step", "BIGINT", "Step of the checkpoint.", _STEP),
        SqlColumn("is_head", "BOOLEAN", "Whether it is the head of its namespace.", _STEP),
        SqlColumn("channel", "VARCHAR", "Channel.", _STEP),
        SqlColumn("version", "VARCHAR", "Version; equal ones have equal values.", _STEP),
        SqlColumn("type", "VARCHAR", "Type tag of the serializer; NULL if not stored.", _STEP),
        SqlColumn("bytes", "BIGINT", "Length of the stored value.", _STEP, "bytes"),
        SqlColumn("rebuilt", "VARCHAR", "How a value was rebuilt that is not stored.", Need.VALUE),
        SqlColumn("value", "JSON", "Value.", Need.VALUE),
    ),
    _rows,
    commands="show",
)
