"""`ckpt erase`: erase a person, threads, or single values."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from ckpt_backends.errors import PartlyDone, UsageError
from ckpt_cli import __version__
from ckpt_cli.apply.erase import ErasureRun
from ckpt_cli.apply.erase_receipt import check_receipt_path, write_receipt
from ckpt_cli.apply.stopping import collected_signals
from ckpt_cli.apply.unfinished_erasures import UnfinishedErasure, unfinished_erasure
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.commands.apply_plan import confirm
from ckpt_cli.config.erase_rules import EraseRules
from ckpt_cli.core.erasure.digests import ErasedIds
from ckpt_cli.core.erasure.places import ErasureReport
from ckpt_cli.core.erasure.receipt import ErasureReceipt
from ckpt_cli.core.erasure.subject import check_field, check_memory_pattern, parse_subject
from ckpt_cli.diagnostics import progress
from ckpt_cli.ending import Exit
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.place import place_of
from ckpt_cli.options import DryRun, Filter, Match, Namespace, Yes, argument, flag, option, takes
from ckpt_cli.plans.erase import ErasurePlan
from ckpt_cli.plans.erase_everything import ErasureRequest, plan_everything
from ckpt_cli.queries.memory_location import MemoryPlace, memory_place
from ckpt_cli.queries.selection import parse_filters
from ckpt_cli.render.erase import (
    erasure_lines,
    erasure_question,
    erasure_record,
    place_columns,
    place_rows,
)
from ckpt_cli.render.terminal.units import iso
from ckpt_cli.session import Session

_CANNOT_UNDO = "an erasure cannot be undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseOptions:
    """The arguments and options of `ckpt erase`."""

    threads: Annotated[list[str] | None, argument("[THREAD]...", "Thread ids.")] = None
    subject: Annotated[
        str | None, option("FILTER", "Erase a person: a filter, or a word for the profile.")
    ] = None
    where: Filter = None
    match: Match = None
    value: Annotated[
        list[str] | None,
        option("THREAD:PATH", "Overwrite this value in the whole history; repeatable.", "--value"),
    ] = None
    values_from: Annotated[
        str | None,
        option("FILE", "Overwrite what `secrets -o ndjson` found; - is stdin.", "--values-from"),
    ] = None
    ns: Namespace = None
    memory: Annotated[
        str | None,
        option("STORE", "Long-term memory of these threads. [default: from the profile or near]"),
    ] = None
    archives: Annotated[
        list[Path] | None, option("DIR", "Also erase archives in DIR; repeatable.", "--archives")
    ] = None
    rewrite: Annotated[
        bool, flag("Write whole tables anew to erase free space; locks them.", "--rewrite")
    ] = False
    receipt: Annotated[Path | None, option("FILE", "Write a receipt to FILE.")] = None
    verify: Annotated[Path | None, option("RECEIPT", "Check that nothing of RECEIPT is back.")] = (
        None
    )
    no_mentions: Annotated[
        bool, flag("Do not search other threads for the person's name.", "--no-mentions")
    ] = False
    dry_run: DryRun = False
    yes: Yes = False

    @property
    def names_values(self) -> bool:
        """Whether single values are erased, and no thread."""
        return self.value is not None or self.values_from is not None

    @property
    def asked(self) -> str:
        """What is asked for, as one text, to find what an earlier run of the same began."""
        words = [self.subject or "", self.match or "", *(self.where or ()), *(self.threads or ())]
        return "\0".join(words)

    def check(self) -> None:
        """Raise `UsageError` if nothing is selected, or in ways that exclude each other."""
        by_filter = self.where or self.match is not None
        if self.names_values:
            others = (self.verify, self.receipt, self.subject, self.archives)
            if self.threads or by_filter or any(one is not None for one in others):
                raise UsageError("--value takes no other selection, and writes no receipt")
            return
        if self.ns is not None:
            raise UsageError("--ns belongs to --value: whole threads have all namespaces")
        if self.verify is not None:
            if self.threads or self.subject or by_filter or self.receipt:
                raise UsageError("--verify takes no other selection")
            return
        if not (self.threads or self.subject or by_filter):
            raise UsageError(
                "nothing selected",
                hint="name threads, or add --subject \"metadata.user = 'anna'\" or --where",
            )
        if by_filter and (self.threads or self.subject):
            raise UsageError(
                "--where and --match cannot be combined with THREAD or --subject",
                hint="write one filter with 'and', or run the command twice",
            )


@takes(EraseOptions)
def erase(session: Session, options: EraseOptions) -> None:
    """Erase threads, or a person, with all that was made from them.

    Removes the threads in all namespaces, the sessions and items of long-term memory that came from
    them or are the person's, the archives that ckpt wrote of them, and what ckpt recorded about
    them. Then removes the old bytes as far as the engine can. Says place by place what is gone,
    what is left and why. Lists where the person is named elsewhere, and leaves that.

    It cannot be undone. A receipt holds no id and no value; --verify checks later that nothing is
    back. Stop the agents first: a thread that changes meanwhile is left, and the exit code is 7.
    Run the same command again after a stop.

    --value overwrites one leaked value by "[erased]" in all checkpoints and writes of its thread,
    which keeps its ids and goes on. This rewrites stored history, as no other command does.

    \b
      ckpt -s agent.db erase --subject 'metadata.user = "anna"' --dry-run
      ckpt -s agent.db erase user-42 --archives backups --receipt receipt.json
      ckpt -s agent.db erase --verify receipt.json
      ckpt -s agent.db erase --value 'user-42:messages[2].content'
      ckpt -s agent.db secrets -o ndjson | ckpt -s agent.db erase --values-from - --yes
    """
    options.check()
    if options.names_values:
        _overwrite(session, options)
        return
    rules = session.names.erase_rules or EraseRules()
    folders = (*(options.archives or ()), *map(Path, rules.archives))
    memories = tuple(_memories(session, options.memory))
    if options.verify is not None:
        from ckpt_cli.commands.erase_verify import verify

        verify(session, options.verify, [one.url for one in memories], folders)
        return
    if not options.dry_run:
        refuse_copy(session.names.store_url)
        if options.receipt is not None:
            check_receipt_path(options.receipt)
        session.settle()
    place = place_of(session.names.store_url)
    before = unfinished_erasure(place, options.asked)
    request = replace(
        _request(session, options, rules),
        memories=memories,
        folders=folders,
        earlier=None if before is None else before.ids,
    )
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
    if options.dry_run:
        report.add(plan.places())
        _print(session, report)
        session.note("dry run: nothing was erased")
        return
    if not (plan.is_empty or options.yes):
        _show_and_ask(session, plan, report)
    unfinished = before or UnfinishedErasure(ErasedIds(), place, options.asked)
    caught = _carry_out(session, options, plan, report, unfinished)
    _print(session, report)
    _end(report, caught, rewrite=options.rewrite)


def _overwrite(session: Session, options: EraseOptions) -> None:
    """Overwrite the values that the options name."""
    from ckpt_cli.commands.erase_value import erase_values

    erase_values(
        session,
        options.value or (),
        options.values_from,
        ns=options.ns,
        dry_run=options.dry_run,
        yes=options.yes,
        rewrite=options.rewrite,
    )


def _request(session: Session, options: EraseOptions, rules: EraseRules) -> ErasureRequest:
    """Return what is asked for, by the options and the profile. Raises `UsageError`."""
    if rules.subject is not None:
        check_field(rules.subject)
    if rules.memory is not None:
        check_memory_pattern(rules.memory)
    return ErasureRequest(
        tuple(options.threads or ()),
        None if options.subject is None else parse_subject(options.subject, rules.subject),
        rules.subject,
        parse_filters(options.where or ()),
        options.match,
        rules.memory,
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
    plan: ErasurePlan,
    report: ErasureReport,
    unfinished: UnfinishedErasure,
) -> list[int]:
    """Erase everything that was planned, and write the receipt. Returns the signals meanwhile."""
    if plan.is_empty:
        session.note("nothing to erase")
    ids = unfinished.ids
    ids.add_threads(plan.scope.threads)
    ids.add_namespaces(plan.scope.namespaces)
    ids.add_items(item.key for one in plan.memories for item in one.items)
    ids.add_sessions(one.key for one in plan.sessions)
    caught: list[int] = []
    if not plan.is_empty:
        unfinished.write(session.note)
        recorder = replace(session.recorder, command=_command(session))
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
        if report.is_complete:
            unfinished.remove()
    if options.receipt is not None:
        receipt = ErasureReceipt(
            plan.store,
            unfinished.place,
            ids,
            tuple(str(one) for one in plan.folders),
            tuple(sorted({place_of(one.url) for one in plan.memories})),
        )
        facts = {
            "ckpt": __version__,
            "by": session.recorder.user,
            "began_at": iso(session.now),
            "ended_at": iso(datetime.now(UTC)),
        }
        write_receipt(options.receipt, report, receipt, plan.scope, facts)
    return caught


def _command(session: Session) -> str:
    """Return the command line with the names of options only: the rest names the person."""
    names = [word.partition("=")[0] for word in session.argv if word.startswith("--")]
    return " ".join(["ckpt erase", *dict.fromkeys(names)])


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


def _end(report: ErasureReport, caught: list[int], *, rewrite: bool) -> None:
    """Raise `PartlyDone` if something is left, and exit with 130 after Ctrl-C."""
    if report.stopped and caught and caught[0] == signal.SIGINT:
        raise Exit(130)
    if report.stopped:
        raise PartlyDone(f"stopped: {report.stopped}", hint="run the same command again")
    left = [one for one in report.places if one.is_left]
    if not left:
        return
    hint = "run the same command again"
    if not rewrite and any(one.kind == "engine" for one in left):
        hint += "; add --rewrite to erase free space, too, which locks tables"
    first = left[0]
    raise PartlyDone(f"not erased completely: {first.store}: {first.reason}", hint=hint)


def _memories(session: Session, chosen: str | None) -> Iterator[MemoryPlace]:
    """Yield the memory in the same store, then the one that is named or near."""
    url = session.names.store_url
    yield MemoryPlace(url, named=False)
    other = memory_place(url, session.names.other_store("memory", chosen))
    if other is not None:
        yield other
