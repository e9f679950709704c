"""Plan files: what a purge is to remove, a line of JSON a thread, so that it can be reviewed.

The first line says of which store it is. A line that is taken out spares its thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ckpt_backends.errors import UsageError
from ckpt_backends.model import StoreInfo
from ckpt_cli.core.purge import Doomed, from_plan, to_plan

FORMAT = 1


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan on disk; the threads that go are read one by one, as often as need be."""

    path: Path
    store: str
    layout: str
    going: int
    """How many of its threads go, whole or in part."""
    kept: Sequence[tuple[str, str]]
    """The threads that a rule keeps, and why."""

    def threads(self) -> Iterator[Doomed]:
        """The threads that go. Raises `UsageError` at a line that is none."""
        return (one for one in _threads(self.path) if one.action != "keep")

    def check_store(self, info: StoreInfo) -> None:
        """Raise `UsageError` where the plan is of another store."""
        if (self.store, self.layout) != (info.url, info.layout):
            raise UsageError(
                f"the plan '{self.path}' is of the store '{self.store}', not of '{info.url}'",
                hint="name that store with -s, or make a plan of this one with --plan-out",
            )


def write_plan(path: Path, info: StoreInfo, now: datetime, threads: Iterable[Doomed]) -> PlanFile:
    """Write a plan; it is there only when it is whole. Raises `UsageError`."""
    head = {
        "ckpt_purge_plan": FORMAT,
        "store": info.url,
        "layout": info.layout,
        "made_at": now.isoformat(),
    }
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    counted = _Count()
    try:
        with beside.open("w", encoding="utf-8") as file:
            for record in _all(head, map(counted.see, threads)):
                file.write(json.dumps(record, separators=(",", ":")) + "\n")
        beside.replace(path)
    except OSError as error:
        raise _unusable("write", path, error) from error
    finally:
        with suppress(OSError):
            beside.unlink()
    return PlanFile(path, info.url, info.layout, counted.going, counted.kept)


def read_plan(path: Path) -> PlanFile:
    """A plan that was written. Raises `UsageError` where it is none."""
    head = next(_records(path), None)
    if not isinstance(head, Mapping) or head.get("ckpt_purge_plan") != FORMAT:
        raise UsageError(
            f"'{path}' is no plan of a purge", hint="`ckpt purge ... --plan-out FILE` makes one"
        )
    counted = _Count()
    for one in _threads(path):
        counted.see(one)
    store, layout = (str(head.get(name, "")) for name in ("store", "layout"))
    return PlanFile(path, store, layout, counted.going, counted.kept)


class _Count:
    """What is known of a plan when all of it was seen once."""

    def __init__(self) -> None:
        self.going = 0
        self.kept: list[tuple[str, str]] = []

    def see(self, one: Doomed) -> Doomed:
        if one.action == "keep":
            self.kept.append((one.thread_id, one.reason))
        else:
            self.going += 1
        return one


def _threads(path: Path) -> Iterator[Doomed]:
    for number, record in enumerate(_records(path), 1):
        if number == 1:
            continue
        try:
            yield from_plan(record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"line {number} of the plan '{path}' cannot be read",
                hint="make the plan anew with --plan-out",
            ) from error


def _all(head: dict[str, Any], threads: Iterable[Doomed]) -> Iterator[dict[str, Any]]:
    yield head
    yield from map(to_plan, threads)


def _records(path: Path) -> Iterator[Any]:
    # Ids that are not UTF-8 are escaped in the file, as JSON has them.
    read: Callable[[str], Any] = json.loads
    try:
        with path.open(encoding="utf-8") as file:
            for text in file:
                yield read(text)
    except OSError as error:
        raise _unusable("read", path, error) from error
    except ValueError:
        raise UsageError(
            f"the plan '{path}' holds a line that is not JSON",
            hint="make the plan anew with --plan-out",
        ) from None


def _unusable(what: str, path: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(f"cannot {what} the plan '{path}': {reason}", hint="name another file")
