"""Plans in files: written by --plan-out, carried out by `ckpt apply`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b, scrypt, sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from ckpt_backends import shell
from ckpt_backends.changes import Change, change_record
from ckpt_backends.declaration import backend_of
from ckpt_backends.errors import StoreChanged, UsageError, reason_of
from ckpt_backends.files import open_regular, writing
from ckpt_backends.memory import ItemKey, MemoryStore
from ckpt_backends.rows import Cell, Row
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.copying import CopiedItem
from ckpt_cli.core.values import compact_json
from ckpt_cli.operations.log import OperationStep, place_of, step_record
from ckpt_cli.plans.proposal import Proposal

_BYTES = 16
_EXPIRY = "expires_at"
"""The cell that changes when a thread is only read, where reading extends its time to live."""


def rows_digest(rows: Iterable[Row]) -> str:
    """Return the number of rows and a digest of them, which does not depend on their order."""
    number = total = 0
    for row in rows:
        number += 1
        total = (total + int.from_bytes(_row_digest(row), "big")) % (1 << 8 * _BYTES)
    return f"{number} {total:0{2 * _BYTES}x}"


def _row_digest(row: Row) -> bytes:
    digest = blake2b(digest_size=_BYTES)
    for text in (row.table, *_cells(row)):
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def _cells(row: Row) -> Iterable[str | bytes]:
    for name in sorted(row.cells.keys() - {_EXPIRY}):
        cell = row.cells[name]
        yield name
        yield type(cell).__name__
        yield _text(cell)


def _text(cell: Cell) -> str | bytes:
    return cell if isinstance(cell, str | bytes) else repr(cell)


class StoredRows(Protocol):
    """A store, or an archive, with rows as stored."""

    def rows(self, thread_id: str) -> Iterator[Row]:
        """All rows of a thread."""
        ...


def thread_fact(thread_id: str, **stores: StoredRows | None) -> dict[str, Any]:
    """Return digests of all rows that some stores have of a thread, by the given names.

    None is a store that is not made yet.
    """
    found = {
        name: None if store is None else rows_digest(store.rows(thread_id))
        for name, store in stores.items()
    }
    return {"thread_id": thread_id, **found}


def item_fact(memory: MemoryStore, key: ItemKey) -> dict[str, Any]:
    """Return the key of an item and a digest of its rows."""
    return {"namespace": list(key.namespace), "key": key.key, "rows": rows_digest(memory.rows(key))}


def key_fact(salt: str, key: bytes | None) -> str | None:
    """Return a digest of a key, which takes long to guess from."""
    if key is None:
        return None
    return scrypt(key, salt=salt.encode(), n=1 << 14, r=8, p=1, dklen=16).hex()


def _digest(record: Mapping[str, Any]) -> str:
    return sha256(json.dumps(record, separators=(",", ":"), sort_keys=True).encode()).hexdigest()


FORMAT = 1
_LONGEST_LINE = 256 << 20
"""A thread with a million checkpoints needs some 100 MiB."""

_YEARS = range(2020, 9000)
"""Years with which times can be computed, and that a clock may show."""

PlanKind = Literal["command", "removal"]


@dataclass(frozen=True, slots=True)
class PlannedStore:
    """A store for which a plan was made."""

    name: str
    """Its URL without secrets; `''` if the command needs no store."""
    salt: str = ""
    """Keeps others from comparing the digest with digests of guesses."""
    digest: str = ""
    """Of the salt and of where the store is."""
    path: str = ""
    """The absolute path, if it is a local file or folder; `''` if its URL has parameters, or
    variables of a profile."""

    @classmethod
    def of(cls, url: StoreUrl) -> PlannedStore:
        """Return the store with a URL."""
        salt = os.urandom(16).hex()
        backend = backend_of(url.scheme)
        is_plain = backend is not None and backend.is_local and not (url.params or url.variables)
        path = os.path.realpath(url.path) if is_plain and url.path else ""
        return cls(str(url), salt, _url_digest(url, salt), path)

    def is_at(self, url: StoreUrl) -> bool:
        """Return whether a URL leads to it."""
        return self.digest == _url_digest(url, self.salt)


NO_STORE = PlannedStore("")


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """The first line of a saved plan."""

    action: str
    """The words of the command, such as `repair messages`."""
    kind: PlanKind
    store: PlannedStore
    layout: str
    """Of the store; `''` if the command compares rows anyway."""
    made_at: datetime
    command: str = ""
    """The command line without secrets and values."""
    reason: str | None = None
    seed: str = ""
    """Of the random numbers in new ids."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The arguments and options of the command that are not as by default."""
    again: tuple[str, ...] = ()
    """The options that were given and are not stored, such as the file of a key."""
    target: PlannedStore = NO_STORE
    """Where it copies to."""
    by: str = ""
    """The release of `ckpt` that made it."""

    def check_layout(self, path: Path, layout: str) -> None:
        """Raise `UsageError` if the store has another layout than the plan says."""
        if self.layout != layout:
            raise UsageError(
                f"cannot use the plan '{path}': it was made for the layout '{self.layout}',"
                f" and the store has '{layout}'",
                hint="make a new plan with --plan-out",
            )


