"""`ckpt memory delete`: remove items of long-term memory."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ckpt_backends.bundle import make_folder
from ckpt_backends.errors import PartlyDone, Refused, Unsupported, UsageError
from ckpt_backends.memory import Item, MemoryInfo, MemoryStore
from ckpt_backends.registry import open_memory, open_writable_memory
from ckpt_backends.removal import finish_removal
from ckpt_cli.changing.memory import Done, archive_items, remove_items
from ckpt_cli.commands.carrying_out import confirm
from ckpt_cli.commands.memory import Match, Under, opened_memory
from ckpt_cli.core.memory import Wanted, parse_namespace
from ckpt_cli.core.times import ago
from ckpt_cli.options import DryRun, Yes
from ckpt_cli.reading.memory import list_items, named_items, without_values
from ckpt_cli.render.memory import (
    item_columns,
    item_record,
    removal_lines,
    row_record,
    sum_record,
)
from ckpt_cli.render.units import iso
from ckpt_cli.session import Session

Write = Annotated[
    bool, typer.Option("--write", help="Also where an application may write over it.")
]


def delete(
    ctx: typer.Context,
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY]...", help="Keys, or NAMESPACE/KEY."),
    ] = None,
    namespace: Under = "",
    match: Match = None,
    expired: Annotated[bool, typer.Option("--expired", help="All that has expired.")] = False,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="All that was not updated for so long: 90d.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All of the namespace that is named.")
    ] = False,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, help="At most so many in one run.")
    ] = 100_000,
    archive: Annotated[
        Path | None, typer.Option(metavar="DIR", help="First write a bundle of them there.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    write: Write = False,
) -> None:
    """Remove items with their vectors.

    By their keys, or all that fit what is asked for. An item that changed since the plan was made
    stops the run, and nothing goes. `memory import` puts an archive back, row for row.

    \b
      ckpt -s memory.db memory delete users/anna/profile --dry-run
      ckpt -s memory.db memory delete --expired --archive backups --yes
      ckpt -s memory.db memory delete --namespace users/anna --all --archive backups
    """
    session: Session = ctx.obj
    wanted = Wanted(
        match=match,
        until=None if older_than is None else ago(older_than, session.now),
        expired=expired or None,
    )
    if session.settings.get("copy") and not dry_run:
        raise UsageError("a private copy is not what is to be changed", hint="leave out --copy")
    _check_words(keys or [], namespace, wanted, everything=everything)
    if archive is not None and not dry_run:
        make_folder(archive)
    bundle: Path | None = None
    with opened_memory(session) as memory:
        planned = _plan(memory, keys or [], namespace, wanted, session, limit + 1)
        items, more = planned[:limit], len(planned) > limit
        shown = list(map(without_values, items)) if session.settings.get("redact") else items
        info = memory.describe()
        if not items:
            session.note("nothing to remove")
        elif not dry_run:
            check_allowed(info, write=write)
            if not yes:
                # No application waits for a lock while a person thinks.
                memory.refresh()
                _show_and_ask(session, shown, more=more)
            if archive is not None:
                bundle = archive_items(memory, items, archive, iso(session.now))
    done = Done(0)
    if items and not dry_run:
        with open_writable_memory(session.store_url) as writable:
            done = remove_items(writable, items)
            if left := finish_removal(writable):
                session.note(left)
    _answer(session, shown, done, bundle, more=more, dry_run=dry_run)
    if done.stopped is not None:
        raise PartlyDone(
            f"{done.stopped.message}; {len(items) - done.removed} items are left",
            hint=done.stopped.hint,
        )
    if more and not dry_run:
        raise PartlyDone(f"more than {limit} items fit", hint="run the same command again")


def _check_words(keys: list[str], namespace: str, wanted: Wanted, *, everything: bool) -> None:
    """Raise `UsageError` for what says nothing, or two things."""
    by_rule = wanted != Wanted() or everything
    if keys and by_rule:
        raise UsageError("keys and rules exclude each other", hint="name items, or say which fit")
    if not keys and not by_rule:
        raise UsageError(
            "no item is named",
            hint="name keys, or give --expired, --older-than, --match, or --all with --namespace",
        )
    if everything and not parse_namespace(namespace):
        raise UsageError("--all takes a whole namespace", hint="name it with --namespace")


def _plan(
    memory: MemoryStore,
    keys: list[str],
    namespace: str,
    wanted: Wanted,
    session: Session,
    most: int,
) -> list[Item]:
    """What is to go, as it was read: with --redact too it is compared before it goes."""
    prefix = parse_namespace(namespace)
    if keys:
        return list(named_items(memory, keys, prefix))
    # What is left of the listing goes here: a reader that goes on would stand in the way of the
    # writer of a file that is not in WAL mode.
    return list(islice(list_items(memory, prefix, wanted, session.now, redacted=False), most))


def check_allowed(info: MemoryInfo, *, write: bool) -> None:
    """Raise `Unsupported` or `Refused` where this memory is not to be changed, or not like this."""
    if info.changes:
        raise Unsupported(f"nothing is changed in '{info.url}': {info.changes}")
    if info.needs_write and not write:
        raise Refused(
            f"'{info.url}' is not changed unasked: {info.needs_write}",
            hint="add --write to change it all the same",
        )


def _show_and_ask(session: Session, items: list[Item], *, more: bool) -> None:
    output = session.output
    if not output.machine:
        output.document(
            dict,
            lambda: removal_lines(items, session.now, more=more),
            rows=tuple,
            columns=(),
        )
    confirm(f"Remove {len(items)} item{'s' * (len(items) != 1)}?")


def _answer(
    session: Session,
    items: list[Item],
    done: Done,
    bundle: Path | None,
    *,
    more: bool,
    dry_run: bool,
) -> None:
    """Print the plan, or the receipt: what was there before, what went, what is there now."""
    now, shown = session.now, items if dry_run else items[: done.removed]

    def record() -> dict[str, Any]:
        found: dict[str, Any] = {
            "dry_run": dry_run,
            "items": [item_record(one, now) for one in shown],
            "removed": sum_record(() if dry_run else shown),
            "more": more,
            "archive": None if bundle is None else str(bundle),
        }
        if not dry_run:
            found["before"] = sum_record(items)
            with open_memory(session.store_url) as memory:
                found["after"] = sum_record(memory.items(keys=[one.key for one in items]))
        return found

    session.output.document(
        record,
        lambda: removal_lines(shown, now, more=more, done=not dry_run, bundle=bundle),
        rows=lambda: (row_record(one, now) for one in shown),
        columns=item_columns(now),
    )
    if dry_run:
        session.note("a dry run: nothing was removed")
