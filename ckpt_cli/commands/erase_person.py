"""Erase threads, or a person: show what was found, ask, carry it out, write the receipt."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from typer import Exit

from ckpt_backends.errors import PartlyDone, UsageError
from ckpt_cli import __version__
from ckpt_cli.api.filters import explain_short_forms, filter_of
from ckpt_cli.apply.erase import ErasureRun
from ckpt_cli.apply.erase_receipt import check_receipt_path, write_receipt
from ckpt_cli.apply.stopping import collected_signals
from ckpt_cli.apply.unfinished_erasures import UnfinishedErasure, unfinished_erasure
from ckpt_cli.apply.writable import check_removable, refuse_copy
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.commands.erase_options import EraseOptions
from ckpt_cli.config.erase_rules import EraseRules
from ckpt_cli.core.erasure.digests import ErasedIds
from ckpt_cli.core.erasure.places import ErasurePlace, ErasureReport
from ckpt_cli.core.erasure.receipt import ErasureReceipt
from ckpt_cli.core.erasure.subject import check_field, check_memory_pattern, parse_subject
from ckpt_cli.diagnostics import progress
from ckpt_cli.operations.audit import AuditFile
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.place import place_of, store_text
from ckpt_cli.plans.erase import ErasurePlan
from ckpt_cli.plans.erase_everything import ErasureRequest, plan_everything, surviving_threads
from ckpt_cli.plans.erase_facts import erasure_facts
from ckpt_cli.queries.memory_location import MemoryPlace, memory_place
from ckpt_cli.render.erase import (
    erasure_lines,
    erasure_question,
    erasure_record,
    place_columns,
    place_rows,
)
from ckpt_cli.render.terminal.units import iso
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session

_CANNOT_UNDO = "an erasure cannot be undone"


def verify_receipt(session: Session, options: EraseOptions, path: Path) -> None:
    """Check that nothing of a receipt has come back; see `erase_verify`."""
    from ckpt_cli.commands.erase_verify import verify

    rules = session.names.erase_rules or EraseRules()
    memories = [one.url for one in _memories(session, options.memory)]
    verify(session, path, memories, _folders(options, rules))


def erase_person(session: Session, options: EraseOptions) -> None:
    """Plan an erasure, show it and, unless it is a dry run, carry it out.

    Raises `Refused` where nobody can be asked or the answer is no, and `PartlyDone` if something
    is left.
    """
    if not options.dry_run:
        refuse_copy(session.names.store_url)
        if options.receipt is not None:
            check_receipt_path(options.receipt)
        session.settle()
    check_removable(session.store)
    place = place_of(session.names.store_url)
    before = unfinished_erasure(place, options.asked)
    request = replace(_request(session, options), earlier=None if before is None else before.ids)
    plan = plan_everything(
        session.store,
        session.opening,
        request,
        session.now,
        lambda threads: progress(threads, total=None, label="reading threads"),
    )
    report = ErasureReport(
        options.subject,
        options.dry_run,
        mentions=plan.mentions,
        has_more_mentions=plan.has_more_mentions,
        is_searched=request.finds_mentions,
    )
    _note_missing(session, options.threads or (), plan)
    if not plan.threads:
        explain_short_forms(session, options.where)
    if plan.unsearched:
        values = counted(plan.unsearched, "value")
        session.note(f"{values} could not be searched for the person's name")
    for one in plan.memories:
        if one.warning:
            session.note(f"'{one.url}': {one.warning}")
    if session.review is not None:
        for fact in erasure_facts(plan, session.rows):
            session.review.see(fact)
    if options.dry_run:
        report.add(plan.places())
        _print(session, report)
        session.note_dry_run("erased")
        return
    if not (plan.is_empty or options.yes):
        _show_and_ask(session, plan, report)
    unfinished = before or UnfinishedErasure(ErasedIds(), place, options.asked)
    caught = _carry_out(session, options, request, plan, report, unfinished)
    _print(session, report)
    _end(report, caught)


def _note_missing(session: Session, given: Sequence[str], plan: ErasurePlan) -> None:
    """Name threads that were given and are not stored: an id may be misspelled."""
    found = {one.thread_id for one in plan.threads}
    missing = [one for one in given if one not in found]
    if missing:
        named = ", ".join(f"'{one}'" for one in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        session.note(f"not in this store: thread {named}{more}")


def _folders(options: EraseOptions, rules: EraseRules) -> tuple[Path, ...]:
    return (*(options.archives or ()), *map(Path, rules.archives))


def _request(session: Session, options: EraseOptions) -> ErasureRequest:
    """Return what is asked for, by the options and the profile. Raises `UsageError`."""
    rules = session.names.erase_rules or EraseRules()
    if rules.subject is not None:
        check_field(rules.subject)
    for folder in options.archives or ():
        if not folder.exists():
            raise UsageError(f"there is no folder '{folder}'", hint="name folders with archives")
    patterns = options.memory_namespace or ([] if rules.memory is None else [rules.memory])
    for one in patterns:
        check_memory_pattern(one)
    return ErasureRequest(
        tuple(options.threads or ()),
        None if options.subject is None else parse_subject(options.subject, rules.subject),
        rules.subject,
        filter_of(session, options.where, acts=True),
        options.match,
        tuple(patterns),
        tuple(_memories(session, options.memory)),
        _folders(options, rules),
        audit=session.names.audit,
        finds_mentions=not options.no_mentions,
    )


def _show_and_ask(session: Session, plan: ErasurePlan, report: ErasureReport) -> None:
    if not session.output.machine:
        shown = replace(report, places=plan.places(), is_dry_run=True)
        session.output.document(dict, lambda: erasure_lines(shown, session.output.width))
    confirm(erasure_question(plan))


def _carry_out(
    session: Session,
    options: EraseOptions,
    request: ErasureRequest,
    plan: ErasurePlan,
    report: ErasureReport,
    unfinished: UnfinishedErasure,
) -> list[int]:
    """Erase everything that was planned, and write the receipt. Returns the signals meanwhile.

    Raises `Refused` if the audit file cannot be written.
    """
    if plan.is_empty:
        session.note("nothing to erase")
        report.add(plan.unread)
    ids = unfinished.ids
    ids.add_threads(plan.scope.threads)
    ids.add_namespaces(plan.scope.namespaces)
    ids.add_items(item.key for one in plan.memories for item in one.items)
    ids.add_sessions(one.key for one in plan.sessions)
    ids.add_archives(one.thread for one in plan.archives if one.thread is not None)
    ids.add_names(plan.scope.names)
    caught: list[int] = []
    if not plan.is_empty:
        recorder = replace(session.recorder, command=_command(session))
        if recorder.audit is not None:
            # Later, it would be one more place that is left, after others were erased.
            AuditFile(recorder.audit).check()
        unfinished.write(session.note)
        with (
            collected_signals() as caught,
            recorder.operation("erase", cannot_undo=_CANNOT_UNDO) as recording,
        ):
            ErasureRun(
                plan,
                unfinished.place,
                OperationLog.of_user(),
                (session.store,),
                recording,
                report,
                lambda: f"received {signal.Signals(caught[0]).name}" if caught else "",
                rewrite=options.rewrite,
                progress=_step_note(session),
            ).carry_out()
            _add_survivors(session, request, plan, report, ids)
        if report.is_complete:
            unfinished.remove()
    if options.receipt is not None:
        _write_receipt(session, options.receipt, plan, report, unfinished)
    return caught


def _write_receipt(
    session: Session,
    path: Path,
    plan: ErasurePlan,
    report: ErasureReport,
    unfinished: UnfinishedErasure,
) -> None:
    receipt = ErasureReceipt(
        store_text(plan.url),
        unfinished.place,
        unfinished.ids,
        tuple(str(one) for one in plan.folders),
        tuple(sorted({place_of(one.url) for one in plan.memories})),
    )
    facts = {
        "ckpt": __version__,
        "by": session.recorder.user,
        "began_at": iso(session.now),
        "ended_at": iso(datetime.now(UTC)),
    }
    write_receipt(path, report, receipt, plan.scope, facts)


def _add_survivors(
    session: Session,
    request: ErasureRequest,
    plan: ErasurePlan,
    report: ErasureReport,
    ids: ErasedIds,
) -> None:
    """Add the place of the threads that are stored still, unless the report names it already."""
    known = (one for one in report.places if one.kind == "threads" and one.store == plan.store)
    if report.stopped or any(one.is_left and not one.is_unknown for one in known):
        return
    session.store.refresh()
    found = surviving_threads(session.store, request, plan.scope, session.now)
    ids.add_threads(found)
    if found:
        reason = "written again since the erasure began: stop the agents first"
        report.add(
            [ErasurePlace(plan.store, "threads", len(found), None, "kept", reason, is_left=True)]
        )


def _command(session: Session) -> str:
    """Return the command line with the names of options only: the rest names the person."""
    known = {f"--{name.replace('_', '-')}" for name in EraseOptions.__annotations__}
    names = dict.fromkeys(word.partition("=")[0] for word in session.argv)
    return " ".join(["ckpt erase", *(one for one in names if one in known)])


def _step_note(session: Session) -> Callable[[str], None]:
    """Return what is told each step of an engine, which may take long."""
    return session.note if session.settings.get("verbose") else lambda _: None


def _print(session: Session, report: ErasureReport) -> None:
    output = session.output
    output.document(
        lambda: erasure_record(report),
        lambda: erasure_lines(report, output.width),
        rows=lambda: place_rows(report),
        columns=place_columns(),
    )


def _end(report: ErasureReport, caught: list[int]) -> None:
    """Raise `PartlyDone` if something is left, and exit with 130 after Ctrl-C."""
    if report.stopped and caught and caught[0] == signal.SIGINT:
        raise Exit(130)
    if report.stopped:
        raise PartlyDone(f"stopped: {report.stopped}", hint="run the same command again")
    left = [one for one in report.places if one.is_left]
    if not left:
        return
    first = left[0]
    # What was not looked at is not looked at by the same command either.
    hint = None if first.is_unknown else "run the same command again"
    raise PartlyDone(f"not erased completely: {first.store}: {first.reason}", hint=hint)


def _memories(session: Session, chosen: str | None) -> Iterator[MemoryPlace]:
    """Yield the memory in the same store, then the one that is named or near."""
    url = session.names.store_url
    yield MemoryPlace(url, named=False)
    other = memory_place(url, session.names.other_store("memory", chosen))
    if other is not None:
        yield other
