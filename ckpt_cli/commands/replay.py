"""`ckpt replay`: does the stored state follow from what the tasks wrote?"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from ckpt_backends.errors import PartlyDone, Refused, UsageError
from ckpt_cli.commands.carrying_out import write
from ckpt_cli.core.elimination import Verdict
from ckpt_cli.core.replay import Report, judge_all, report
from ckpt_cli.core.shortrefs import short_refs
from ckpt_cli.core.told import told_reducers
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import At, DryRun, OptionalThread, Yes
from ckpt_cli.reading.repair import plan_repair
from ckpt_cli.reading.replay import replay_thread
from ckpt_cli.reading.replay_all import replay_threads
from ckpt_cli.reading.target import Words, find_checkpoint, find_thread
from ckpt_cli.render.repair import REPAIR_COLUMNS, repair_lines, repair_record, repair_rows
from ckpt_cli.render.replay import (
    REPORT_COLUMNS,
    THREAD_COLUMNS,
    report_lines,
    report_record,
    report_rows,
    thread_rows,
    transition_columns,
    transition_rows,
)
from ckpt_cli.render.value import counted
from ckpt_cli.session import Session

VerifyOption = Annotated[
    bool, typer.Option("--verify", help="Count the verdicts; exit 1 if anything does not match.")
]
ReducerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reducer",
        metavar="CHANNEL=NAME",
        help="What a channel merges with, instead of finding out; may be repeated.",
    ),
]


def replay(
    ctx: typer.Context,
    thread: OptionalThread = None,
    at: At = None,
    ns: Annotated[
        str | None,
        typer.Option("--ns", metavar="NAMESPACE", help="Only this one, '' for the root."),
    ] = None,
    verify: VerifyOption = False,
    all_threads: Annotated[bool, typer.Option("--all", help="All threads of the store.")] = False,
    threads: Annotated[
        str | None,
        typer.Option("--threads", metavar="GLOB", help="With --all, only these: 'user-*'."),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", min=1, max=64, help="With --all, use so many processes.")
    ] = 1,
    reducer: ReducerOption = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Put back values that are missing or unreadable."),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Prove each checkpoint by its parent and the writes.

    Each one is rebuilt from its parent's state and what the tasks wrote, and compared. Which
    reducer a channel has is not stored: it is the one that explains every step, and EVIDENCE
    counts the steps on which another one fails. A value that cannot be told is unverifiable,
    with the reason. THREAD@REF replays what led to that checkpoint.

    With --repair, a value that is gone, or whose bytes are damaged, is put back if all reducers
    that explain the channel make the same of it; a readable one is never touched.

    \b
      ckpt -s agent.db replay user-42
      ckpt -s agent.db replay user-42 --verify --reducer notes=append
      ckpt -s agent.db replay --all --verify --jobs 4 -o ndjson | jq 'select(.mismatch > 0)'
      ckpt -s postgresql://db/agents replay user-42 --repair --dry-run
    """
    session: Session = ctx.obj
    told = told_reducers(session.reducers, reducer or [])
    if (dry_run or yes) and not repair:
        raise UsageError("--dry-run and --yes go with --repair")
    if repair and (verify or all_threads or at is not None or ns is not None):
        raise UsageError("--repair takes a whole thread", hint="give THREAD alone")
    if all_threads:
        if thread is not None or at is not None or ns is not None:
            raise UsageError("a thread and --all exclude each other", hint="give one of them")
        _all(session, told, threads, jobs, verify=verify)
        return
    if threads is not None or jobs > 1:
        raise UsageError("--threads and --jobs go with --all")
    if repair:
        _repair(session, thread, told, dry_run=dry_run, yes=yes)
        return
    words = Words(thread, at, ns)
    target = find_checkpoint(session.store, words, session.now, session.zone, session.note)
    reader = target.reader
    namespace = target.checkpoint_ns if ns is not None or target.chosen else None
    upto = target.checkpoint_id if target.chosen else None
    ((found, judgements),) = judge_all([replay_thread(reader, namespace, upto)], told)
    refs = short_refs([one.key.checkpoint_id for n in reader.namespaces for one in reader.index(n)])
    if not verify:
        session.output.records(transition_rows(found, judgements), transition_columns(refs))
        return
    about = report(found, judgements)
    session.output.document(
        lambda: report_record(about),
        lambda: report_lines(about, refs, session.output.width),
        rows=lambda: report_rows(about),
        columns=REPORT_COLUMNS,
    )
    _conclude(session, [about])


def _repair(
    session: Session, thread: str | None, told: dict[str, str], *, dry_run: bool, yes: bool
) -> None:
    if session.settings.get("copy") and not dry_run:
        raise UsageError("a private copy is not what is to be changed", hint="leave out --copy")
    plan = plan_repair(find_thread(session.store, thread, session.note), told)
    output = session.output

    def show() -> None:
        output.document(
            lambda: repair_record(plan, dry_run=dry_run),
            lambda: repair_lines(plan, output.width),
            rows=lambda: repair_rows(plan),
            columns=REPAIR_COLUMNS,
        )

    if dry_run or not output.machine:
        show()
    if dry_run and plan.rebuilt:
        session.note("a dry run: nothing was written")
    if not plan.rebuilt and not plan.refused:
        session.note("nothing is missing or unreadable")
    if plan.rebuilt and not dry_run:
        n = counted(len(plan.rebuilt), "value")
        write(session, plan.change, f"Put back {n} of thread '{plan.thread_id}'?", yes=yes)
        session.note(f"put back {n}")
    if output.machine and not dry_run:
        show()
    if plan.refused:
        said = f"{counted(len(plan.refused), 'value')} cannot be put back"
        if plan.rebuilt:
            raise PartlyDone(said)
        raise Refused(said, hint=None if dry_run else "`ckpt replay --repair --dry-run` says why")


def _all(
    session: Session, told: dict[str, str], pattern: str | None, jobs: int, *, verify: bool
) -> None:
    ids = (
        one.thread_id
        for one in session.store.threads()
        if pattern is None or fnmatchcase(one.thread_id, pattern)
    )
    watched = progress(ids, total=None, label="replaying threads")
    found = replay_threads(session.store, session.opening, watched, jobs)
    wrong: list[Report] = []

    def rows() -> Iterator[dict[str, Any]]:
        for one, judgements in judge_all(found, told):
            about = report(one, judgements)
            if about.verdicts.get(Verdict.MISMATCH):
                wrong.append(about)
            yield thread_rows(about)

    session.output.records(rows(), THREAD_COLUMNS)
    if verify:
        _conclude(session, wrong)


def _conclude(session: Session, reports: list[Report]) -> None:
    """Exit with 1 where something does not match, and say where to look."""
    for about in reports:
        for one in about.findings:
            if one.verdict is Verdict.MISMATCH:
                child = one.transition.child
                session.note(f"see `ckpt diff --writes {about.thread_id}@{child}`")
                raise typer.Exit(1)
