"""Erase threads, or a person: plan, ask, carry it out, write the receipt, verify a receipt."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from typer import Exit

from ckpt_backends import shell
from ckpt_backends.errors import PartlyDone, StoreUnavailable, UsageError
from ckpt_backends.files.regular_file import read_regular
from ckpt_cli import __version__
from ckpt_cli.api.filters import explain_short_forms, filter_of
from ckpt_cli.apply.erase import ErasureRun
from ckpt_cli.apply.erase_receipt import check_receipt_path, write_receipt
from ckpt_cli.apply.recording import Recorder
from ckpt_cli.apply.stopping import collected_signals
from ckpt_cli.apply.unfinished_erasures import UnfinishedErasure, unfinished_erasure
from ckpt_cli.apply.writable import check_removable, refuse_copy
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.config.erase_rules import EraseRules
from ckpt_cli.core.erasure.digests import ErasedIds
from ckpt_cli.core.erasure.places import ErasurePlace, ErasureReport
from ckpt_cli.core.erasure.receipt import ErasureReceipt, receipt_from_record
from ckpt_cli.core.erasure.subject import check_field, check_memory_pattern, parse_subject
from ckpt_cli.diagnostics import progress
from ckpt_cli.operations.audit import AuditFile
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.place import place_of, store_text
from ckpt_cli.plans.erase import ErasurePlan
from ckpt_cli.plans.erase_everything import ErasureRequest, plan_everything, surviving_threads
from ckpt_cli.plans.erase_facts import erasure_facts
from ckpt_cli.queries.erase_verification import verified_places
from ckpt_cli.queries.memory_location import MemoryPlace, memory_place
from ckpt_cli.render.erase import (
    erasure_lines,
    erasure_question,
    erasure_record,
    place_columns,
    place_rows,
    verification_record,
)
from ckpt_cli.render.terminal.table import table_lines
from ckpt_cli.render.terminal.units import iso
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session

_CANNOT_UNDO = "an erasure cannot be undone"
_LONGEST = 256 << 20
"""Bytes of a receipt."""


def erasure_request(
    session: Session,
    threads: Sequence[str],
    subject: str | None,
    where: Sequence[str] | None,
    match: str | None,
    memory: str | None,
    patterns: Sequence[str] | None,
    archives: Sequence[Path],
) -> ErasureRequest:
    """Return what is asked for, by the options and the profile. Raises `UsageError`.

    `patterns` are the namespaces of a person in long-term memory.
    """
    rules = session.names.erase_rules or EraseRules()
    if rules.subject is not None:
        check_field(rules.subject)
    for folder in archives:
        if not folder.exists():
            raise UsageError(f"there is no folder '{folder}'", hint="name folders with archives")
    if patterns is None and rules.memory is not None:
        patterns = [rules.memory]
    for one in patterns or ():
        check_memory_pattern(one)
    return ErasureRequest(
        tuple(threads),
        None if subject is None else parse_subject(subject, rules.subject),
        rules.subject,
        filter_of(session, where, acts=True),
        match,
        tuple(patterns or ()),
        tuple(_memories(session, memory)),
        _folders(session, archives),
        audit=session.names.audit,
    )


def erase_person(
    session: Session,
    request: ErasureRequest,
    *,
    subject: str | None,
    where: Sequence[str] | None,
    command: str,
    receipt: Path | None,
    rewrite: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Plan an erasure, show it and, unless it is a dry run, carry it out.

    `subject` and `where` are the texts of the filters in the request; `command` is recorded.
    Raises `Refused` where nobody can be asked or the answer is no, and `PartlyDone` if something
    is left.
    """
    if not dry_run:
        refuse_copy(session.names.store_url)
        if receipt is not None:
            check_receipt_path(receipt)
        session.settle()
    check_removable(session.store)
    place = place_of(session.names.store_url)
    asked = "\0".join([subject or "", request.match or "", *(where or ()), *request.threads])
    before = unfinished_erasure(place, asked)
    request = replace(request, earlier=None if before is None else before.ids)
    plan = plan_everything(
        session.store,
        session.opening,
        request,
        session.now,
        lambda threads: progress(threads, total=None, label="reading threads"),
    )
    report = ErasureReport(
        subject,
        dry_run,
        mentions=plan.mentions,
        has_more_mentions=plan.has_more_mentions,
        is_searched=request.finds_mentions,
    )
    _note_missing(session, request.threads, plan)
    if not plan.threads:
        explain_short_forms(session, where)
    if plan.unsearched:
        values = counted(plan.unsearched, "value")
        session.note(f"{values} could not be searched for the person's name")
    for one in plan.memories:
        if one.warning:
            session.note(f"'{one.url}': {one.warning}")
    if session.review is not None:
        for fact in erasure_facts(plan, session.rows):
            session.review.see(fact)
    if dry_run:
        report.add(plan.places())
        _print(session, report)
        session.note_dry_run("erased")
        return
    if not (plan.is_empty or yes):
        _show_and_ask(session, plan, report)
    unfinished = before or UnfinishedErasure(ErasedIds(), place, asked)
    recorder = replace(session.recorder, command=command)
    caught = _carry_out(session, request, plan, report, unfinished, recorder, rewrite=rewrite)
    if receipt is not None:
        _write_receipt(session, receipt, plan, report, unfinished)
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


