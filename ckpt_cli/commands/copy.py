"""`ckpt copy`: copy threads to another store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ckpt_backends.errors import CkptError, PartlyDone, Refused, Unsupported, UsageError
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.sealing import AsStored
from ckpt_cli.apply.copy_stores import CopyTerms, opened_sides
from ckpt_cli.apply.copy_threads import copy_threads, plan_threads
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.commands.keys import Decrypt, Encrypt, NewKeyFile, keys_of
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.commands.threads_to_change import threads_to_change
from ckpt_cli.core.copying.outcomes import CopyReport
from ckpt_cli.diagnostics import ByteBar, progress, shows_progress
from ckpt_cli.ending import Ended
from ckpt_cli.options import (
    DryRun,
    Jobs,
    Match,
    Where,
    Yes,
    command_options,
    takes,
)
from ckpt_cli.queries.language import language_of
from ckpt_cli.render.copy import copy_lines, copy_record
from ckpt_cli.render.terminal.table import plain_columns
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session
from ckpt_cli.threads.opening import Opening

if TYPE_CHECKING:
    from ckpt_cli.plans.plan_review import PlanReview

_SIZES_AT_ONCE = 500


@command_options
class CopyOptions:
    """What `ckpt copy` is asked for."""

    threads: Annotated[list[str] | None, Argument(metavar="THREAD", help="Threads to copy.")] = None
    to: Annotated[
        str, Option("--to", metavar="STORE", help="Copy to this file, URL or profile.")
    ] = ""
    match: Match = None
    where: Where = None
    everything: Annotated[bool, Option("--all", help="Copy all threads.")] = False
    create: Annotated[bool, Option("--create", help="Make the target if nothing is there.")] = False
    replace: Annotated[
        bool, Option("--replace", help="Replace threads of the target that went their own way.")
    ] = False
    new_key_file: NewKeyFile = None
    encrypt: Encrypt = False
    decrypt: Decrypt = False
    jobs: Jobs = 1
    plan_out: PlanOut = None
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


@plannable("copy", again=("to", "new_key_file"))
@takes(CopyOptions)
def copy(session: Session, options: CopyOptions) -> None:
    """Copy threads to another store, of any layout.

    Copies checkpoints, metadata, writes and values of all namespaces under the same ids. The
    source is only read. Every thread is read back and compared. Run the same command again to add
    what is new since: copy, stop the agent, copy again, start the agent on the target.

    Encrypted values stay as they are, unless --new-key-file, --encrypt or --decrypt is given. A
    value that has another form in the target is decrypted and encrypted again with its key.

    A thread that the target cannot hold as it is, is skipped with the reason; so is a thread that
    was continued in the target. --replace removes it there first, and shows what would go.

    ```
    ckpt -s agent.db copy --all --to postgresql://db/agents --create
    ckpt -s prod copy --where 'idle > 90d' --to archive.db --create --yes
    ckpt -s agent.db copy user-42 --to staging --dry-run
    ```
    """
    options.check()
    keys = keys_of(session, options.new_key_file, encrypt=options.encrypt, decrypt=options.decrypt)
    threads = threads_to_change(session, options.threads, options.match, options.where)
    ids = [one.thread_id for one in threads]
    language = language_of(session.store, ids[0]) if ids else None
    terms = CopyTerms(
        session.names.store_url,
        session.names.url_of(options.to),
        language or Language.PYTHON,
        keys or AsStored(),
        create=options.create,
        replace=options.replace,
    )
    if session.review is not None:
        _review(session.review, terms, ids)
    size = _size(session.store, ids) if shows_progress() else None
    if options.dry_run or (options.replace and not options.yes):
        planned = _planned(terms, ids, size)
        if options.dry_run or not session.output.machine:
            _print(session, planned)
        if options.dry_run:
            session.note_dry_run()
            _end(session, planned)
            return
    if not options.yes:
        made = "Make the store if it is missing, and copy" if options.create else "Copy"
        confirm(f"{made} {counted(len(ids), 'thread')} to '{terms.target}'?")
    _copy(session, terms, ids, size, options.jobs)


def _review(review: PlanReview, terms: CopyTerms, ids: Sequence[str]) -> None:
    """Save what both stores have of each thread, or compare it with a saved plan."""
    with opened_sides(terms) as sides:
        review.see({"layout": sides.source_layout, "target": sides.target_layout})
        for thread_id in progress(ids, total=len(ids), label="reading"):
            review.see_thread(thread_id, source=sides.source, target=sides.target)


def _planned(terms: CopyTerms, ids: Sequence[str], size: int | None) -> CopyReport:
    planned = CopyReport(str(terms.source), str(terms.target), is_dry_run=True)
    with ByteBar("comparing", size) as bar:
        for one in plan_threads(terms, ids, bar.advance):
            planned.add(one)
    return planned


def _copy(
    session: Session, terms: CopyTerms, ids: Sequence[str], size: int | None, jobs: int
) -> None:
    """Copy the threads, and print what became of them, also after an error or a signal."""
    report = CopyReport(str(terms.source), str(terms.target), is_dry_run=False)
    recorder = session.recorder_of(terms.target)
    executor = session.executor(jobs, opening=Opening(terms.source))
    try:
        with (
            recorder.operation("copy") as recording,
            ByteBar("copying", size) as bar,
            closing(copy_threads(terms, ids, executor, bar.advance, recording)) as copied,
        ):
            for one in copied:
                report.add(one)
    except (KeyboardInterrupt, Ended):
        _print_stopped(session, report, len(ids))
        raise
    except CkptError as error:
        if not report.is_begun:
            raise
        _print_stopped(session, report, len(ids))
        raise PartlyDone(f"stopped: {error.message}", hint=error.hint) from error
    _print(session, report)
    _end(session, report)


def _print_stopped(session: Session, report: CopyReport, number: int) -> None:
    _print(session, report)
    left = number - report.number - len(report.skipped)
    session.note(f"stopped: {counted(left, 'thread')} left; the same command goes on from there")


def _size(store: Store, ids: Sequence[str]) -> int | None:
    """Return the bytes of some threads; None if the engine cannot add them up."""
    if not store.sums_sizes:
        return None
    return sum(one.bytes for some in _parts(ids) for one in store.sizes(some))


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + _SIZES_AT_ONCE] for start in range(0, len(ids), _SIZES_AT_ONCE))


def _print(session: Session, report: CopyReport) -> None:
    output, record = session.output, copy_record(report)
    output.document(
        lambda: record,
        lambda: copy_lines(report, output.width),
        rows=lambda: [record],
        columns=plain_columns(*record),
    )


def _end(session: Session, report: CopyReport) -> None:
    """Note what was lost, and raise the error that tells about skipped threads, if any."""
    if report.unexpiring:
        rows = counted(report.unexpiring, "row")
        session.note(f"{rows} expire in the source; the target has no expiry, so they stay there")
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
