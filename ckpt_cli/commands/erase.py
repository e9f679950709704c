"""`ckpt erase`: erases a person, threads or single values for good."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context, Exit, Option

from ckpt_backends import shell
from ckpt_backends.changes import Remains
from ckpt_backends.erasing.thread import ChangedPath
from ckpt_backends.errors import (
    CkptError,
    NotFound,
    PartlyDone,
    Refused,
    StoreChanged,
    StoreUnavailable,
    Unsupported,
    UsageError,
    reason_of,
)
from ckpt_backends.files import read_regular
from ckpt_backends.transfer.sealing import WithKeys
from ckpt_cli import __version__
from ckpt_cli.api.answer import Answer, explain_short_forms, filter_of
from ckpt_cli.apply.erase import (
    ErasureRun,
    check_receipt_path,
    erase_values_of,
    kept_places,
    unfinished_erasure,
    write_receipt,
)
from ckpt_cli.apply.recording import check_removable, collected_signals, writable_store
from ckpt_cli.commands.arguments import LONGEST_INPUT, read_input
from ckpt_cli.commands.changing import confirm
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.config.profiles import EraseRules
from ckpt_cli.config.store_names import MemoryPlace, memory_place
from ckpt_cli.core.erasure import (
    ErasureReceipt,
    ErasureReport,
    check_memory_pattern,
    left_place,
    parse_subject,
    people_field,
    receipt_from_record,
)
from ckpt_cli.core.values import format_path
from ckpt_cli.diagnostics import progress
from ckpt_cli.operations.log import AuditFile, OperationLog, OperationStep, place_of, store_text
from ckpt_cli.options import DryRun, Match, Memory, Namespace, Where, Yes
from ckpt_cli.plans.erase import (
    ErasureRequest,
    erasure_facts,
    plan_everything,
    surviving_threads,
    verified_places,
)
from ckpt_cli.plans.erase_value import (
    EraseValuePlan,
    ErasingSide,
    RecordedPlaces,
    ToErase,
    ValuePlace,
    collected,
    named_place,
    plan_erasure,
)
from ckpt_cli.plans.saved_plan import key_fact
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.render.erase import (
    ERASED_VIEW,
    ERASURE_VIEW,
    VERIFICATION_VIEW,
    ErasedValues,
    Verification,
    erasure_question,
    receipt_record,
)
from ckpt_cli.render.table import iso
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session

_AGAIN = "run the same command again"
_NOT_UNDONE = "an erasure cannot be taken back"


def erase_values(
    session: Session,
    targets: Sequence[str],
    values_from: str | None = None,
    *,
    ns: str | None = None,
    rewrite: bool = False,
) -> None:
    """Overwrite the values that `targets` name (`THREAD[@REF]:PATH`), in the whole threads.

    `values_from` is a file with records of `ckpt secrets`, of which only the secret parts are
    erased; `-` is stdin. `rewrite` lets the engine rewrite whole tables to remove old bytes.
    Raises `NotFound`, `UsageError`, `Refused`, `StoreChanged`, `Unsupported` and `PartlyDone`.
    """
    if not targets and values_from is None:
        raise UsageError("no value to erase", hint="give --value 'THREAD:PATH', or --values-from -")
    dry_run, yes, _ = session.consent
    check_removable(session.store)
    found = session.opening.keys()()
    layout = session.rows.describe().layout
    side = ErasingSide(session.rows, layout, WithKeys(found) if found else None)
    recorded = RecordedPlaces()
    asked = _asked(session, targets, values_from, ns, recorded)
    left = _left_out(recorded)
    if not asked:
        session.show(Answer([], ERASED_VIEW), is_done=True)
        session.note("no record names a value of a thread: nothing to erase")
        if left is not None:
            raise left
        return
    plans = [plan_erasure(side, one) for one in asked]
    _check_found(plans)
    if session.review is not None:
        for one, plan in zip(asked, plans, strict=True):
            session.review.see(_fact(session.review.header.seed, one, plan))
    if dry_run:
        session.show(_answer(session, plans, dry_run=True))
        if left is not None:
            session.note(left.message)
        session.note_dry_run()
        return
    if not yes:
        if session.output.text:
            session.show(_answer(session, plans))
        threads = counted(len(plans), "thread")
        number = counted(sum(one.counts.checkpoints for one in plans), "checkpoint")
        confirm(f"Overwrite these values in {number} of {threads} for good?")
    done, problems, remains = _carry_out(session, side, plans, rewrite=rewrite)
    answer = _answer(session, done, remains)
    session.show(answer, is_done=True, is_shown=not yes, remains=remains)
    if problems:
        raise PartlyDone(
            f"{counted(len(problems), 'thread')} not finished: {problems[0].message}",
            hint="stop the agents, then run the command again to erase the rest",
        )
    if left is not None:
        raise left


def _fact(seed: str, asked: ToErase, plan: EraseValuePlan) -> dict[str, Any]:
    """Return what a saved plan says of a thread: digests only, which take long to guess from."""
    values = "\0".join([*sorted(asked.texts), *sorted(map(repr, asked.scalars))])
    return {
        "thread_id": plan.thread_id,
        "digest": list(plan.digest),
        "values": key_fact(seed, values.encode("utf-8", "surrogatepass")),
    }


def _asked(
    session: Session,
    targets: Sequence[str],
    values_from: str | None,
    ns: str | None,
    recorded: RecordedPlaces,
) -> list[ToErase]:
    """Return what is erased in each thread."""
    # Redacted values would not be found in what is stored.
    store = session.editable
    found = collected(
        (place, place.read())
        for place in (
            named_place(store, one, ns, session.now, session.zone, session.note) for one in targets
        )
    )
    if values_from is not None:
        from ckpt_cli.api.questions import without_secrets  # loads the rules

        # Other line ends may stand in an id.
        lines = read_input(values_from).decode("utf-8", "replace").split("\n")
        try:
            _add_recorded(found, recorded.read(store, lines))
        except NotFound as error:
            raise without_secrets(error) from None  # it lists ids and keys that are there
    session.rows.refresh()
    return list(found.values())


def _add_recorded(found: dict[str, ToErase], places: Iterable[ValuePlace]) -> None:
    """Add the secret parts of what is at some places. Raises `NotFound` and `Refused`."""
    from ckpt_cli.core.secrets import Scanner  # loads the rules

    scanner = Scanner()
    ordered = sorted(places, key=lambda one: one.source)
    for _, of_source in groupby(ordered, lambda one: one.source):
        root = None
        for place in of_source:
            thread_id = place.reader.thread_id
            asked = found.setdefault(thread_id, ToErase(thread_id))
            if root is None:
                root = place.root()
                asked.names |= place.names()
            for one in place.read(root):
                last = one.path[-1] if one.path else None
                for part in scanner.parts(one.value, key=last if isinstance(last, str) else None):
                    asked.add_text(part.text, format_path(place.path))


def _left_out(recorded: RecordedPlaces) -> PartlyDone | None:
    """Return the error for records that name no value of a thread; None if there are none."""
    skipped = recorded.skipped_memory + recorded.skipped_unnamed
    if not skipped:
        return None
    return PartlyDone(
        f"{counted(skipped, 'record')} left: {recorded.skipped_memory} of long-term memory,"
        f" {recorded.skipped_unnamed} without a place",
        hint="delete such items with `ckpt memory delete`, such threads with `ckpt erase`",
    )


def _check_found(plans: Sequence[EraseValuePlan]) -> None:
    """Raise `NotFound` if there is nothing to erase."""
    if not any(one.counts.places for one in plans):
        raise NotFound(
            "nothing stored has this value",
            hint="values inside of compressed data or base64 are not found",
        )


def _carry_out(
    session: Session, side: ErasingSide, plans: Sequence[EraseValuePlan], *, rewrite: bool
) -> tuple[list[EraseValuePlan], list[CkptError], Remains]:
    """Erase the values, and then what is left of them in the engine.

    Returns the plans that were carried out, why others were not, and what remains. Raises what
    `erase_values_of` raises if nothing was erased.
    """
    done: list[EraseValuePlan] = []
    problems: list[CkptError] = []
    readers = (session.store, session.rows)
    with (
        session.recorder.operation("erase", cannot_undo=_NOT_UNDONE) as recording,
        writable_store(session.names.store_url, readers) as writable,
    ):
        writable.begin_erasure()
        for plan in progress(plans, total=len(plans), label="erasing"):
            # An id that contains what is erased would keep it in the log.
            is_erased = plan.erasure.replaced(plan.thread_id) != plan.thread_id
            recording.intend([OperationStep(None if is_erased else plan.thread_id, None, None)])
            try:
                left = erase_values_of(side, writable, plan)
            except (StoreChanged, Unsupported, Refused) as error:
                if not done and plan is plans[-1]:
                    raise
                recording.not_done([plan.thread_id])
                problems.append(error)
                continue
            done.append(plan)
            if left:
                problems.append(StoreChanged(left))
        for reader in readers:
            reader.refresh()
        remains = writable.erase_remains(rewrite=rewrite)
    kept = tuple(one for plan in done for one in kept_places(side, plan))
    return done, problems, remains._replace(places=(*kept, *remains.places))


def _answer(
    session: Session,
    plans: Sequence[EraseValuePlan],
    remains: Remains | None = None,
    *,
    dry_run: bool = False,
) -> Answer[Any]:
    """Return what may be shown; where values are redacted, places are channels only."""
    if is_redacted(session.store):
        plans = list(map(_without_keys, plans))
    return Answer([ErasedValues(one, remains, dry_run) for one in plans], ERASED_VIEW)


def _without_keys(plan: EraseValuePlan) -> EraseValuePlan:
    """Return a plan whose places are channels only: keys of dicts may be data."""
    places: Counter[ChangedPath] = Counter()
    for one, number in plan.counts.places.items():
        places[replace(one, path=one.path[:1])] += number
    return replace(plan, counts=replace(plan.counts, places=places))


def erasure_request(
    session: Session,
    threads: Sequence[str],
    subject: str | None,
    where: Sequence[str] | None,
    match: str | None,
    memory: str | None,
    patterns: Sequence[str] | None,
    archives: Sequence[Path],
    *,
    finds_mentions: bool,
) -> ErasureRequest:
    """Return what is asked for, by the options and the profile. Raises `UsageError`.

    `patterns` are the namespaces of a person in long-term memory.
    """
    rules = session.names.erase_rules or EraseRules()
    if rules.subject is not None:
        people_field(rules.subject)
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
        finds_mentions=finds_mentions,
    )


class PersonErasure:
    """One erasure of a person, or of threads: planned, shown and carried out."""

    def __init__(self, session: Session, request: ErasureRequest, filters: Sequence[str]) -> None:
        """Plan it. `filters` are the texts of the filter in the request."""
        self.session = session
        self.filters = filters
        subject = None if request.subject is None else request.subject.text
        asked = "\0".join([subject or "", request.match or "", *filters, *request.threads])
        self.unfinished = unfinished_erasure(place_of(session.names.store_url), asked)
        if self.unfinished.path is not None:
            request = replace(request, earlier=self.unfinished.ids)
        self.request = request
        self.plan = plan_everything(
            session.store,
            session.opening,
            request,
            session.now,
            lambda threads: progress(threads, total=None, label="reading threads"),
        )
        self.report = ErasureReport(
            subject,
            session.consent.dry_run,
            mentions=self.plan.mentions,
            has_more_mentions=self.plan.has_more_mentions,
            is_searched=request.finds_mentions,
        )

    def carry_out(self, command: str, receipt: Path | None, *, rewrite: bool) -> None:
        """Show it and, unless it is a dry run, carry it out.

        `command` is recorded. Raises `Refused` where nobody can be asked or the answer is no, and
        `PartlyDone` if something is left.
        """
        session, plan, report = self.session, self.plan, self.report
        self._note_planned()
        planned = replace(report, places=[*plan.found(), *plan.unread], is_dry_run=True)
        shown = Answer(planned, ERASURE_VIEW)
        if session.consent.dry_run:
            session.show(shown)
            session.note_dry_run("erased")
            return
        if not (plan.is_empty or session.consent.yes):
            if session.output.text:
                session.show(shown)
            confirm(erasure_question(plan))
        caught: list[int] = []
        if plan.is_empty:
            session.note("nothing to erase")
            report.add(*plan.unread)
            self._add_ids()
        else:
            caught = self._erase(command, rewrite=rewrite)
        if receipt is not None:
            self._write_receipt(receipt)
        session.show(Answer(report, ERASURE_VIEW))
        _end(report, caught)

    def _note_planned(self) -> None:
        """Name threads that were given and are not stored, as an id may be misspelled; tell what
        could not be searched, and hand the plan to a run that saves or applies it.
        """
        session, plan = self.session, self.plan
        found = {one.thread_id for one in plan.threads.rows}
        missing = [one for one in self.request.threads if one not in found]
        if missing:
            named = ", ".join(f"'{one}'" for one in missing[:5])
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            session.note(f"not in this store: thread {named}{more}")
        if not found:
            explain_short_forms(session, self.filters)
        if plan.unsearched:
            values = counted(plan.unsearched, "value")
            session.note(f"{values} could not be searched for the person's name")
        for warning in plan.warnings:
            session.note(warning)
        if session.review is not None:
            for fact in erasure_facts(plan, session.rows):
                session.review.see(fact)

    def _add_ids(self) -> None:
        """Add the digests of all that is erased."""
        ids, plan = self.unfinished.ids, self.plan
        ids.add("thread", ((one,) for one in plan.scope.threads))
        ids.add("namespace", plan.scope.namespaces)
        items = (item.key for one in plan.memories for item in one.rows)
        ids.add("item", ((*one.namespace, one.key) for one in items))
        ids.add("session", ((one.key,) for one in plan.sessions.rows))
        ids.add("archive", (one.thread for one in plan.archives if one.thread is not None))
        ids.add("name", ((one.casefold(),) for one in plan.scope.names))

    def _erase(self, command: str, *, rewrite: bool) -> list[int]:
        """Erase everything that was planned. Returns the signals meanwhile.

        Raises `Refused` if the audit file cannot be written.
        """
        session = self.session
        recorder = replace(session.recorder, command=command)
        if recorder.audit is not None:
            # Later, it would be one more place that is left, after others were erased.
            AuditFile(recorder.audit).check()
        self._add_ids()
        self.unfinished.write(session.note)
        cannot_undo = "an erasure cannot be undone"
        with (
            collected_signals() as caught,
            recorder.operation("erase", cannot_undo=cannot_undo) as recording,
        ):
            ErasureRun(
                self.plan,
                self.unfinished.place,
                OperationLog.of_user(),
                (session.store,),
                recording,
                self.report,
                lambda: f"received {signal.Signals(caught[0]).name}" if caught else "",
                rewrite=rewrite,
                # Each step of an engine may take long.
                progress=session.note if session.settings.get("verbose") else lambda _: None,
            ).carry_out()
            self._add_survivors()
        if self.report.is_complete:
            self.unfinished.remove()
        return caught

    def _add_survivors(self) -> None:
        """Add the place of threads that are stored still, unless the report names it already."""
        report, store, plan = self.report, self.session.store, self.plan
        known = (one for one in report.places if one.kind == "threads" and one.store == plan.store)
        if report.stopped or any(one.is_left and not one.is_unknown for one in known):
            return
        store.refresh()
        found = surviving_threads(store, self.request, plan.scope, self.session.now)
        self.unfinished.ids.add("thread", ((one,) for one in found))
        if found:
            reason = "written again since the erasure began: stop the agents first"
            report.add(left_place(plan.store, "threads", len(found), None, reason))

    def _write_receipt(self, path: Path) -> None:
        plan = self.plan
        receipt = ErasureReceipt(
            store_text(plan.url),
            self.unfinished.place,
            self.unfinished.ids,
            tuple(str(one) for one in plan.folders),
            tuple(sorted({place_of(one.url) for one in plan.memories})),
        )
        facts = {
            "ckpt": __version__,
            "by": self.session.recorder.user,
            "began_at": iso(self.session.now),
            "ended_at": iso(datetime.now(UTC)),
        }
        write_receipt(path, receipt_record(self.report, receipt, plan.scope, facts))


def _end(report: ErasureReport, caught: list[int]) -> None:
    """Raise `PartlyDone` if something is left, and exit with 130 after Ctrl-C."""
    if report.stopped and caught and caught[0] == signal.SIGINT:
        raise Exit(130)
    if report.stopped:
        raise PartlyDone(f"stopped: {report.stopped}", hint=_AGAIN)
    first = next((one for one in report.places if one.is_left), None)
    if first is not None:
        # What was not looked at is not looked at by the same command either.
        hint = None if first.is_unknown else _AGAIN
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
    session.show(Answer(Verification(str(path), places), VERIFICATION_VIEW))
    if back := [one for one in places if one.state == "kept"]:
        session.note(f"something is back in {counted(len(back), 'place')}")
        raise Exit(1)
    if unread := [one for one in places if one.state == "unreachable"]:
        number = counted(len(unread), "place")
        raise PartlyDone(f"{number} could not be checked: {unread[0].reason}")


def _read(path: Path) -> ErasureReceipt:
    try:
        return receipt_from_record(json.loads(read_regular(path, LONGEST_INPUT)))
    except OSError as error:
        raise UsageError(f"cannot read the receipt '{path}': {reason_of(error)}") from error
    except StoreUnavailable as error:
        raise UsageError(error.message, hint=error.hint) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"cannot read the receipt '{path}': not a receipt of an erasure",
            hint="give a file that `ckpt erase --receipt FILE` wrote",
        ) from error


@plannable("erase", again=("memory", "receipt"), reads_with="verify")
def erase(
    ctx: Context,
    threads: Annotated[list[str] | None, Argument(metavar="THREAD", help="Thread ids.")] = None,
    subject: Annotated[
        str | None,
        Option(
            metavar="FILTER",
            help="Erase this person: a filter, or a name if the profile sets `subject`.",
        ),
    ] = None,
    where: Where = None,
    match: Match = None,
    value: Annotated[
        list[str] | None,
        Option(
            "--value",
            metavar="THREAD:PATH",
            help="Overwrite this value in the whole history; repeatable.",
        ),
    ] = None,
    values_from: Annotated[
        str | None,
        Option(
            "--values-from",
            metavar="FILE",
            help="Overwrite what `secrets -o ndjson` found; - is stdin.",
        ),
    ] = None,
    ns: Namespace = None,
    memory: Memory = None,
    memory_namespace: Annotated[
        list[str] | None,
        Option(
            "--memory-namespace",
            metavar="PATTERN",
            help="The person's memory, such as 'users/{user}'; repeatable.",
        ),
    ] = None,
    archives: Annotated[
        list[Path] | None,
        Option("--archives", metavar="DIR", help="Also erase archives in DIR; repeatable."),
    ] = None,
    rewrite: Annotated[
        bool, Option("--rewrite", help="Write whole tables anew to erase free space; locks them.")
    ] = False,
    receipt: Annotated[Path | None, Option(metavar="FILE", help="Write a receipt to FILE.")] = None,
    verify: Annotated[
        Path | None, Option(metavar="RECEIPT", help="Check that nothing of RECEIPT is back.")
    ] = None,
    no_mentions: Annotated[
        bool, Option("--no-mentions", help="Do not search other threads for the person's name.")
    ] = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Erase a person, threads or single values for good.

    Removes the threads in all namespaces, the sessions and items of long-term memory that came from
    them or are the person's, the archives that ckpt wrote of them, and what ckpt recorded about
    them. Then removes the old bytes as far as the engine can. Says place by place what is gone,
    what is left and why. Lists where the person is named elsewhere, and leaves that. A thread is
    the person's if any of its checkpoints matches --subject.

    It cannot be undone. A receipt holds no id and no value; --verify checks later that nothing is
    back. Stop the agents first: a thread that changes meanwhile is left, and the exit code is 7.
    Run the same command again after a stop.

    --value overwrites one leaked value by "[erased]" in all checkpoints and writes of its thread,
    which keeps its ids and goes on. This rewrites stored history, as no other command does.

    ```
    ckpt -s agent.db erase --subject 'metadata.user = "anna"' --dry-run
    ckpt -s agent.db erase --subject 'metadata.user = "anna"' --memory-namespace 'users/{user}'
    ckpt -s agent.db erase user-42 --archives backups --receipt receipt.json
    ckpt -s agent.db erase --verify receipt.json
    ckpt -s agent.db erase --value 'user-42:messages[2].content'
    ckpt -s agent.db secrets -o ndjson | ckpt -s agent.db erase --values-from - --yes
    ```
    """
    session: Session = ctx.obj
    by_value = value is not None or values_from is not None
    how = "--value" if by_value else "--verify" if verify is not None else ""
    by_filter = bool(where) or match is not None
    _check_selection(how, threads, subject, receipt, ns, is_by_filter=by_filter)
    if by_value:
        if verify is not None or archives:
            raise UsageError("--value takes no other selection, and writes no receipt")
        erase_values(session, value or (), values_from, ns=ns, rewrite=rewrite)
        return
    if memory_namespace is not None and subject is None:
        raise UsageError("--memory-namespace belongs to --subject")
    if verify is not None:
        verify_receipt(session, verify, memory, archives or ())
        return
    whom = threads or (), subject, where, match
    places = memory, memory_namespace, archives or ()
    request = erasure_request(session, *whom, *places, finds_mentions=not no_mentions)
    if not dry_run:
        if receipt is not None:
            check_receipt_path(receipt)
        session.settle()
    check_removable(session.store)
    erasure = PersonErasure(session, request, where or ())
    erasure.carry_out(_command(ctx), receipt, rewrite=rewrite)