def check_place(path: Path, planned: PlannedStore, url: StoreUrl, option: str = "-s") -> None:
    """Raise `UsageError` if a plan was made for another store than the one at a URL."""
    if planned.is_at(url):
        return
    start = f"cannot use the plan '{path}' on '{url}'"
    if url.variables and planned.name == str(url):
        raise UsageError(
            f"{start}: it was made with other values of the environment variables",
            hint="make a new plan with --plan-out",
        )
    raise UsageError(
        f"{start}: it was made for the store '{planned.name}'",
        hint=f"use `{option} {shell.word(planned.name)}`, or make a new plan with --plan-out",
    )


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan on disk. Nobody else can write the copy that is read."""

    path: Path
    """Its file, for messages."""
    copy: Path
    header: PlanHeader

    def lines(self) -> Iterator[tuple[str, Any]]:
        """Yield the lines after the header, each with what it holds.

        Raises `UsageError` at one that is not JSON.
        """
        lines = _lines(self.path, self.copy)
        next(lines)
        yield from lines


def read_saved_plan(path: Path, folder: Path) -> SavedPlan:
    """Read the header of a plan, and copy the file into a private folder.

    Raises `UsageError` if it is not a plan or damaged, and `StoreUnavailable` if it is not a
    regular file.
    """
    copy = folder / "plan.ndjson"
    try:
        with open_regular(path) as file, copy.open("xb") as out:
            while text := file.readline(_LONGEST_LINE + 1):
                if len(text) > _LONGEST_LINE:
                    raise damaged(path, "a line is longer than 256 MiB")
                out.write(text)
    except OSError as error:
        raise unusable("read", path, error) from error
    _, head = next(_lines(path, copy), ("", None))
    if not isinstance(head, Mapping) or head.get("ckpt_plan") != FORMAT:
        raise UsageError(
            f"cannot read the plan '{path}': it is not a plan of ckpt",
            hint="make one with --plan-out FILE",
        )
    try:
        return SavedPlan(path, copy, header_from_record(head))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise damaged(path, "its first line is damaged") from error


def header_record(one: PlanHeader) -> dict[str, Any]:
    """Return a header as a JSON object."""
    return {
        "ckpt_plan": FORMAT,
        "action": one.action,
        "kind": one.kind,
        **_store_record(one.store),
        "layout": one.layout,
        "made_at": one.made_at.isoformat(),
        "command": one.command,
        "reason": one.reason,
        "seed": one.seed,
        "options": dict(one.options),
        "again": list(one.again),
        **({} if one.target == NO_STORE else {"target": _store_record(one.target)}),
        "by": one.by,
    }


def header_from_record(record: Mapping[str, Any]) -> PlanHeader:
    """Parse a header. Raises `ValueError`, `KeyError`, `TypeError` or `AttributeError`."""
    kind, reason = record["kind"], record["reason"]
    if kind not in {"command", "removal"}:
        raise ValueError(kind)
    made_at = datetime.fromisoformat(record["made_at"])
    if made_at.tzinfo is None or made_at.year not in _YEARS:
        raise ValueError(made_at)
    return PlanHeader(
        action=str(record["action"]),
        kind=kind,
        store=_store_from(record),
        layout=str(record["layout"]),
        made_at=made_at,
        command=str(record["command"]),
        reason=None if reason is None else str(reason),
        seed=str(record["seed"]),
        options={str(name): value for name, value in record["options"].items()},
        again=tuple(map(str, record["again"])),
        target=_store_from(record["target"]) if "target" in record else NO_STORE,
        by=str(record["by"]),
    )


def line_of(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line of a plan."""
    return compact_json(record).encode() + b"\n"


