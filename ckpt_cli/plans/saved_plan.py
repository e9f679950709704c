"""Saved plans: files that `ckpt apply` carries out.

The first line is the header: which command was planned, with which options, when, and on which
store. What follows depends on the command:

- of a command that removes threads, one line for each thread; see `plan_file`;
- of any other, what was planned, in digests; see `facts`. The command is planned again with
  the same options, time and random numbers, and carried out only if the same comes out.

A plan may come from a stranger. So a plan holds no rows to write and names no key, and a server
that it names is only compared with the one that the user names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from ckpt_backends.discovery import backend_of
from ckpt_backends.errors import UsageError
from ckpt_backends.files.regular_file import open_regular
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.compact_json import compact_json
from ckpt_cli.operations.place import place_of

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
        return cls(str(url), salt, _digest(url, salt), path)

    def is_at(self, url: StoreUrl) -> bool:
        """Return whether a URL leads to it."""
        return self.digest == _digest(url, self.salt)


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
    from ckpt_backends import shell

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

    def records(self) -> Iterator[Any]:
        """Yield the lines after the header. Raises `UsageError` at one that is not JSON."""
        for _, record in self.lines():
            yield record

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
    reason = (error.strerror or str(error)).lower()
    return UsageError(f"cannot {what} the plan '{path}': {reason}", hint="give another file")


def _digest(url: StoreUrl, salt: str) -> str:
    from hashlib import sha256  # late: it loads OpenSSL

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
