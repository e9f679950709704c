"""Entries of the files that no saver writes, and threads whose entries contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.langgraph_dev.tables import Tables
from ckpt_backends.model import Fault

_OF_VALUES = ("a checkpoint's writes", "a write", "a value")


def entry_faults(tables: Tables) -> Iterator[Fault]:
    """A fault for each entry of a file that has another form than the saver's."""
    _ = tables.checkpoints, tables.writes, tables.blobs  # parse the files
    for entry in tables.ignored:
        code = "value-unreadable" if entry.startswith(_OF_VALUES) else "body-unreadable"
        yield Fault(code, f"an entry that no saver writes: {entry}")


def suspects(tables: Tables) -> Iterator[str]:
    """The ids of the threads that `Store.suspect_threads` promises."""
    for thread_id in {**tables.checkpoints, **tables.writes_of}:
        if _is_suspect(tables, thread_id):
            yield thread_id


def _is_suspect(tables: Tables, thread_id: str) -> bool:
    namespaces = tables.checkpoints.get(thread_id, {})
    for rows in namespaces.values():
        for own, row in rows.items():
            if row.parent is not None and (row.parent not in rows or row.parent >= own):
                return True
    return any(
        own not in namespaces.get(ns, {}) for _, ns, own in tables.writes_of.get(thread_id, ())
    )
