"""Shared facts about LangGraph's savers that keep values in a table of blobs.

They use three tables: checkpoint bodies, writes, and channel values ("blobs"). A body names the
version of each channel's value; the value itself is in the blobs table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ckpt_backends import shell
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.model import COPY_INSTEAD, Blob, TypedBytes

CHECKPOINTS, BLOBS, WRITES = "checkpoints", "checkpoint_blobs", "checkpoint_writes"
NAMES = (CHECKPOINTS, BLOBS, WRITES)
_KNOWN = {*NAMES, "checkpoint_migrations"}

_SHALLOW: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: frozenset({"thread_id", "checkpoint_ns", "checkpoint", "metadata"}),
    BLOBS: frozenset({"thread_id", "checkpoint_ns", "channel", "type", "blob"}),
    WRITES: frozenset(
        {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "blob"}
    ),
}
_FULL: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: _SHALLOW[CHECKPOINTS] | {"checkpoint_id", "parent_checkpoint_id"},
    BLOBS: _SHALLOW[BLOBS] | {"version"},
    WRITES: _SHALLOW[WRITES],
}

NEEDED = {True: _SHALLOW, False: _FULL}
"""By whether a layout is shallow, the columns that every release of its saver creates."""


STORED = Blob("", 0)
"""A value of which only is known that it is stored."""


def missing_columns(columns: Mapping[str, Set[str]], needed: Mapping[str, Set[str]]) -> list[str]:
    """The needed columns that are missing from these tables, as `table.column`."""
    return [
        f"{name}.{column}"
        for name, wanted in needed.items()
        for column in sorted(wanted - columns.get(name, frozenset()))
    ]


def unknown_columns(
    columns: Mapping[str, Set[str]],
    also: Mapping[str, Set[str]],
    needed: Mapping[str, Set[str]] = _FULL,
) -> tuple[str, ...]:
    """The columns that no release of the saver creates, as `table.column`.

    `also` lists by table the columns that only some releases create.
    """
    return tuple(
        f"{name}.{column}"
        for name, known in needed.items()
        for column in sorted(columns[name] - known - also.get(name, frozenset()))
    )


def why_only_read(unknown: Sequence[str], required: Sequence[str]) -> str:
    """Why `ckpt` adds nothing to tables; `''` if it does.

    `unknown` is what no release of the saver creates, `required` the columns among it, each as
    `table.column`, that have no default and must have a value.
    """
    tables: dict[str, list[str]] = {}
    for one in required:
        table, _, column = one.partition(".")
        tables.setdefault(column, []).append(f"'{table}'")
    if tables:
        columns = [f"{shell.name(name)} of {', '.join(found)}" for name, found in tables.items()]
        return (
            f"column{'s' if len(columns) > 1 else ''} {' and '.join(columns)}"
            " must have a value, and ckpt does not know it"
        )
    if not unknown:
        return ""
    return f"it has what no known saver creates: {', '.join(map(shell.word, unknown))}"


def with_extras(saver: str, unknown: Sequence[str], tables: Iterable[str] = ()) -> str:
    """The saver in words, with what an application, or a fork of the saver, added.

    `unknown` has columns as `table.column`; of `tables`, those count that are named like the
    saver's.
    """
    columns = {one.rpartition(".")[2] for one in unknown if "." in one}
    others = {one for one in tables if one.startswith("checkpoint") and one not in _KNOWN}
    extras = [
        f"extra {noun}{'s' if len(names) > 1 else ''} {', '.join(map(shell.name, sorted(names)))}"
        for noun, names in (("column", columns), ("table", others))
        if names
    ]
    return f"{saver}, with {' and '.join(extras)}" if extras else saver


def not_changed(where: str, reason: str) -> UnknownLayout:
    """The error for tables that `ckpt` only reads."""
    return UnknownLayout(f"cannot write to '{where}': {reason}", hint=COPY_INSTEAD)


def unknown_tables(where: str, missing: Iterable[str]) -> UnknownLayout:
    """The error for tables that lack something."""
    return UnknownLayout(
        f"unknown layout of the checkpoint tables in '{where}'",
        hint=f"missing {', '.join(missing)}",
    )


def too_old(where: str) -> UnknownLayout:
    """The error for tables of LangGraph 0.1."""
    return UnknownLayout(
        f"'{where}' was written by LangGraph 0.1 or earlier (column 'thread_ts')",
        hint="only langgraph 0.1 reads it; no later release converts it, and ckpt does not either",
    )


def check_wanted(wanted: str | None, layout: str, where: str) -> None:
    """Raise `UnknownLayout` if the URL names another layout than that of the tables."""
    if wanted not in {None, layout}:
        raise UnknownLayout(
            f"'{where}' does not hold the layout '{wanted}'",
            hint=f"it holds '{layout}': remove `layout` from the URL",
        )


def json_bytes(text: str | None) -> TypedBytes:
    """A checkpoint body or metadata from the JSON text that the engine returns."""
    return TypedBytes("json", (text or "null").encode())


# The layout of LangGraph's savers that keep values in a table of blobs.


Table = TypeVar("Table", bound=Any)


@dataclass(frozen=True, slots=True)
class BlobLayout(Generic[Table]):
    """The layout as found in one database."""

    checkpoints: Table
    blobs: Table
    writes: Table
    shallow: bool
    """Whether it stores only the newest state, without checkpoint ids and versions."""
    unknown: tuple[str, ...]
    """What no known saver creates, such as `table.column`. A newer saver may have done so."""

    required: tuple[str, ...]
    """Of the unknown columns, those that have no default and must have a value."""

    @property
    def only_read(self) -> str:
        """Why `ckpt` adds nothing to the tables; `''` if it does."""
        return why_only_read(self.unknown, self.required)

    @property
    def task_path(self) -> bool:
        """Whether the writes have the column `task_path`."""
        return bool("task_path" in self.writes.columns)

    @property
    def tables(self) -> tuple[Table, Table, Table]:
        return self.checkpoints, self.blobs, self.writes
