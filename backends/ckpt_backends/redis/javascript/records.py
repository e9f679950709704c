"""The documents of LangGraph.js, names of values, and the records in them. Imports no driver."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby
from typing import Any

from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.redis.engine.keyspace import (
    APART,
    CHECKPOINT,
    document,
    meant_ns,
    raw,
    source_and_step,
    stored_ns,
)
from ckpt_backends.redis.engine.stored_documents import (
    WRITE,
    StoredDocument,
    edited_member,
    joined,
    members_of,
    place_of,
    rows_of_heads,
    with_members,
)
from ckpt_backends.rows import ChangeValue, Row, ValueKind
from ckpt_backends.transfer.bodies import version_text
from ckpt_backends.transfer.convert import KeptValues
from ckpt_backends.transfer.form import CannotHold

JSON = "json"


UNDEFINED = b'{"lc":2,"type":"undefined"}'
"""The value of a document without `value`: JSON omits members that are undefined in JavaScript."""

REFUSED = re.compile(r"[*?[\]\\]")
"""Characters that the saver refuses in ids. Source: `assertSafeKeyComponent` in its `utils.js`."""


def blob_name(key: CheckpointKey, blob: tuple[str, str]) -> bytes:
    """The key of a value in the thread and namespace of a checkpoint, by channel and version."""
    return raw(":".join((APART, key.thread_id, key.checkpoint_ns, *blob)))


def versions_of(body: TypedBytes | None) -> dict[str, tuple[str, str]]:
    """By channel of a body, (channel, version as text); empty if the body cannot be read."""
    versions = part_of(body, "channel_versions")
    return {
        channel: (channel, str(version))
        for channel, version in versions.items()
        if isinstance(version, str | int | float)
    }


def part_of(body: TypedBytes | None, name: str) -> dict[str, Any]:
    """An object inside a body; empty if the body cannot be read."""
    try:
        fields = json.loads(body.data) if body is not None else None
    except (ValueError, RecursionError):
        return {}
    part = fields.get(name) if isinstance(fields, dict) else None
    return part if isinstance(part, dict) else {}


def checkpoint_document(record: Record, ts: float, *, has_writes: bool) -> bytes:
    """The document of a checkpoint. `ts` is its time, in milliseconds since 1970."""
    first = {
        "thread_id": record.key.thread_id,
        "checkpoint_ns": stored_ns(record.key.checkpoint_ns),
        "checkpoint_id": record.key.checkpoint_id,
        "parent_checkpoint_id": record.parent,
    }
    records = {"checkpoint": record.value.data, "metadata": record.metadata.data}
    last = {"checkpoint_ts": ts, "has_writes": "true" if has_writes else "false"}
    return document(
        first, records, last | source_and_step(record.metadata) | _beside(record.metadata)
    )


def _beside(metadata: TypedBytes) -> dict[str, Any]:
    """What the saver also stores beside metadata, to search for it."""
    fields = json.loads(metadata.data)
    found = fields if isinstance(fields, dict) else {}
    made = {"score": found["score"]} if "score" in found else {}
    if "writes" in found:
        writes = found["writes"]
        is_object = writes is None or isinstance(writes, dict | list)
        made["writes"] = json.dumps(writes, separators=(",", ":")) if is_object else writes
    return made


def write_document(record: Record, number: float) -> bytes:
    """The document of a write. `number` is its place in the order of arrival."""
    value = record.value.data
    fields = {
        "thread_id": record.key.thread_id,
        "checkpoint_ns": record.key.checkpoint_ns,
        "checkpoint_id": record.key.checkpoint_id,
        "task_id": record.task_id,
        "idx": record.idx,
        "channel": record.channel,
        "type": "json" if value[:1] in {b"{", b"[", b"n"} else "string",
        "timestamp": number,
        "global_idx": number,
    }
    return document(fields, {} if value == UNDEFINED else {"value": value}, {})


def value_document(owner: CheckpointKey, channel: str, version: str, value: bytes) -> bytes:
    """The document of a separate value, which a checkpoint was the first to have."""
    fields = {
        "thread_id": owner.thread_id,
        "checkpoint_ns": stored_ns(owner.checkpoint_ns),
        "checkpoint_id": owner.checkpoint_id,
        "channel": channel,
        "version": version,
        "type": "json",
    }
    return document(fields, {"value": value}, {})


# The records of a thread in the documents of LangGraph.js. Needs no server.
#
# A body has the values that changed in its step; the others are stored under their versions. A
# record has all of them, as LangGraph.js reads them: those in the body take precedence.


_PLACE = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id"})
_OF_CHECKPOINT = _PLACE | {"parent_checkpoint_id", "checkpoint", "metadata", "checkpoint_ts"}
_OF_CHECKPOINT |= {"has_writes", "source", "step", "writes", "score"}
_OF_VALUE = _PLACE | {"channel", "version", "type", "value"}
_OF_WRITE = _PLACE | {"task_id", "idx", "channel", "type", "value", "timestamp", "global_idx"}


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:
    """The records that the rows of one thread hold. Raises `CannotHold`.

    The writes of a checkpoint come in the order of arrival, as LangGraph.js reads them.
    """
    if layout == "redis-js-shallow":
        rows = rows_of_heads(rows)
    with closing(KeptValues()) as values:
        for kind, some in groupby(rows, lambda row: row.table):
            documents = map(StoredDocument, some)
            if kind == APART:
                for found in documents:
                    _keep(found, values)
            elif kind == WRITE:
                for _, written in groupby(documents, lambda found: found.raw("checkpoint_id")):
                    yield from map(
                        _write_record,
                        sorted(written, key=lambda found: place_in_order(found.get("global_idx"))),
                    )
            elif kind == CHECKPOINT:
                for found in documents:
                    yield _checkpoint_record(found, values)


def _keep(found: StoredDocument, values: KeptValues) -> None:
    found.check_members(_OF_VALUE)
    place = meant_ns(found.text("checkpoint_ns")), found.text("channel"), found.text("version")
    if "value" in found.members:  # JSON has no undefined
        values.put(place, TypedBytes("json", found.raw("value")))


def _write_record(found: StoredDocument) -> Record:
    found.check_members(_OF_WRITE)
    idx = found.get("idx")
    return Record.write(
        _key(found),
        found.text("task_id"),
        "",
        idx if isinstance(idx, int) else 0,
        found.text("channel"),
        TypedBytes("json", found.raw("value") if "value" in found.members else UNDEFINED),
        found.expires_at,
    )


def _checkpoint_record(found: StoredDocument, values: KeptValues) -> Record:
    found.check_members(_OF_CHECKPOINT)
    key = _key(found)
    try:
        body = _whole(found.members["checkpoint"], key.checkpoint_ns, values)
    except (KeyError, ValueError) as error:
        raise CannotHold(f"the document '{found.name}' has no body: {error}") from None
    return Record.checkpoint(
        key,
        found.text("parent_checkpoint_id") or None,
        TypedBytes("json", body.encode("utf-8", "surrogatepass")),
        TypedBytes("json", found.raw("metadata")),
        found.expires_at,
    )


def _whole(body: str, ns: str, values: KeptValues) -> str:
    """The text of a body with all its values."""
    fields = members_of(body)
    inside = members_of(fields.get("channel_values", "{}"))
    for channel, version in json.loads(fields.get("channel_versions", "{}")).items():
        if channel not in inside:
            value = values.get((ns, channel, version_text(version)))
            if value is not None:
                inside[channel] = value.data.decode("utf-8", "surrogatepass")
    return joined(fields | {"channel_values": joined(inside)})


def _key(found: StoredDocument) -> CheckpointKey:
    return place_of(found, found.text("thread_id"))


# Changes the values in documents of LangGraph.js.


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal."""
    if row.table == CHECKPOINT:
        found = StoredDocument(row)
        body = edited_member(found, "checkpoint", JSON, ValueKind.BODY, change)
        metadata = edited_member(found, "metadata", JSON, ValueKind.METADATA, change)
        return with_members(row, found, {"checkpoint": body, "metadata": metadata})
    if row.table in (WRITE, APART):
        found = StoredDocument(row)
        kind = ValueKind.WRITE if row.table == WRITE else ValueKind.VALUE
        value = edited_member(found, "value", JSON, kind, change)
        return with_members(row, found, {"value": value})
    return row


def place_in_order(found: object) -> float:
    """The order number of a write, from a clock that starts with the saver's process.

    0 if there is none: the shallow saver does not store it.
    """
    return found if isinstance(found, int | float) else 0
