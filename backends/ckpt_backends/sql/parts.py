"""The parts of a thread in the rows of LangGraph's SQL savers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ckpt_backends.changes.rows import Cell, Row
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.sql.blob_tables import BLOBS, CHECKPOINTS, WRITES
from ckpt_backends.transfer.bodies import version_text
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, Part, ValuePart, WritePart


def parts_of(layout: str, rows: Iterable[Row]) -> Iterator[Part]:
    """The parts that the rows of one thread hold. Raises `Unsupported` for unknown tables."""
    if layout.endswith("-shallow"):
        yield from _shallow(rows)
        return
    key = CheckpointKey("", "", "")
    for row in rows:
        cells = row.cells
        match row.table:
            case "writes" | "checkpoint_writes":
                # Writes of one checkpoint come together.
                key = _key(cells, key)
                yield _write(cells, key)
            case "checkpoints":
                yield _checkpoint(cells, _key(cells, key))
            case "checkpoint_blobs":
                yield _value(cells, str(cells["version"]))
            case other:
                raise Unsupported(f"a row of the unknown table '{other}'")


def _shallow(rows: Iterable[Row]) -> Iterator[Part]:
    """The parts of a thread without history: its newest checkpoints, with their writes.

    Values have no version of their own: they are those of the checkpoint's versions.
    """
    held = list(rows)  # a thread has one state
    heads: dict[str, tuple[CheckpointKey, Mapping[str, Cell], Any]] = {}
    for row in held:
        if row.table == CHECKPOINTS:
            body = json.loads(_text(row.cells["checkpoint"]))
            key = CheckpointKey(_text(row.cells["thread_id"]), _ns(row.cells), str(body["id"]))
            heads[key.checkpoint_ns] = key, row.cells, body.get("channel_versions") or {}
    for row in held:
        found = heads.get(_ns(row.cells))
        if found is None:
            continue
        key, _, versions = found
        if row.table == BLOBS and (version := versions.get(row.cells["channel"])) is not None:
            yield _value(row.cells, version_text(version))
        elif row.table == WRITES and row.cells["checkpoint_id"] == key.checkpoint_id:
            yield _write(row.cells, key)
    for key, cells, _ in heads.values():
        yield _checkpoint(cells, key)


def _checkpoint(cells: Mapping[str, Cell], key: CheckpointKey) -> CheckpointPart:
    parent = cells.get("parent_checkpoint_id")
    # PostgreSQL and MySQL store bodies as JSON, without a type.
    tag = cells.get("type") if isinstance(cells["checkpoint"], bytes) else "json"
    return CheckpointPart(
        key,
        None if parent is None else str(parent),
        TypedBytes(_text(tag), _bytes(cells["checkpoint"])),
        TypedBytes("json", _bytes(cells["metadata"]) or b"{}"),
    )


def _write(cells: Mapping[str, Cell], key: CheckpointKey) -> WritePart:
    """A write. Raises `CannotHold` if its number is none."""
    value = cells["value"] if "value" in cells else cells["blob"]
    number = 0 if cells["idx"] is None else cells["idx"]
    if not isinstance(number, int):
        raise CannotHold(f"a write of task '{_text(cells['task_id'])}' has no number")
    return WritePart(
        key,
        _text(cells["task_id"]),
        _text(cells.get("task_path")),
        number,
        _text(cells["channel"]),
        TypedBytes(_text(cells["type"]), _bytes(value)),
    )


def _value(cells: Mapping[str, Cell], version: str) -> ValuePart:
    return ValuePart(
        _text(cells["thread_id"]),
        _ns(cells),
        _text(cells["channel"]),
        version,
        TypedBytes(_text(cells["type"]), _bytes(cells["blob"])),
    )


def _key(cells: Mapping[str, Cell], last: CheckpointKey) -> CheckpointKey:
    """The key of a row; the last one if they are equal."""
    checkpoint_id = _text(cells["checkpoint_id"])
    thread_id, ns = _text(cells["thread_id"]), _ns(cells)
    if (
        checkpoint_id == last.checkpoint_id
        and thread_id == last.thread_id
        and ns == last.checkpoint_ns
    ):
        return last
    return CheckpointKey(thread_id, ns, checkpoint_id)


def _ns(cells: Mapping[str, Cell]) -> str:
    return _text(cells["checkpoint_ns"])


def _text(cell: Cell) -> str:
    if cell.__class__ is str:  # as most cells are
        return cell
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "surrogateescape")
    return "" if cell is None else str(cell)


def _bytes(cell: Cell) -> bytes:
    if isinstance(cell, bytes):
        return cell
    return b"" if cell is None else str(cell).encode("utf-8", "surrogatepass")