def damaged(path: Path, why: str) -> UsageError:
    """Return the error for a plan that cannot be read."""
    return UsageError(
        f"cannot read the plan '{path}': {why}", hint="make the plan again with --plan-out"
    )


def unusable(what: str, path: Path, error: OSError) -> UsageError:
    """Return the error for a plan that cannot be opened or written."""
    reason = reason_of(error)
    return UsageError(f"cannot {what} the plan '{path}': {reason}", hint="give another file")


def _url_digest(url: StoreUrl, salt: str) -> str:
    return sha256(f"{salt}{place_of(url)}".encode()).hexdigest()[:32]


def _store_record(one: PlannedStore) -> dict[str, str]:
    return {"store": one.name, "path": one.path, "salt": one.salt, "place": one.digest}


def _store_from(record: Mapping[str, Any]) -> PlannedStore:
    return PlannedStore(*(str(record[name]) for name in ("store", "salt", "place", "path")))


def _lines(path: Path, copy: Path) -> Iterator[tuple[str, Any]]:
    try:
        with copy.open("rb") as file:
            for data in file:
                # Ids that are not UTF-8 are stored as JSON escapes.
                text = data.decode()
                yield text, json.loads(text)
    except OSError as error:
        raise unusable("read", path, error) from error
    except (ValueError, RecursionError):
        raise damaged(path, "a line is not JSON") from None


# A run that saves a plan, or applies one: the facts of the plan, one line each.
#
# A run that saves a plan writes them; a run that applies it compares them with what it plans,
# before anything is written. The last line is a digest of the file, by which a damaged one is
# found.


class PlanReview:
    """A run that saves a plan, or applies one.

    A command tells it each fact of its plan, before it shows the plan and before it writes. The
    plan of a removal has none: its threads are checked when they are removed.
    """

    is_saved = False
    """Whether the plan is saved, and not applied."""

    def __init__(self, header: PlanHeader) -> None:
        self.header = header

    def see(self, fact: Mapping[str, Any]) -> None:
        """Write a fact of the plan, or compare it with the next one of the saved plan.

        Raises `StoreChanged` if it is another one.
        """

    def check_complete(self) -> None:
        """Raise `StoreChanged` if the saved plan has more facts than were seen."""

    def see_change(self, change: Change, rows: StoredRows) -> None:
        """See a change as it will be applied: its digest, with some facts for a reader.

        `rows` is the store as stored: what the change copies is only named in it.
        """
        sources = sorted({one.source.thread_id for one in change.copies})
        self.see(
            {
                "thread_id": change.thread_id,
                "heads": dict(change.heads),
                "adds": [one.key.checkpoint_id for one in change.checkpoints],
                "removes": [key.checkpoint_id for key in change.removed or ()],
                "copies": {one: rows_digest(rows.rows(one)) for one in sources},
                "sha256": _digest(change_record(change)),
            }
        )

    def see_thread(self, thread_id: str, **stores: StoredRows | None) -> None:
        """See all rows that some stores have of a thread; None is a store that is not made yet."""
        self.see(thread_fact(thread_id, **stores))

    def see_item(self, memory: MemoryStore, key: ItemKey) -> None:
        """See an item of long-term memory."""
        self.see(item_fact(memory, key))

    def see_copied(self, one: CopiedItem) -> None:
        """See what would become of an item that is copied."""
        self.see(
            {
                "namespace": list(one.key.namespace),
                "key": one.key.key,
                "step": one.step.value,
                "digest": one.digest.hex(),
                "there": one.there.hex(),
                "reason": one.reason,
            }
        )

    def see_step(self, one: Proposal, rows: StoredRows | None) -> None:
        """See the thread of a step, what it has, and a digest of what takes the step back.

        `rows` is the store as stored; None for steps of long-term memory, which have no thread.
        """
        thread_id, back = one.thread_id, one.takes_back
        if one.step is None or back is None:
            self.see({"thread_id": thread_id, "refused": True})
            return
        digest = _digest(step_record(OperationStep(thread_id, one.step.done, back.done)))
        there = {} if thread_id is None else thread_fact(thread_id, rows=rows)
        self.see({"thread_id": thread_id, **there, "sha256": digest})

    def see_keys(self, *keys: bytes | None) -> None:
        """See keys that are not stored in the plan."""
        self.see({"keys": [key_fact(self.header.seed, one) for one in keys]})


