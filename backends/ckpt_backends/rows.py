"""Rows of a store exactly as they are stored: for archives, and to change values in them."""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any, NamedTuple, TypeAlias

from ckpt_backends.errors import Refused, StoreChanged, Unsupported
from ckpt_backends.model import TypedBytes

Cell = None | int | float | str | bytes


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, or its counterpart in a layout without tables."""

    table: str
    """The table without its schema; the kind of key or the collection if there are no tables."""
    cells: Mapping[str, Cell]
    """By column, as the engine returns it. Types other than numbers, text and bytes, such as
    PostgreSQL's `jsonb`, are in the engine's text form."""

    @property
    def size(self) -> int:
        """The length of its texts and bytes."""
        return sum(len(cell) for cell in self.cells.values() if isinstance(cell, str | bytes))


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of restoring rows."""

    added: int
    there: int
    """Number of rows that already exist and are equal in every cell."""
    expired: int = 0
    """Number of rows that were left out because their time to live has ended."""


@contextmanager
def reread(rows: Iterable[Row]) -> Iterator[Callable[[], Iterator[Row]]]:
    """Make rows readable several times by storing them in a temporary file.

    Yields a function that returns an iterator over all rows.
    """
    from tempfile import TemporaryFile  # late: all who read rows import this module

    with TemporaryFile() as file:
        for row in rows:
            cells = {name: _as_json(cell) for name, cell in row.cells.items()}
            file.write(json.dumps([row.table, cells]).encode() + b"\n")

        def again() -> Iterator[Row]:
            file.seek(0)
            for line in file:
                table, cells = json.loads(line)
                yield Row(table, {name: _of_json(cell) for name, cell in cells.items()})

        yield again


def _as_json(cell: Cell) -> object:
    return [b64encode(cell).decode()] if isinstance(cell, bytes) else cell


def _of_json(cell: Any) -> Cell:
    found: Cell = b64decode(cell[0]) if isinstance(cell, list) else cell
    return found


_SHORT = 64
_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "version")
"""The columns of LangGraph's primary keys. Rows other than writes also use `channel`."""


def sql_key(row: Row) -> Hashable:
    """The primary key of a row in LangGraph's SQL tables."""
    names = _KEY if "task_id" in row.cells else (*_KEY, "channel")
    return row.table, *((name, row.cells[name]) for name in names if name in row.cells)


def own_rows(
    thread_id: str, rows: Iterable[Row], columns: Mapping[str, Collection[str]]
) -> Iterator[Row]:
    """The same rows of LangGraph's SQL tables, if all belong to a thread.

    `columns` maps each table of threads to its columns. Raises `Refused` and `Unsupported`.
    """
    for row in rows:
        check_columns(row, columns, {"thread_id", "checkpoint_ns"})
        if row.cells["thread_id"] != thread_id:
            raise not_of(row.table, row.cells["thread_id"], thread_id)
        yield row


def check_columns(
    row: Row, columns: Mapping[str, Collection[str]], needed: Collection[str]
) -> None:
    """Raise `Refused` or `Unsupported` unless a row has only columns of its table.

    It must have those of the `needed` columns that its table has.
    """
    if row.table not in columns:
        raise no_table(row.table)
    if unknown := row.cells.keys() - set(columns[row.table]):
        raise Unsupported(
            f"table '{row.table}' has no column '{min(unknown)}' here",
            hint="the archive comes from a newer saver: run setup() of that release once",
        )
    if missing := {*needed} & {*columns[row.table]} - row.cells.keys():
        raise Refused(f"a row of '{row.table}' has no '{min(missing)}'")


def no_table(table: str) -> Refused:
    """The error for an archived row of a table that holds no rows of threads, or of items."""
    return Refused(f"it has a row of '{table}', which is not archived in this layout")


def not_of(table: str, found: object, thread_id: str) -> Refused:
    """The error for an archived row of another thread than the archive's."""
    shown = f"thread '{found}'" if isinstance(found, str) else "no thread"
    return Refused(f"a row of '{table}' belongs to {shown}, not to '{thread_id}'")


def conflict(table: str) -> StoreChanged:
    """The error for a row that exists with different contents."""
    return StoreChanged(
        f"a row of '{table}' exists with different contents",
        hint="the thread was used since then: save it with `ckpt copy THREAD --as NEW`,"
        " then `ckpt threads delete THREAD`, and import again",
    )


class Standing(Enum):
    """What a store has in the place of an archived row."""

    MISSING = auto()
    EQUAL = auto()
    EXPIRED = auto()
    """Nothing has to be restored: the time to live of the archived row has ended."""


