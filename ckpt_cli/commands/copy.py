"""`ckpt copy`: copy threads to another store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from ckpt_backends.errors import PartlyDone, Refused, Unsupported, UsageError
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.sealing import AsStored
from ckpt_cli.apply.copy_stores import CopyTerms
from ckpt_cli.apply.copy_threads import copy_threads, plan_threads
from ckpt_cli.commands.apply_plan import confirm
from ckpt_cli.core.copying.outcomes import CopyReport
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Filter, Jobs, Match, Yes, argument, flag, option, takes
from ckpt_cli.queries.language import language_of
from ckpt_cli.queries.selection import filtered_threads
from ckpt_cli.render.copy import copy_columns, copy_lines, copy_record, copy_rows
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """What `ckpt copy` is asked for."""

    threads: Annotated[list[str] | None, argument("[THREAD...]", "Threads to copy.")] = None
    to: Annotated[str, option("STORE", "Copy to this file, URL or profile.", "--to")] = ""
    match: Match = None
    where: Filter = None
    everything: Annotated[bool, flag("Copy all threads.", "--all")] = False
    create: Annotated[bool, flag("Make the target if nothing is there.", "--create")] = False
    replace: Annotated[
        bool, flag("Replace threads of the target that went their own way.", "--replace")
    ] = False
    jobs: Jobs = 1
    dry_run: DryRun = False
    yes: Yes = False

    def check(self) -> None:
        """Raise `UsageError` for options that exclude each other."""
        if not self.to:
            raise UsageError("no target given", hint="name it: --to STORE")
        conditions = self.match is not None or bool(self.where)
        if sum((bool(self.threads), conditions, self.everything)) != 1:
            raise UsageError(
                "name the threads in one way",
                hint="give THREAD..., --all, or --match and --where",
            )


@takes(CopyOptions)
def copy(session: Session, options: CopyOptions) -> None:
    """Copy threads to another store, of any layout.

    Copies checkpoints, metadata, writes and values of all namespaces under the same ids. The
    source is only read. Every thread is read back and compared. Run the same command again to add
    what is new since: copy, stop the agent, copy again, start the agent on the target.

    A thread that the target cannot hold as it is, is skipped with the reason; so is a thread that
    was continued in the target. --replace removes it there first, and shows what would go.

    \b
      ckpt -s agent.db copy --all --to postgresql://db/agents --create
      ckpt -s prod copy --where 'idle > 90d' --to archive.db --create --yes
      ckpt -s agent.db copy user-42 --to staging --dry-run
    """
    options.check()
    terms = CopyTerms(
        session.names.store_url,
        session.names.url_of(options.to),
        language_of(session.store) or Language.PYTHON,
        AsStored(),
        create=options.create,
        replace=options.replace,
    )
    threads = filtered_threads(
        session.store, options.threads or (), options.match, options.where or (), session.now
    )
    ids = [one.thread_id for one in threads]
    report = CopyReport(str(terms.source), str(terms.target), is_dry_run=options.dry_run)
    if options.dry_run or (options.replace and not options.yes):
        planned = plan_threads(terms, _watched(ids, "comparing"))
        shown = CopyReport(report.source, report.target, is_dry_run=True)
        for one in planned:
            shown.add(one)
        if options.dry_run or not session.output.machine:
            _print(session, shown)
        if options.dry_run:
            session.note("dry run: nothing was written")
            _end(shown)
            return
    if not options.yes:
        confirm(f"Copy {counted(len(ids), 'thread')} to '{report.target}'?")
    for done in copy_threads(terms, _watched(ids, "copying"), options.jobs):
        report.add(done)
    _print(session, report)
    _end(report)


def _watched(ids: Sequence[str], label: str) -> Iterator[str]:
    return progress(ids, total=len(ids), label=label)


def _print(session: Session, report: CopyReport) -> None:
    output = session.output
    output.document(
        lambda: copy_record(report),
        lambda: copy_lines(report, output.width),
        rows=lambda: copy_rows(report),
        columns=copy_columns(),
    )


def _end(report: CopyReport) -> None:
    """Raise the error that tells about skipped threads, if there are any."""
    skipped = report.skipped
    if not skipped:
        return
    first = skipped[0]
    reason = f"thread '{first.thread_id}': {first.reason}"
    if report.number:
        raise PartlyDone(f"{counted(len(skipped), 'thread')} skipped; {reason}")
    if first.is_diverged:
        raise Refused(
            f"nothing was copied; {reason}",
            hint="see what --replace would remove: add --replace --dry-run",
        )
    raise Unsupported(f"nothing was copied; {reason}")