def _show_and_ask(session: Session, plan: ErasurePlan, report: ErasureReport) -> None:
    if not session.output.machine:
        shown = replace(report, places=plan.places(), is_dry_run=True)
        session.output.document(dict, lambda: erasure_lines(shown, session.output.width))
    confirm(erasure_question(plan))


def _carry_out(
    session: Session,
    request: ErasureRequest,
    plan: ErasurePlan,
    report: ErasureReport,
    unfinished: UnfinishedErasure,
    recorder: Recorder,
    *,
    rewrite: bool,
) -> list[int]:
    """Erase everything that was planned. Returns the signals meanwhile.

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
                rewrite=rewrite,
                progress=_step_note(session),
            ).carry_out()
            _add_survivors(session, request, plan, report, ids)
        if report.is_complete:
            unfinished.remove()
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


def _folders(session: Session, named: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders of archives that are named, and those of the profile."""
    rules = session.names.erase_rules or EraseRules()
    return (*named, *map(Path, rules.archives))


def verify_receipt(
    session: Session, path: Path, memory: str | None, archives: Sequence[Path]
) -> None:
    """Check that nothing of a receipt is back, place by place, and print the answer.

    Exits with 1 if something is back. Raises `PartlyDone` if a place cannot be checked.
    """
    receipt = _read(path)
    memories = [one.url for one in _memories(session, memory)]
    folders = _folders(session, archives)
    url = session.names.store_url
    if receipt.place != place_of(url):
        raise UsageError(
            f"cannot verify '{path}' in '{url}': it is of the store '{receipt.store}'",
            hint=f"use `-s {shell.word(receipt.store)}`",
        )
    named = dict.fromkeys([*map(Path, receipt.named_folders), *(one.absolute() for one in folders)])
    places = list(verified_places(receipt, url, lambda: session.store, memories, named))
    record = verification_record(str(path), places)
    session.output.document(
        lambda: record,
        lambda: table_lines(record["places"], place_columns(), session.output.width),
        rows=lambda: record["places"],
        columns=place_columns(),
    )
    if back := [one for one in places if one.state == "kept"]:
        session.note(f"something is back in {counted(len(back), 'place')}")
        raise Exit(1)
    if unread := [one for one in places if one.state == "unreachable"]:
        number = counted(len(unread), "place")
        raise PartlyDone(f"{number} could not be checked: {unread[0].reason}")


def _read(path: Path) -> ErasureReceipt:
    try:
        return receipt_from_record(json.loads(read_regular(path, _LONGEST)))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read the receipt '{path}': {reason}") from error
    except StoreUnavailable as error:
        raise UsageError(error.message, hint=error.hint) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"cannot read the receipt '{path}': not a receipt of an erasure",
            hint="give a file that `ckpt erase --receipt FILE` wrote",
        ) from error