class FactWriter(PlanReview):
    """Writes the facts of a plan that is saved."""

    is_saved = True

    def __init__(self, file: BinaryIO, header: PlanHeader) -> None:
        super().__init__(header)
        self._file = file
        self._digest = sha256()
        self._number = 0
        self._write(header_record(header))

    def see(self, fact: Mapping[str, Any]) -> None:
        """Write a fact."""
        self._number += 1
        self._write(fact)

    def end(self) -> None:
        """Write the last line."""
        self._write({"facts": self._number, "sha256": self._digest.hexdigest()})

    def _write(self, record: Mapping[str, Any]) -> None:
        line = line_of(record)
        self._digest.update(line)
        self._file.write(line)


class FactCheck(PlanReview):
    """Compares what is planned now with the facts of a saved plan."""

    def __init__(self, plan: SavedPlan) -> None:
        """Raise `UsageError` if the plan is damaged."""
        super().__init__(plan.header)
        self._plan = plan
        self._left = _number_of_facts(plan)
        self._facts = (fact for _, fact in plan.lines())

    @property
    def is_complete(self) -> bool:
        """Whether all facts were seen."""
        return not self._left

    def see(self, fact: Mapping[str, Any]) -> None:
        """Compare a fact with the next one of the plan. Raises `StoreChanged`."""
        saved = next(self._facts) if self._left else None
        # What was written was JSON: tuples are lists there.
        if saved != json.loads(line_of(fact)):
            thread_id = fact.get("thread_id")
            what = "the store" if thread_id is None else f"thread '{thread_id}'"
            raise self.moved(f"{what} changed since the plan was made, so nothing was written")
        self._left -= 1

    def check_complete(self) -> None:
        """Raise `StoreChanged` if the plan has more facts."""
        if self._left:
            raise self.moved("the store changed since the plan was made, so nothing was written")

    def moved(self, why: str) -> StoreChanged:
        """Return the error for a plan that can no longer be carried out."""
        return StoreChanged(
            f"cannot carry out the plan '{self._plan.path}': {why}",
            hint="make a new plan with --plan-out",
        )


@contextmanager
def writing_plan(path: Path, header: PlanHeader) -> Iterator[FactWriter]:
    """Write a plan file, which appears only when it is complete. Raises `UsageError`."""
    try:
        with writing(path) as file:
            facts = FactWriter(file, header)
            yield facts
            facts.end()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unusable("write", path, error) from error


def _number_of_facts(plan: SavedPlan) -> int:
    """Return how many facts a plan has. Raises `UsageError` if it is damaged."""
    digest = sha256()
    number, last = 0, b""
    try:
        with plan.copy.open("rb") as file:
            for number, line in enumerate(file):
                if number:
                    digest.update(last)
                last = line
    except OSError as error:
        raise unusable("read", plan.path, error) from error
    if last != line_of({"facts": number - 1, "sha256": digest.hexdigest()}):
        raise damaged(plan.path, "it is incomplete, or was edited")
    return number - 1
