"""`ckpt copy`: copy threads to another store, or to new threads of the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

from ckpt_backends.errors import CkptError, PartlyDone, UsageError
from ckpt_backends.model import in_chunks
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.sealing import AsStored
from ckpt_cli.api.answer import Answer
from ckpt_cli.apply.copy import CopyTerms, copy_threads, opened_sides, plan_threads
from ckpt_cli.commands import arguments
from ckpt_cli.commands.changing import carried_out, confirm, reviewed, rollback_many, show_and_apply
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.core.copying import CopyReport
from ckpt_cli.diagnostics import Bar, progress, shows_progress
from ckpt_cli.ending import Ended
from ckpt_cli.options import At, DryRun, HeadAt, Jobs, Match, Where, Yes
from ckpt_cli.plans.fork import RollbackOptions, plan_fork_to_thread, plan_thread_copy
from ckpt_cli.plans.proposal import Proposal, new_step
from ckpt_cli.plans.rollback import COPY_OPTIONS, TargetOptions, new_thread_id
from ckpt_cli.queries.stores import language_of
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.target import TargetArguments, find_named
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.copy import COPIED, DUPLICATE_VIEW, Duplicate
from ckpt_cli.render.plan import undo_command
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from ckpt_cli.plans.saved_plan import PlanReview

_SIZES_AT_ONCE = 500


@plannable("copy", again=("to", "new_key_file"))
def copy(
    ctx: Context,
    threads: Annotated[
        list[str] | None,
        Argument(metavar="THREAD[@REF]", help="Threads to copy; with --as, also checkpoints."),
    ] = None,
    to: Annotated[
        str | None, Option("--to", metavar="STORE", help="Copy to this file, URL or profile.")
    ] = None,
    as_: Annotated[
        str | None,
        Option("--as", metavar="NEW", help="Copy in this store, to a new thread with the id NEW."),
    ] = None,
    match: Match = None,
    where: Where = None,
    everything: Annotated[bool, Option("--all", help="Copy all threads.")] = False,
    at: At = None,
    as_of: HeadAt = None,
    create: Annotated[
        bool, Option("--create", help="Make the target if nothing is there.")
    ] = False,
    replace: Annotated[
        bool, Option("--replace", help="Replace threads of the target that have diverged.")
    ] = False,
    new_key_file: arguments.NewKeyFile = None,
    encrypt: arguments.Encrypt = False,
    decrypt: arguments.Decrypt = False,
    jobs: Jobs = 1,
    reason: arguments.Reason = None,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Copy threads to another store, or to a new thread.

    **--to STORE** copies checkpoints, metadata, writes and values of all namespaces under the same
    ids, to a store of any layout. The source is only read. Every thread is read back and compared.
    Run the same command again to add what is new since: copy, stop the agent, copy again, start
    the agent on the target.

    Encrypted values stay as they are, unless --new-key-file, --encrypt or --decrypt is given. A
    value that has another form in the target is decrypted and encrypted again with its key.

    A thread that the target cannot hold as it is, is skipped with the reason; so is a thread that
    was continued in the target. --replace removes it there first, and shows what would go.

    **--as NEW** copies a thread in the same store: every branch and namespace, and questions that
    wait for an answer. With a checkpoint (@REF, --at or --as-of) it copies only this one and its
    ancestors; a copy of the head also gets the writes of its tasks. --where, --match and several
    threads need --at or --as-of, and '{thread}' in NEW, which is the id of each thread.

    ```
    ckpt -s agent.db copy --all --to postgresql://db/agents --create
    ckpt -s prod copy --where 'idle > 90d' --to archive.db --create --yes
    ckpt -s agent.db copy user-42 --to staging --dry-run
    ckpt -s agent.db copy user-42 --as before-migration
    ckpt -s agent.db copy user-42@step:3 --as user-42-try
    ckpt -s agent.db copy --where 'status = error' --at head --as '{thread}-retry'
    ```
    """
    session: Session = ctx.obj
    there = {
        "--all": everything,
        "--create": create,
        "--replace": replace,
        "--new-key-file": new_key_file is not None,
        "--encrypt": encrypt,
        "--decrypt": decrypt,
        "--jobs": jobs > 1,
    }
    here = {"--at": at is not None, "--as-of": as_of is not None}
    _check_target(to, as_, there, here)
    if as_ is not None:
        choice = TargetOptions(None, at, as_of, options=COPY_OPTIONS)
        targets = arguments.ThreadTargets(
            tuple(threads or ()), None, match, tuple(where or ()), has_all=False
        )
        _copy_here(session, targets, choice, as_)
        return
    arguments.check_one_way(threads, match, where, everything=everything)
    keys = arguments.keys_of(session, new_key_file, encrypt=encrypt, decrypt=decrypt)
    ids = [one.thread_id for one in arguments.threads_to_change(session, threads, match, where)]
    language = language_of(session.store, ids[0]) if ids else None
    terms = CopyTerms(
        session.names.store_url,
        session.names.url_of(to or ""),
        language or Language.PYTHON,
        keys or AsStored(),
        create=create,
        replace=replace,
    )
    _copy_there(session, terms, ids, jobs)


