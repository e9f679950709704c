"""What `repair values` and `replay --repair` share: show the values, ask, store them."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain

from ckpt_backends import shell
from ckpt_backends.errors import NotFound, PartlyDone, Refused, UsageError
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.commands.apply_plan import show_and_apply, write
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.core.forking.sealed_change import sealed_change
from ckpt_cli.core.forking.thread_change import ThreadChange
from ckpt_cli.core.replay.repair_plan import Repair
from ckpt_cli.plans.undo import record_repair
from ckpt_cli.render.plan import undo_command
from ckpt_cli.render.repair import (
    REPAIR_COLUMNS,
    refused_lines,
    repair_lines,
    repair_record,
    repair_rows,
)
from ckpt_cli.render.terminal.fields import command_field
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session


def nothing_damaged(thread_id: str) -> NotFound:
    """Return the error for a thread whose values are all there."""
    return NotFound(f"nothing to repair in thread '{thread_id}': no value is missing or unreadable")


def as_thread_change(session: Session, found: Repair) -> ThreadChange | None:
    """Return the repair of one of many threads; None if it has no damage.

    Raises `Refused` if nothing of it can be restored.
    """
    left = "; ".join(f"{one.place.channel}: {one.reason}" for one in found.refused)
    if not found.rebuilt and left:
        raise Refused(left)
    if not found.rebuilt:
        return None
    names = dict.fromkeys(one.place.channel for one in found.rebuilt)
    mends = (f"{counted(len(found.rebuilt), 'value')} of {', '.join(names)}",)

    def record() -> None:
        if found.plan is None:
            _record(session, found)

    heads = found.change.heads
    return ThreadChange(found.thread_id, found.change, heads, mends, found.plan, left, record)


def show_values_repair(
    session: Session, found: Repair, *, dry_run: bool, yes: bool, reason: str | None = None
) -> None:
    """Show which values a repair restores and, unless it is a dry run, store them.

    `reason` is recorded.

    Raises `PartlyDone` or `Refused` if some, or all, of the damaged values cannot be restored, and
    what `apply` raises.
    """
    question = f"Restore {counted(len(found.rebuilt), 'value')} of thread '{found.thread_id}'?"
    if found.plan is not None:
        show_and_apply(
            session,
            found.plan,
            question,
            dry_run=dry_run,
            yes=yes,
            reason=reason,
            more=lambda: repair_record(found, dry_run=dry_run),
            lines=lambda: refused_lines(found),
        )
    else:
        _store_again(session, found, question, dry_run=dry_run, yes=yes, reason=reason)
    if not found.refused:
        return
    said = f"cannot restore {counted(len(found.refused), 'value')}"
    if found.rebuilt:
        raise PartlyDone(said)
    words = session.names.words
    again = shell.command("ckpt", *words, "repair", "values", "--dry-run", ids=[found.thread_id])
    raise Refused(said, hint=None if dry_run else f"`{again}` says why")


def _record(session: Session, found: Repair) -> None:
    """Record what an undo needs to know, or warn that it will not find the repair."""
    try:
        record_repair(session.rows, found, datetime.now(UTC))
    except UsageError as error:
        session.warn(f"{error.message}; `ckpt undo` will not find this repair")


def _store_again(
    session: Session,
    found: Repair,
    question: str,
    *,
    dry_run: bool,
    yes: bool,
    reason: str | None,
) -> None:
    """Store values again that a layout stores apart."""
    if session.review is not None:
        change = sealed_change(found.change, session.opening.keys())
        session.review.see_change(change, session.rows)
    output = session.output
    if not dry_run:
        refuse_copy(session.names.store_url)
    undo = undo_command(session.names.words, found.thread_id) if found.rebuilt else ""
    undo_lines = [command_field("undo", undo)] if undo else []

    def show() -> None:
        output.document(
            lambda: {**repair_record(found, dry_run=dry_run), "undo": undo or None},
            lambda: chain(repair_lines(found, output.width), undo_lines),
            rows=lambda: repair_rows(found),
            columns=REPAIR_COLUMNS,
        )

    if dry_run or not output.machine:
        show()
    if dry_run and found.rebuilt:
        session.note_dry_run()
    if found.rebuilt and not dry_run:
        if not yes:
            confirm(question)
        _record(session, found)
        write(session, found.change, question, yes=True, action="repair", reason=reason)
        session.note(f"restored {counted(len(found.rebuilt), 'value')}")
    if output.machine and not dry_run:
        show()
