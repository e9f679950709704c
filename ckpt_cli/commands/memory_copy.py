"""`ckpt memory copy`: copy items of long-term memory to another store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from typer import Context, Option

from ckpt_backends.errors import PartlyDone, Refused, Unsupported, UsageError
from ckpt_cli.api.memory import opened_memory
from ckpt_cli.apply.memory_copy import MemoryCopyTerms, copy_items, plan_items
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.commands.memory import Match, Under
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.core.copying.items import CopiedItem, MemoryCopyReport
from ckpt_cli.core.memory.item_filter import ItemFilter, format_key, parse_namespace
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Yes
from ckpt_cli.plans.memory_copy import ItemChoice
from ckpt_cli.render.memory.copy import (
    memory_copy_columns,
    memory_copy_lines,
    memory_copy_record,
    memory_copy_rows,
)
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session


@plannable("memory copy", again=("to",))
def copy(
    ctx: Context,
    to: Annotated[
        str, Option("--to", metavar="STORE", help="Copy to this file, URL or profile.")
    ] = "",
    namespace: Under = "",
    match: Match = None,
    create: Annotated[
        bool, Option("--create", help="Make the target if nothing is there.")
    ] = False,
    replace: Annotated[
        bool, Option("--replace", help="Replace items of the target that differ.")
    ] = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Copy items to another Store of LangGraph.

    Copies namespaces, keys, values, times and times to live between SQLite, PostgreSQL, MongoDB
    and Redis. Every item is read back and compared. Run the same command again to add what is new
    since. Vectors are not copied: let the application put these items again to embed them.

    An item that the target cannot hold as it is, is skipped with the reason; so is an item that
    differs in the target, unless --replace is given.

    ```
    ckpt -s agent.db memory copy --to postgresql://db/agents --create
    ckpt -s prod memory copy --namespace users/anna --to anna.db --create --yes
    ```
    """
    session: Session = ctx.obj
    if not to:
        raise UsageError("no target given", hint="name it: --to STORE")
    names = session.names
    terms = MemoryCopyTerms(names.store_url, names.url_of(to), create=create)
    within = parse_namespace(namespace)
    choice = ItemChoice(within, ItemFilter(match=match), session.now, replace)
    if session.review is not None:
        with opened_memory(session) as memory:
            keys = [one.key for one in choice.of(memory.memory, values=False)]
            for key in keys:
                session.review.see_item(memory.memory, key)
        for one in plan_items(terms, choice, _watched):
            session.review.see_copied(one)
    source, target = str(terms.source), str(terms.target)
    if dry_run or (replace and not yes):
        planned = MemoryCopyReport(source, target, is_dry_run=True)
        for one in plan_items(terms, choice, _watched):
            planned.add(one)
        if dry_run or not session.output.machine:
            _print(session, planned)
        if dry_run:
            session.note_dry_run()
            _end(session, planned)
            return
    if not yes:
        with opened_memory(session) as memory:
            number = sum(1 for _ in choice.of(memory.memory, values=False))
        made = "Make the store if it is missing, and copy" if create else "Copy"
        confirm(f"{made} {counted(number, 'item')} to '{target}'?")
    report = MemoryCopyReport(source, target, is_dry_run=False)
    with session.recorder_of(terms.target).operation("memory copy") as recording:
        for one in copy_items(terms, choice, _watched, recording):
            report.add(one)
    _print(session, report)
    _end(session, report)


def _watched(items: Iterable[CopiedItem], label: str) -> Iterable[CopiedItem]:
    return progress(items, total=None, label=label)


def _print(session: Session, report: MemoryCopyReport) -> None:
    output = session.output
    output.document(
        lambda: memory_copy_record(report),
        lambda: memory_copy_lines(report, output.width),
        rows=lambda: memory_copy_rows(report),
        columns=memory_copy_columns(),
    )


def _end(session: Session, report: MemoryCopyReport) -> None:
    """Note what was left out, and raise the error that tells about skipped items, if any."""
    if report.expired:
        session.note(f"{counted(report.expired, 'item')} left out: their time to live has ended")
    if report.embedded:
        session.note(
            f"vectors of {counted(report.embedded, 'item')} are not copied: only the application"
            " can embed, by putting them again"
        )
    skipped = report.skipped
    if not skipped:
        return
    reason = f"item '{format_key(skipped[0].key)}': {skipped[0].reason}"
    if report.number:
        raise PartlyDone(f"{counted(len(skipped), 'item')} skipped; {reason}")
    if skipped[0].is_different:
        raise Refused(
            f"nothing was copied; {reason}",
            hint="see what --replace would change: add --replace --dry-run",
        )
    raise Unsupported(f"nothing was copied; {reason}")