def _check_selection(
    option: str,
    threads: list[str] | None,
    subject: str | None,
    receipt: Path | None,
    ns: str | None,
    *,
    is_by_filter: bool,
) -> None:
    """Raise `UsageError` if nothing is selected, or in ways that exclude each other.

    `option` selects by itself, without threads; `''` if there is none.
    """
    if ns is not None and option != "--value":
        raise UsageError("--ns belongs to --value: whole threads have all namespaces")
    is_chosen = bool(threads or subject)
    if option and (is_chosen or is_by_filter or receipt is not None):
        more = ", and writes no receipt" if option == "--value" else ""
        raise UsageError(f"{option} takes no other selection{more}")
    if not (option or is_chosen or is_by_filter):
        raise UsageError(
            "nothing selected",
            hint="name threads, or add --subject \"metadata.user = 'anna'\" or --where",
        )
    if is_by_filter and is_chosen:
        raise UsageError(
            "--where and --match cannot be combined with THREAD or --subject",
            hint="write one filter with 'and', or run the command twice",
        )


def _command(ctx: Context) -> str:
    """Return the command line with the names of options only: the rest names the person."""
    session: Session = ctx.obj
    shared = ctx.find_root().command.params
    own = (one for one in ctx.command.params if one not in shared)
    known = {name for one in own if one.param_type_name == "option" for name in one.opts}
    names = dict.fromkeys(word.partition("=")[0] for word in session.argv)
    return " ".join(["ckpt erase", *(one for one in names if one in known)])