def standing_of(
    rows: Iterable[Row], stored: Callable[[str], Iterable[Row]], key_of: Callable[[Row], Hashable]
) -> Iterator[tuple[Row, Standing]]:
    """The archived rows, each with what is stored in its place.

    `stored` returns the stored rows of a thread. Raises `StoreChanged` for a row that exists with
    different contents.
    """
    known: dict[Hashable, dict[str, Cell]] = {}
    read: set[str] = set()
    now = time.time() * 1000
    for row in rows:
        thread_id = str(row.cells.get("thread_id"))
        if thread_id not in read:
            read.add(thread_id)
            known |= {key_of(one): _digests(one) for one in stored(thread_id)}
        yield row, _standing(row, known.get(key_of(row)), now)


def _standing(row: Row, found: Mapping[str, Cell] | None, now: float) -> Standing:
    """What is stored in place of a row; `found` are the digests of the row that is there."""
    cells, expires_at = _digests(row), row.cells.get("expires_at")
    if isinstance(expires_at, int) and expires_at <= now:
        return Standing.EXPIRED
    if found is None or is_part(row.cells.get("type"), found, cells):
        return Standing.MISSING
    if {name: one for name, one in found.items() if name in cells or name[0] == "."} == cells:
        return Standing.EQUAL
    raise conflict(row.table)


def is_part(kind: Cell, found: Mapping[str, Cell], cells: Mapping[str, Cell]) -> bool:
    """Whether a stored list or sorted set of Redis lacks members of an archived one, and has no
    others: a prune removed them. The names of the cells of members begin with a dot.

    False for a list with equal elements: the places of the missing ones cannot be told.
    """
    if kind == "zset":
        return _members(found).items() < _members(cells).items()
    if kind == "list":
        wanted, stored = elements(cells), elements(found)
        left = iter(wanted)
        is_clear = len(set(wanted)) == len(wanted) > len(stored)
        return is_clear and all(one in left for one in stored)
    return False


def _members(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    return {name: cell for name, cell in cells.items() if name.startswith(".")}


def elements(cells: Mapping[str, Cell]) -> list[Cell]:
    """The elements of a list of Redis, in order."""
    members = _members(cells)
    return [members[name] for name in sorted(members, key=lambda name: int(name[1:]))]


def compare(
    rows: Iterable[Row], stored: Iterable[Row], key_of: Callable[[Row], Hashable]
) -> Restored:
    """The result that `restore` would have for these rows, given the rows that are stored.

    Raises `StoreChanged` if a row exists with different contents.
    """
    known = {key_of(row): _digests(row) for row in stored}
    now = time.time() * 1000
    found = Counter(_standing(row, known.get(key_of(row)), now) for row in rows)
    return restored(found)


def restored(counts: Mapping[Standing, int]) -> Restored:
    """The result of restoring rows, from their numbers; a missing row was added."""
    one = counts.get
    return Restored(one(Standing.MISSING, 0), one(Standing.EQUAL, 0), one(Standing.EXPIRED, 0))


def _digests(row: Row) -> dict[str, Cell]:
    """The cells of a row without its time of expiry, with long cells replaced by their SHA-256.

    `compare` ignores a stored column that the archived row does not have. The members of a Redis
    key are always compared: their names begin with a dot.
    """
    return {name: _digest(cell) for name, cell in row.cells.items() if name != "expires_at"}


def _digest(cell: Cell) -> Cell:
    if not isinstance(cell, str | bytes) or len(cell) <= _SHORT:
        return cell
    from hashlib import sha256  # imported late: only `ckpt import` needs it

    data = cell if isinstance(cell, bytes) else cell.encode("utf-8", "surrogatepass")
    return sha256(data).digest()


# The values in rows, as an erasure or a new key takes them one after the other.


class ValueKind(StrEnum):
    """What a stored value is."""

    BODY = "body"
    METADATA = "metadata"
    WHOLE = "whole"
    """A map with the entries `checkpoint`, a body, and `metadata`."""
    VALUE = "value"
    """The value of a channel, stored outside of bodies."""
    WRITE = "write"
    WHOLE_WRITE = "whole write"
    """A list of the task's id, the channel and the value."""


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """One value with its place."""

    kind: ValueKind
    value: TypedBytes
    place: str
    """What no other value of the store has."""
    channel: str = ""

    @property
    def named(self) -> str:
        """What it is, for a message."""
        if self.channel:
            return f"a value of channel '{self.channel}'"
        return f"the {self.kind} of a checkpoint"


ChangeValue: TypeAlias = Callable[[PlacedValue], TypedBytes]
"""Returns the value as it is to be stored; the same object if nothing changes."""
EditRow: TypeAlias = Callable[[str, Row, ChangeValue], Row]
"""Maps a layout, a row and the change of its values to the new row; the same one if it is equal.

Everything else of the row stays as it is, byte for byte. The type of a value is stored with it.
"""


class RowEdit(NamedTuple):
    """A stored row with the contents that it is to have."""

    stored: Row
    new: Row
