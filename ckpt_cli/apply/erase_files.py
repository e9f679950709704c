"""Erase archives, saved plans and what `ckpt` recorded, and overwrite their old bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from ckpt_backends.changes.bundle import check_bundle, write_bundle
from ckpt_backends.changes.remains import Remaining
from ckpt_backends.errors import CkptError
from ckpt_backends.files.atomic_write import writing
from ckpt_backends.files.overwriting import overwrite_and_remove
from ckpt_backends.files.regular_file import open_regular
from ckpt_cli.config.folders import old_history
from ckpt_cli.core.erasure.places import ErasurePlace, PlaceKind
from ckpt_cli.operations.file_lock import is_locked
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.plans.erase import ArchiveErasure, StateErasure, file_size
from ckpt_cli.plans.erase_state import StateNaming, without_queries

STATEMENT = "files overwritten with zeros"


def erase_archives(archives: Iterable[ArchiveErasure]) -> list[ErasurePlace]:
    """Overwrite and delete archives, or write them anew without some rows; one place a folder."""
    by_folder: dict[Path, list[ArchiveErasure]] = {}
    for one in archives:
        by_folder.setdefault(one.path.parent, []).append(one)
    return [
        erase_files("archives", folder, [(one.path, one.bytes, _eraser(one)) for one in found])
        for folder, found in by_folder.items()
    ]


def _eraser(one: ArchiveErasure) -> Callable[[], Sequence[Remaining]]:
    if one.drops is None:
        return lambda: overwrite_and_remove(one.path)
    return lambda: _rewrite(one, one.drops or frozenset())


def erase_plain_files(kind: PlaceKind, paths: Iterable[Path]) -> list[ErasurePlace]:
    """Overwrite and delete files; one place a folder."""
    by_folder: dict[Path, list[Path]] = {}
    for one in paths:
        by_folder.setdefault(one.parent, []).append(one)
    return [
        erase_files(kind, folder, [(one, file_size(one), _remover(one)) for one in found])
        for folder, found in by_folder.items()
    ]


def _remover(path: Path) -> Callable[[], Sequence[Remaining]]:
    return lambda: overwrite_and_remove(path)


def erase_files(
    kind: PlaceKind,
    folder: Path,
    files: Iterable[tuple[Path, int, Callable[[], Sequence[Remaining]]]],
) -> ErasurePlace:
    """Erase files of one folder; each has a size, and what erases it."""
    number = size = left = 0
    reason = ""
    for path, taken, erase in files:
        number += 1
        size += taken
        try:
            for one in erase():
                left += 1
                reason = one.reason
        except FileNotFoundError:
            continue  # another run has erased it
        except (OSError, CkptError) as error:
            left += os.path.lexists(path)
            text = error.message if isinstance(error, CkptError) else error.strerror or str(error)
            reason = text.lower()
    if left:
        why = f"{left} of {number} files: {reason}"
        return ErasurePlace(str(folder), kind, number, size, "kept", why, is_left=True)
    return ErasurePlace(str(folder), kind, number, size, "erased")


def _rewrite(one: ArchiveErasure, drops: frozenset[int]) -> Sequence[Remaining]:
    """Write an archive of memory anew without some rows. A signature is not valid any more."""
    bundle = check_bundle(one.path)
    old = one.path.with_name(f".{one.path.name}.old")
    with suppress(FileExistsError):
        os.link(one.path, old)
    kept = (row for number, row in enumerate(bundle.rows()) if number not in drops)
    write_bundle(one.path, bundle.header, kept)
    return overwrite_and_remove(old)


def erase_state(log: OperationLog, naming: StateNaming, state: StateErasure) -> list[ErasurePlace]:
    """Take erased ids out of the log of operations, and erase steps and records of repairs."""
    return [
        *([_erase_operations(log, naming, state)] if state.number else ()),
        *erase_plain_files("repairs", state.repairs),
        *(
            erase_files("queries", one.parent, [(one, file_size(one), _forgetter(one, naming))])
            for one in state.history
        ),
    ]


def _forgetter(path: Path, naming: StateNaming) -> Callable[[], Sequence[Remaining]]:
    """Return what takes queries out of the history of `ckpt sql`."""

    def forget() -> Sequence[Remaining]:
        old = old_history(path)
        if path != old:
            with open_regular(path, follow=False) as file:
                kept = without_queries(file.read(), naming.scope)
            os.link(path, old)
            with writing(path) as file:
                file.write(kept)
        return overwrite_and_remove(old)

    return forget


def _erase_operations(log: OperationLog, naming: StateNaming, state: StateErasure) -> ErasurePlace:
    naming.operations |= state.operations
    number, size = state.number, state.bytes
    busy = 0
    try:
        for path in state.steps:
            if _is_in_use(path):
                busy += 1
            else:
                with suppress(FileNotFoundError):
                    overwrite_and_remove(path)
        old = [*log.folder.glob("old.log*.ndjson"), *log.rewrite(naming.turned)]
        for path in dict.fromkeys(old):
            overwrite_and_remove(path)
    except (OSError, CkptError) as error:
        text = error.message if isinstance(error, CkptError) else error.strerror or str(error)
        return ErasurePlace(state.folder, "operations", number, size, "kept", text, is_left=True)
    if busy:
        why = f"{busy} of these operations is still running in another process"
        return ErasurePlace(state.folder, "operations", number, size, "kept", why, is_left=True)
    return ErasurePlace(state.folder, "operations", number, size, "erased")


def _is_in_use(path: Path) -> bool:
    """Return whether a process is writing the steps of an operation."""
    with suppress(OSError):
        return is_locked(path)
    return False
