"""`ckpt memory import`: restore archived items."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context

from ckpt_backends import shell
from ckpt_backends.changes.bundle import Bundle, Header
from ckpt_backends.changes.rows import Row
from ckpt_backends.errors import PartlyDone, Refused, Unsupported, UsageError
from ckpt_backends.memory.protocol import MemoryStore, Namespace
from ckpt_cli.api.memory import opened_memory
from ckpt_cli.apply.restore import restore_memory
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.commands.memory_delete import Write, check_allowed
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.commands.signatures import AllowPickle, Trust, TrustedKeys, signed_by
from ckpt_cli.core.memory.item_filter import format_namespace
from ckpt_cli.options import DryRun, Yes
from ckpt_cli.plans.plan_review import PlanReview
from ckpt_cli.render.terminal.table import Column
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Checked:
    """An archive that holds only items of this layout."""

    bundle: Bundle
    namespaces: Sequence[Namespace]
    """Where its items are."""

    @property
    def record(self) -> dict[str, Any]:
        return {
            "file": str(self.bundle.path),
            "rows": self.bundle.size,
            "signed_by": signed_by(self.bundle),
            "namespaces": list(map(list, self.namespaces)),
        }


@plannable("memory import", again=("trusted_key", "allow_pickle"))
def import_(
    ctx: Context,
    files: Annotated[
        list[Path], Argument(metavar="FILE", help="Archives that `memory delete --archive` wrote.")
    ],
    trusted_key: TrustedKeys = None,
    allow_pickle: AllowPickle = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    write: Write = False,
) -> None:
    """Restore archived items.

    Verifies each archive first, then restores it row for row in one transaction. Skips rows that
    exist. If one exists with other contents, nothing of its archive is restored.

    Refuses archives with pickles unless --allow-pickle is given. A note says who signed an
    archive, which proves something only with --trusted-key.

    ```
    ckpt -s memory.db memory import backups/memory-*.ckpt.gz --dry-run
    ```
    """
    session: Session = ctx.obj
    if not dry_run:
        refuse_copy(session.names.store_url)
    trust = Trust.of(trusted_key, allow_pickle=allow_pickle)
    with opened_memory(session).memory as memory:
        info = memory.describe()
        bundles = [_checked(path, memory, trust) for path in files]
        if session.review is not None:
            for one in bundles:
                _review(session.review, memory, one)
    trust.report(session, [one.bundle for one in bundles])
    found = [one.record for one in bundles]
    if dry_run:
        session.output.records(found, _columns("file", "rows", "namespaces"))
        session.note_dry_run()
        return
    check_allowed(info, write=write)
    if not yes:
        rows = counted(sum(one.bundle.size for one in bundles), "row")
        spaces = _listed(sorted({ns for one in bundles for ns in one.namespaces}))
        archives = counted(len(files), "archive")
        confirm(f"Restore {archives} ({rows}) into {spaces} of '{info.url}'?")
    records = {id(one.bundle): one.record for one in bundles}
    with session.recorder.operation("memory import") as recording:
        report = restore_memory(session.names.store_url, [one.bundle for one in bundles], recording)
    restored = [
        {**records[id(bundle)], "added": done.added, "there": done.there}
        for bundle, done in report.done
    ]
    session.output.records(restored, _columns("file", "rows", "added", "there", "namespaces"))
    report.raise_failures("archives")
    if report.expired:
        raise PartlyDone(
            f"{counted(report.expired, 'row')} left out: their time to live has ended",
            hint="the archives still hold them",
        )


def _columns(*names: str) -> Sequence[Column]:
    return [
        _NAMESPACES if one == "namespaces" else Column(one.upper(), one, right=one != "file")
        for one in names
    ]


def _listed(namespaces: Sequence[Sequence[str]]) -> str:
    """The first namespaces, such as `users/anna, users/bob and 3 more`."""
    shown = ", ".join(format_namespace(tuple(one)) for one in namespaces[:_SHOWN])
    more = len(namespaces) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


_NAMESPACES = Column("NAMESPACES", "namespaces", _listed)


def _review(review: PlanReview, memory: MemoryStore, one: _Checked) -> None:
    """Save an archive and what is in its namespaces, or compare them with a saved plan."""
    review.see({"file": str(one.bundle.path), "sha256": one.bundle.digest})
    for namespace in one.namespaces:
        for key in [item.key for item in memory.items(prefix=namespace)]:
            review.see_item(memory, key)


def _checked(path: Path, memory: MemoryStore, trust: Trust) -> _Checked:
    """A valid archive of this layout that is accepted."""
    if os.path.isdir(path):
        raise UsageError(
            f"cannot restore '{path}': it is a folder",
            hint=f"name its archives: {shell.word(f'{path}/')}memory-*.ckpt.gz",
        )
    namespaces: set[Namespace] = set()
    bundle = trust.checked(path, partial(_fitting, path, memory, namespaces))
    return _Checked(bundle, sorted(namespaces))


def _fitting(
    path: Path,
    memory: MemoryStore,
    namespaces: set[Namespace],
    header: Header,
    rows: Iterator[Row],
) -> Iterator[Row]:
    """The rows of an archive that fits the store, if all are of items; adds their namespaces."""
    info = memory.describe()
    if header.thread_id is not None:
        raise Refused(
            f"cannot restore '{path}': it holds a thread, not memory items",
            hint=shell.command("ckpt", "import", ids=[str(path)]),
        )
    if header.layout != info.layout:
        raise Refused(
            f"cannot restore '{path}': its layout is '{header.layout}', not '{info.layout}'",
            hint="name a store of the archive's layout with -s",
        )
    try:
        for row in rows:
            namespaces.add(memory.key_of(row).namespace)
            yield row
    except (Refused, Unsupported) as error:
        error.message = f"cannot restore '{path}': {error.message}"
        error.hint = error.hint or f"look at its rows: zcat {shell.word(str(path))} | less"
        raise
