"""Plan files: what a purge will remove, one line of JSON per thread, for review.

The first line names the store. Deleting a line keeps its thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ckpt_backends.errors import UsageError
from ckpt_backends.model import StoreInfo
from ckpt_backends.unfinished import writing
from ckpt_cli.core.purge import Doomed, Sums, from_plan, to_plan

FORMAT = 1


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan on disk; its threads are read one by one, as often as needed."""

    path: Path
    store: str
    layout: str
    sums: Sums
    """What will be removed."""
    kept: Sequence[tuple[str, str]]
    """The threads that a rule keeps, with the reason."""

    @property
    def going(self) -> int:
        """Number of threads that will be removed or pruned."""
        return self.sums.threads

    def threads(self) -> Iterator[Doomed]:
        """Yield the threads that will be removed or pruned. Raises `UsageError` at a damaged
        line.
        """
        return (one for one in _threads(self.path) if one.action != "keep")

    def check_store(self, info: StoreInfo) -> None:
        """Raise `UsageError` if the plan was made for another store."""
        if (self.store, self.layout) != (info.url, info.layout):
            raise UsageError(
                f"cannot use the plan '{self.path}' on '{info.url}':"
                f" it was made for the store '{self.store}'",
                hint=f"use `-s {self.store}`, or make a new plan with --plan-out",
            )


def write_plan(path: Path, info: StoreInfo, now: datetime, threads: Iterable[Doomed]) -> PlanFile:
    """Write a plan file, which appears only when it is complete.

    Raises `UsageError` if it cannot be written.
    """
    head = {
        "ckpt_purge_plan": FORMAT,
        "store": info.url,
        "layout": info.layout,
        "made_at": now.isoformat(),
    }
    counted = _Count()
    try:
        with writing(path) as file:
            for record in _all(head, map(counted.see, threads)):
                file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
    except OSError as error:
        raise _unusable("write", path, error) from error
    return PlanFile(path, info.url, info.layout, counted.sums, counted.kept)


def read_plan(path: Path) -> PlanFile:
    """Read a plan file. Raises `UsageError` if it is not a plan file, or damaged."""
    head = next(_records(path), None)
    if not isinstance(head, Mapping) or head.get("ckpt_purge_plan") != FORMAT:
        raise UsageError(
            f"cannot read the plan '{path}': not a purge plan",
            hint="make one with `ckpt purge --older-than 90d --plan-out FILE`",
        )
    counted = _Count()
    for one in _threads(path):
        counted.see(one)
    store, layout = (str(head.get(name, "")) for name in ("store", "layout"))
    return PlanFile(path, store, layout, counted.sums, counted.kept)


class _Count:
    """Counts the threads of a plan while they pass through."""

    def __init__(self) -> None:
        self.sums = Sums()
        self.kept: list[tuple[str, str]] = []

    def see(self, one: Doomed) -> Doomed:
        if one.action == "keep":
            self.kept.append((one.thread_id, one.reason))
        else:
            self.sums.add(one)
        return one


def _threads(path: Path) -> Iterator[Doomed]:
    for number, record in enumerate(_records(path), 1):
        if number == 1:
            continue
        try:
            yield from_plan(record)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise UsageError(
                f"cannot read the plan '{path}': line {number} is damaged",
                hint="make the plan again with --plan-out",
            ) from error


def _all(head: dict[str, Any], threads: Iterable[Doomed]) -> Iterator[dict[str, Any]]:
    yield head
    yield from map(to_plan, threads)


def _records(path: Path) -> Iterator[Any]:
    # Ids that are not UTF-8 are stored as JSON escapes.
    read: Callable[[str], Any] = json.loads
    try:
        with path.open(encoding="utf-8") as file:
            for text in file:
                yield read(text)
    except OSError as error:
        raise _unusable("read", path, error) from error
    except ValueError:
        raise UsageError(
            f"cannot read the plan '{path}': a line is not JSON",
            hint="make the plan again with --plan-out",
        ) from None


def _unusable(what: str, path: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(f"cannot {what} the plan '{path}': {reason}", hint="give another file")
