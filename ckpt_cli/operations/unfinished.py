"""Operations whose runs were killed: files in `running/` that no process holds a lock on.

Reading them needs nothing of their steps: every run that opens a store looks for them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ckpt_backends.errors import StoreUnavailable, UsageError
from ckpt_backends.files.regular_file import open_regular
from ckpt_cli.operations.file_lock import is_locked
from ckpt_cli.operations.log import OperationLog, check_owner
from ckpt_cli.operations.record import Operation, from_record


def unfinished(log: OperationLog, place: str | None = None) -> list[Operation]:
    """Return the operations that were not recorded, of one store or of all. Opens no store."""
    if not running(log):
        return []
    found = (one for _, one in left_behind(log))
    return [one for one in found if place is None or one.place == place]


def running(log: OperationLog) -> list[Path]:
    """Return the files of operations that run, or whose runs were killed."""
    try:
        with os.scandir(log.folder / "running") as entries:
            return [Path(one.path) for one in entries if one.name.endswith(".ndjson")]
    except OSError:
        return []


def left_behind(log: OperationLog) -> Iterator[tuple[Path, Operation]]:
    """Yield the operations of runs that were killed, each with its file."""
    for path in sorted((log.folder / "running").glob("*.ndjson")):
        with suppress(OSError, StopIteration, UsageError, KeyError, ValueError, TypeError):
            if is_locked(path):
                continue
            _, first = next(records_in(path))
            yield path, from_record(first)


def records_in(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the lines of a file with their numbers; a last line that was cut off is left out."""
    try:
        with open_regular(path, follow=False) as file:
            check_owner(path, file)
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):
                    return
                yield number, json.loads(line)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read '{path}': {reason}") from error
    except StoreUnavailable as error:
        raise UsageError(error.message) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot read '{path}': a line is not JSON") from error