def _check_target(
    to: str | None, new: str | None, there: Mapping[str, bool], here: Mapping[str, bool]
) -> None:
    """Raise `UsageError` unless one target is given, with no option of the other kind of copy."""
    if not to and new is None:
        raise UsageError(
            "no target given", hint="give --to STORE for another store, --as NEW for a new thread"
        )
    if to and new is not None:
        raise UsageError(
            "--to cannot be combined with --as: another store gets threads under their own ids",
            hint="first `ckpt copy THREAD --as NEW`, then `ckpt copy NEW --to STORE`",
        )
    kind, others = ("--to STORE", here) if to else ("--as NEW", there)
    for name, is_given in others.items():
        if is_given:
            raise UsageError(f"{name} cannot be combined with {kind}", hint="leave out one of them")
    if new == "":
        raise UsageError("the new thread id is empty", hint="give one: --as NEW")


def _copy_there(session: Session, terms: CopyTerms, ids: Sequence[str], jobs: int) -> None:
    """Copy threads to another store, or show what would be copied."""
    if session.review is not None:
        _review(session.review, terms, ids)
    size = _size(session.store, ids) if shows_progress() else None
    dry_run, yes, _ = session.consent
    if dry_run or (terms.replace and not yes):
        planned = _planned(terms, ids, size)
        if dry_run or not session.output.machine:
            session.show(Answer(planned, COPIED))
        if dry_run:
            session.note_dry_run()
            _end(session, planned)
            return
    if not yes:
        made = "Make the store if it is missing, and copy" if terms.create else "Copy"
        confirm(f"{made} {counted(len(ids), 'thread')} to '{terms.target}'?")
    _copy(session, terms, ids, size, jobs)


def _copy_here(
    session: Session, targets: arguments.ThreadTargets, choice: TargetOptions, new: str
) -> None:
    """Copy a thread, or the history of a checkpoint of one or many, under new ids."""
    options = RollbackOptions(reason=session.consent.reason, fork=True)
    if targets.is_several:
        rollback_many(session, targets, choice, options, new=new)
        return
    choice.check()
    (name,) = targets.names or ()
    words = TargetArguments(name, choice.at, as_of=choice.as_of)
    named = find_named(session.store, words, session.note)
    thread_id = named.reader.thread_id
    new_id = new_thread_id(new, thread_id)
    if not named.has_ref:
        _copy_whole(session, named.reader, new_id)
        return
    target = named.checkpoint(session.now, session.zone).checkpoint_id
    plan = plan_fork_to_thread(named.reader, session.editable, target, new_id, options)
    question = f"Copy '{thread_id}' to '{new_id}' ({plan.why})?"
    show_and_apply(session, Proposal.of(plan), question)


def _copy_whole(session: Session, reader: ThreadReader, new_id: str) -> None:
    """Copy all of a thread, and say how much it is."""
    dry_run, yes, _ = session.consent
    plan = plan_thread_copy(reader, session.rows, new_id)
    proposal = reviewed(session, Proposal(plan.source, new_step(plan.change)))
    undo = "" if dry_run else undo_command(session.names.words, new_id)
    found = Duplicate(new_id, plan, dry_run, undo)
    if not dry_run:
        if not yes:
            confirm(f"Copy '{plan.source}' to '{new_id}' ({found.amount})?")
        carried_out(session, [proposal], "copy")
    session.show(Answer(found, DUPLICATE_VIEW))
    if dry_run:
        session.note_dry_run()


def _review(review: PlanReview, terms: CopyTerms, ids: Sequence[str]) -> None:
    """Save what both stores have of each thread, or compare it with a saved plan."""
    with opened_sides(terms) as sides:
        review.see({"layout": sides.source_layout, "target": sides.target_layout})
        for thread_id in progress(ids, total=len(ids), label="reading"):
            review.see_thread(thread_id, source=sides.source, target=sides.target)


def _planned(terms: CopyTerms, ids: Sequence[str], size: int | None) -> CopyReport:
    planned = CopyReport(str(terms.source), str(terms.target), is_dry_run=True)
    with Bar("comparing", size, of_bytes=True) as bar:
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
            recorder.operation("copy", reason=session.consent.reason) as recording,
            Bar("copying", size, of_bytes=True) as bar,
            closing(copy_threads(terms, ids, executor, bar.advance, recording)) as copied,
        ):
            for one in copied:
                report.add(one)
    except (KeyboardInterrupt, Ended):
        _print_stopped(session, report, len(ids))
        raise
    except CkptError as error:
        if not (report.number or report.skipped):
            raise
        _print_stopped(session, report, len(ids))
        raise PartlyDone(f"stopped: {error.message}", hint=error.hint) from error
    session.show(Answer(report, COPIED))
    _end(session, report)


def _print_stopped(session: Session, report: CopyReport, number: int) -> None:
    session.show(Answer(report, COPIED))
    left = number - report.number - len(report.skipped)
    session.note(f"stopped: {counted(left, 'thread')} left; the same command goes on from there")


def _size(store: Store, ids: Sequence[str]) -> int | None:
    """Return the bytes of some threads; None if the engine cannot add them up."""
    if not store.sums_sizes:
        return None
    return sum(one.bytes for some in in_chunks(ids, _SIZES_AT_ONCE) for one in store.sizes(some))


def _end(session: Session, report: CopyReport) -> None:
    """Note what was lost, and raise the error that tells about skipped threads, if any."""
    if report.unexpiring:
        rows = counted(report.unexpiring, "row")
        session.note(f"{rows} expire in the source; the target has no expiry, so they stay there")
    report.raise_skipped("thread", "remove")
