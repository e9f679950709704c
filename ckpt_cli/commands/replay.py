"""`ckpt replay`: does the stored state follow from what the tasks wrote?"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from ckpt_backends.errors import UsageError
from ckpt_cli.core.elimination import Verdict
from ckpt_cli.core.replay import Report, judge_all, report
from ckpt_cli.core.shortrefs import short_refs
from ckpt_cli.core.told import told_reducers
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import At, OptionalThread
from ckpt_cli.reading.replay import replay_thread
from ckpt_cli.reading.replay_all import replay_threads
from ckpt_cli.reading.target import Words, find_checkpoint
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
) -> None:
    """Rebuild each checkpoint from its parent's state and the writes, and compare.

    Which reducer a channel has is not stored: it is the one that explains every step, and
    EVIDENCE counts the steps on which another one fails. A value that cannot be told is
    unverifiable, with the reason. THREAD@REF replays what led to that checkpoint.

    \b
      ckpt -s agent.db replay user-42
      ckpt -s agent.db replay user-42 --verify --reducer notes=append
      ckpt -s agent.db replay --all --verify --jobs 4 -o ndjson | jq 'select(.mismatch > 0)'
    """
    session: Session = ctx.obj
    told = told_reducers(session.reducers, reducer or [])
    if all_threads:
        if thread is not None or at is not None or ns is not None:
            raise UsageError("a thread and --all exclude each other", hint="give one of them")
        _all(session, told, threads, jobs, verify=verify)
        return
    if threads is not None or jobs > 1:
        raise UsageError("--threads and --jobs go with --all")
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
