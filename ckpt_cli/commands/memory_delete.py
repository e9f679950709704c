"""`ckpt memory delete`: delete items of long-term memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context, Option

from ckpt_backends.changes.bundle import Bundle, make_folder
from ckpt_backends.errors import PartlyDone, Refused, Unsupported, UsageError
from ckpt_backends.memory.protocol import Item, MemoryInfo, MemoryStore
from ckpt_backends.registry import open_memory
from ckpt_cli.api.memory import opened_memory
from ckpt_cli.apply.memory import MemoryReport, archive_items, remove_items
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.commands.memory import Match, Under
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.commands.signatures import SignKey, signing_key
from ckpt_cli.core.memory.item_filter import ItemFilter, parse_namespace
from ckpt_cli.options import DryRun, Yes, not_huge
from ckpt_cli.queries.memory import list_items, named_items, without_values
from ckpt_cli.render.memory.items import (
    amount,
    item_columns,
    item_record,
    removal_lines,
    row_record,
    sum_record,
)
from ckpt_cli.render.terminal.units import iso
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session

Write = Annotated[
    bool, Option("--write", help="Write to memory.json even though DeerFlow may overwrite it.")
]


@plannable("memory delete", again=("sign_key",))
def delete(
    ctx: Context,
    keys: Annotated[
        list[str] | None, Argument(metavar="KEY", help="Key, or NAMESPACE/KEY; repeatable.")
    ] = None,
    namespace: Under = "",
    match: Match = None,
    expired: Annotated[bool, Option("--expired", help="Select expired items.")] = False,
    older_than: Annotated[
        str | None,
        Option(metavar="AGE", help="Select items not updated for AGE: 30d, 2h or a date."),
    ] = None,
    everything: Annotated[bool, Option("--all", help="Select all items of --namespace.")] = False,
    limit: Annotated[
        int,
        Option("-n", "--limit", metavar="N", help="Delete at most N.", min=1, callback=not_huge),
    ] = 100_000,
    archive: Annotated[
        Path | None, Option(metavar="DIR", help="Archive the items in DIR first.")
    ] = None,
    sign_key: SignKey = None,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    write: Write = False,
) -> None:
    """Delete items and their vectors.

    Select items by key, or by rules that must all match. If an item changes after the plan was
    shown, the run stops. `memory import` restores an archive row for row.

    ```
    ckpt -s memory.db memory delete users/anna/profile --dry-run
    ckpt -s memory.db memory delete --expired --archive backups --yes
    ckpt -s memory.db memory delete --namespace users/anna --all --archive backups
    ```
    """
    session: Session = ctx.obj
    until = session.time(older_than)
    wanted = ItemFilter(match=match, until=until, expired=expired or None)
    if not dry_run:
        refuse_copy(session.names.store_url)
    by_rule = wanted != ItemFilter() or everything
    _check_words(keys, namespace, by_rule=by_rule, everything=everything)
    key = signing_key(sign_key, archive)
    if archive is not None and not dry_run:
        make_folder(archive)
    bundle: Bundle | None = None
    with opened_memory(session).memory as memory:
        planned = _planned(session, memory, keys, namespace, wanted, at_most=limit + 1)
        items, more = planned[:limit], len(planned) > limit
        shown = list(map(without_values, items)) if session.settings.get("redact") else items
        if session.review is not None:
            for one in items:
                session.review.see_item(memory, one.key)
        info = memory.describe()
        if not items:
            session.note("nothing to do")
        elif not dry_run:
            check_allowed(info, write=write)
            if not yes:
                # Holds no lock while a person decides.
                memory.refresh()
                _show_and_ask(session, shown, more=more)
            if archive is not None:
                bundle = archive_items(memory, items, archive, iso(session.now), key)
    done = MemoryReport(0)
    if items and not dry_run:
        cannot_undo = "no archive was made" if bundle is None else ""
        with session.recorder.operation("memory delete", cannot_undo=cannot_undo) as recording:
            done = remove_items(session.names.store_url, items, recording, bundle)
        if done.not_erased:
            session.note(done.not_erased)
    _answer(session, shown, done, bundle, more=more, dry_run=dry_run)
    if done.stopped is not None:
        raise PartlyDone(
            f"{done.stopped.message}; {counted(len(items) - done.removed, 'item')} left",
            hint=done.stopped.hint,
        ) from done.stopped
    if more and not dry_run:
        raise PartlyDone(
            f"stopped after {counted(limit, 'item')}; more match",
            hint="run the same command again",
        )


def _check_words(
    keys: Sequence[str] | None, namespace: str, *, by_rule: bool, everything: bool
) -> None:
    """Raise `UsageError` if nothing is selected, or by keys and rules at once."""
    if keys and by_rule:
        raise UsageError(
            "cannot combine keys and rules",
            hint="name keys, or leave them out and use --match, --expired, --older-than or --all",
        )
    if not keys and not by_rule:
        raise UsageError(
            "nothing selected",
            hint="name keys, or add --expired, --older-than, --match, or --all with --namespace",
        )
    if everything and not parse_namespace(namespace):
        raise UsageError(
            "--all needs a namespace", hint="add --namespace NAMESPACE, or use --match '*'"
        )


def _planned(
    session: Session,
    memory: MemoryStore,
    keys: Sequence[str] | None,
    namespace: str,
    wanted: ItemFilter,
    *,
    at_most: int,
) -> list[Item]:
    """Return the items to delete, unredacted: they are compared again before they are deleted."""
    prefix = parse_namespace(namespace)
    if keys:
        return list(islice(named_items(memory, keys, prefix), at_most))
    # The listing ends here: an open reader would block the writer of a file without WAL.
    return list(islice(list_items(memory, prefix, wanted, session.now, redacted=False), at_most))


def check_allowed(info: MemoryInfo, *, write: bool) -> None:
    """Raise `Unsupported` if this memory is read-only, `Refused` if it needs --write."""
    if info.changes:
        raise Unsupported(f"cannot write to '{info.url}': {info.changes}")
    if info.needs_write and not write:
        raise Refused(
            f"refusing to write to '{info.url}': {info.needs_write}",
            hint="add --write to proceed",
        )


def _show_and_ask(session: Session, items: list[Item], *, more: bool) -> None:
    output = session.output
    if not output.machine:
        output.document(dict, lambda: removal_lines(items, session.now, more=more))
    confirm(f"Delete {amount(items)}?")


def _answer(
    session: Session,
    items: list[Item],
    done: MemoryReport,
    bundle: Bundle | None,
    *,
    more: bool,
    dry_run: bool,
) -> None:
    """Print the plan, or the receipt: items before, removed and after."""
    now, shown = session.now, items if dry_run else items[: done.removed]
    path = None if bundle is None else bundle.path

    def record() -> dict[str, Any]:
        found: dict[str, Any] = {
            "dry_run": dry_run,
            "items": [item_record(one, now) for one in shown],
            "removed": sum_record(() if dry_run else shown),
            "more": more,
            "archive": path and str(path),
        }
        if not dry_run:
            found["before"] = sum_record(items)
            with open_memory(session.names.store_url) as memory:
                found["after"] = sum_record(memory.items(keys=[one.key for one in items]))
        return found

    session.output.document(
        record,
        lambda: removal_lines(shown, now, more=more, done=not dry_run, bundle=path),
        rows=lambda: (row_record(one, now) for one in shown),
        columns=item_columns(now),
    )
    if dry_run:
        session.note_dry_run("removed")
