"""The parts of a thread in the rows of `langgraph dev`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import cast

from ckpt_backends.langgraph_dev.declaration import FORM, JAVASCRIPT_LAYOUT, OLD_FORM
from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes
from ckpt_backends.rows import Cell, Row
from ckpt_backends.sql.tables import BLOBS, CHECKPOINTS
from ckpt_backends.transfer.bodies import version_text
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.sealing import AsStored


def parts_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:
    """The parts that the rows of some threads hold, one thread after the other.

    LangGraph.js stores values in bodies, as its SQLite saver does. Rows of langgraph-checkpoint
    before 2.1 have them there, too; their parts have the form that later releases store. Raises
    `CannotHold` if there is no such form.
    """
    if layout == JAVASCRIPT_LAYOUT:
        yield from _in_order(map(_part, rows))
        return
    for _, of_thread in groupby(rows, lambda row: row.cells["thread_id"]):
        yield from _of_thread(of_thread)


def _of_thread(rows: Iterator[Row]) -> Iterator[Record]:
    first = next(rows)
    parts = map(_part, chain([first], rows))
    # Values come first, and each thread of a later release has some.
    if first.table == BLOBS:
        yield from parts
    else:
        yield from Conversion(OLD_FORM, FORM, AsStored()).of_thread(parts)


def _in_order(parts: Iterable[Record]) -> Iterator[Record]:
    """The parts with the writes of each checkpoint in the order of their task paths, without paths.

    No other saver of LangGraph.js stores paths: the library knows those of a step's tasks. Only the
    order matters, for a DeltaChannel; see `Form.keeps_write_order`.
    """
    for key, some in groupby(parts, lambda one: one.key if one.kind is Kind.WRITE else None):
        if key is None:
            yield from some
        else:
            writes = cast("Iterable[Record]", some)
            for one in sorted(writes, key=lambda one: (one.task_path, one.task_id, one.idx)):
                yield one._replace(task_path="")


def _part(row: Row) -> Record:
    cells = row.cells
    if row.table == BLOBS:
        version = version_text(cells["version"])
        channel = _text(cells["channel"])
        value = _value(cells, "type", "blob")
        return Record.apart(
            _text(cells["thread_id"]), _text(cells["checkpoint_ns"]), channel, version, value
        )
    key = CheckpointKey(
        *(_text(cells[name]) for name in ("thread_id", "checkpoint_ns", "checkpoint_id"))
    )
    if row.table == CHECKPOINTS:
        return Record.checkpoint(
            key,
            cast("str | None", cells["parent_checkpoint_id"]),
            _value(cells, "type", "checkpoint"),
            _value(cells, "metadata_type", "metadata"),
        )
    return Record.write(
        key,
        _text(cells["task_id"]),
        _text(cells["task_path"] or ""),
        cast("int", cells["idx"]),
        _text(cells["channel"]),
        _value(cells, "type", "blob"),
    )


def _value(cells: Mapping[str, Cell], tag: str, data: str) -> TypedBytes:
    return TypedBytes(_text(cells[tag]), cast("bytes", cells[data]))


def _text(cell: Cell) -> str:
    return cast("str", cell)
