"""The parts of a thread in the documents of LangGraph.js. Needs no server.

A body has the values that changed in its step; the others are stored under their versions. A part
has all of them, as LangGraph.js reads them: those in the body take precedence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby

from ckpt_backends.changes.rows import Row
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.redis.engine.document_fields import meant_ns
from ckpt_backends.redis.engine.document_parts import WRITE, StoredDocument, place_of, rows_of_heads
from ckpt_backends.redis.engine.json_members import joined, members_of
from ckpt_backends.redis.engine.keyspace import APART, CHECKPOINT
from ckpt_backends.redis.javascript.stored_values import UNDEFINED
from ckpt_backends.transfer.bodies import version_text
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.kept_values import KeptValues
from ckpt_backends.transfer.parts import CheckpointPart, Part, WritePart

_PLACE = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id"})
_OF_CHECKPOINT = _PLACE | {"parent_checkpoint_id", "checkpoint", "metadata", "checkpoint_ts"}
_OF_CHECKPOINT |= {"has_writes", "source", "step", "writes", "score"}
_OF_VALUE = _PLACE | {"channel", "version", "type", "value"}
_OF_WRITE = _PLACE | {"task_id", "idx", "channel", "type", "value", "timestamp", "global_idx"}


def parts_of(layout: str, rows: Iterable[Row]) -> Iterator[Part]:
    """The parts that the rows of one thread hold. Raises `CannotHold`.

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
                    yield from map(_write, sorted(written, key=_arrival))
            elif kind == CHECKPOINT:
                for found in documents:
                    yield _checkpoint(found, values)


def _keep(found: StoredDocument, values: KeptValues) -> None:
    found.check_members(_OF_VALUE)
    place = meant_ns(found.text("checkpoint_ns")), found.text("channel"), found.text("version")
    if "value" in found.members:  # JSON has no undefined
        values.put(place, TypedBytes("json", found.raw("value")))


def _arrival(found: StoredDocument) -> float:
    number = found.get("global_idx")
    return number if isinstance(number, int | float) else 0


def _write(found: StoredDocument) -> WritePart:
    found.check_members(_OF_WRITE)
    idx = found.get("idx")
    return WritePart(
        _key(found),
        found.text("task_id"),
        "",
        idx if isinstance(idx, int) else 0,
        found.text("channel"),
        TypedBytes("json", found.raw("value") if "value" in found.members else UNDEFINED),
        found.expires_at,
    )


def _checkpoint(found: StoredDocument, values: KeptValues) -> CheckpointPart:
    found.check_members(_OF_CHECKPOINT)
    key = _key(found)
    try:
        body = _whole(found.members["checkpoint"], key.checkpoint_ns, values)
    except (KeyError, ValueError) as error:
        raise CannotHold(f"the document '{found.name}' has no body: {error}") from None
    return CheckpointPart(
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
