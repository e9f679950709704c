"""Plan files: what a purge will remove, one line of JSON per thread, for review.

The first line names the store. Deleting a line keeps its thread. A plan that is carried out is
copied first: what is shown, asked and removed is read from the private copy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ckpt_backends import shell
from ckpt_backends.errors import UsageError
from ckpt_backends.files.atomic_write import writing
from ckpt_backends.files.regular_file import open_regular
from ckpt_backends.model import StoreInfo
from ckpt_backends.url import StoreUrl, fingerprint
from ckpt_cli.core.retention.purge_plan import (
    PlannedRemoval,
    PurgeSums,
    from_plan_line,
    to_plan_line,
)

FORMAT = 1
_LONGEST_LINE = 256 << 20
"""A thread with a million checkpoints needs some 100 MiB."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan on disk; its threads are read one by one, as often as needed."""

    path: Path
    """Its file, for messages."""
    copy: Path
    """The file that is read. Nobody else can write it."""
    store: str
    layout: str
    sums: PurgeSums
    """What will be removed."""
    kept: Sequence[tuple[str, str]]
    """The threads that a rule keeps, with the reason."""
    place: tuple[str, str] | None = None
    """A salt and the fingerprint of the store, if its URL has variables of a profile."""

    @property
    def going(self) -> int:
        """Number of threads that will be removed or pruned."""
        return self.sums.threads

    def threads(self) -> Iterator[PlannedRemoval]:
        """Yield the threads that will be removed or pruned. Raises `UsageError` at a damaged
        line.
        """
        return (one for one in _threads(self.path, self.copy) if one.action != "keep")

    def check_store(self, info: StoreInfo, url: StoreUrl) -> None:
        """Raise `UsageError` if the plan was made for another store."""
        if self.place is not None and self.place[1] != fingerprint(url, self.place[0]):
            raise UsageError(
                f"cannot use the plan '{self.path}' on '{info.url}': it was made with other values"
                " of the environment variables",
                hint="make a new plan with --plan-out",
            )
        if (self.store, self.layout) != (info.url, info.layout):
            raise UsageError(
                f"cannot use the plan '{self.path}' on '{info.url}':"
                f" it was made for the store '{self.store}'",
                hint=f"use `-s {shell.word(self.store)}`, or make a new plan with --plan-out",
            )


def write_plan(
    path: Path,
    info: StoreInfo,
    now: datetime,
    threads: Iterable[PlannedRemoval],
    url: StoreUrl | None = None,
) -> PlanFile:
    """Write a plan file, which appears only when it is complete.

    The URL is needed for a plan that another run will check.

    Raises `UsageError` if it cannot be written.
    """
    head: dict[str, Any] = {
        "ckpt_purge_plan": FORMAT,
        "store": info.url,
        "layout": info.layout,
        "made_at": now.isoformat(),
    }
    if url is not None and url.variables:
        salt = os.urandom(16).hex()
        head |= {"salt": salt, "fingerprint": fingerprint(url, salt)}
    counted = _Count()
    try:
        with writing(path) as file:
            for record in _all(head, map(counted.see, threads)):
                file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
    except OSError as error:
        raise _unusable("write", path, error) from error
    return PlanFile(path, path, info.url, info.layout, counted.sums, counted.kept)


def read_plan(path: Path, folder: Path) -> PlanFile:
    """Read a plan file, and copy it into a private folder.

    Raises `UsageError` if it is not a plan file, or damaged, and `StoreUnavailable` if it is not a
    regular file.
    """
    copy = folder / "plan.ndjson"
    try:
        with open_regular(path) as file, copy.open("xb") as out:
            while text := file.readline(_LONGEST_LINE + 1):
                if len(text) > _LONGEST_LINE:
                    raise _damaged(path, "a line is longer than 256 MiB")
                out.write(text)
    except OSError as error:
        raise _unusable("read", path, error) from error
    head = next(_records(path, copy), None)
    if not isinstance(head, Mapping) or head.get("ckpt_purge_plan") != FORMAT:
        raise UsageError(
            f"cannot read the plan '{path}': not a purge plan",
            hint="make one with `ckpt purge --older-than 90d --plan-out FILE`",
        )
    counted = _Count()
    for one in _threads(path, copy):
        counted.see(one)
    store, layout = (str(head.get(name, "")) for name in ("store", "layout"))
    place = None
    if "fingerprint" in head:
        place = str(head.get("salt", "")), str(head["fingerprint"])
    return PlanFile(path, copy, store, layout, counted.sums, counted.kept, place)


class _Count:
    """Counts the threads of a plan while they pass through."""

    def __init__(self) -> None:
        self.sums = PurgeSums()
        self.kept: list[tuple[str, str]] = []

    def see(self, one: PlannedRemoval) -> PlannedRemoval:
        if one.action == "keep":
            self.kept.append((one.thread_id, one.reason))
        else:
            self.sums.add(one)
        return one


def _threads(path: Path, copy: Path) -> Iterator[PlannedRemoval]:
    for number, record in enumerate(_records(path, copy), 1):
        if number == 1:
            continue
        try:
            yield from_plan_line(record)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise _damaged(path, f"line {number} is damaged") from error


def _all(head: dict[str, Any], threads: Iterable[PlannedRemoval]) -> Iterator[dict[str, Any]]:
    yield head
    yield from map(to_plan_line, threads)


def _records(path: Path, copy: Path) -> Iterator[Any]:
    # Ids that are not UTF-8 are stored as JSON escapes.
    read: Callable[[str], Any] = json.loads
    try:
        with copy.open("rb") as file:
            for text in file:
                yield read(text.decode())
    except OSError as error:
        raise _unusable("read", path, error) from error
    except (ValueError, RecursionError):
        raise _damaged(path, "a line is not JSON") from None


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(
        f"cannot read the plan '{path}': {why}", hint="make the plan again with --plan-out"
    )


def _unusable(what: str, path: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(f"cannot {what} the plan '{path}': {reason}", hint="give another file")
