"""`ckpt replay`: verify checkpoints against the recorded writes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

from typer import Exit, Option

from ckpt_backends import shell
from ckpt_backends.errors import UsageError
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.core.replay.elimination import Verdict
from ckpt_cli.core.replay.reducer_options import known_reducers
from ckpt_cli.core.replay.report import ReplayReport
from ckpt_cli.core.short_refs import short_refs
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import (
    At,
    Cluster,
    DryRun,
    Jobs,
    Match,
    OptionalThread,
    Where,
    Yes,
    command_options,
    takes,
)
from ckpt_cli.render.replay import (
    REPORT_COLUMNS,
    THREAD_COLUMNS,
    report_lines,
    report_rows,
    transition_columns,
)
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session
from ckpt_cli.threads.target import TargetArguments, find_thread

VerifyOption = Annotated[bool, Option("--verify", help="Print a summary; exit 1 on any mismatch.")]


@command_options
class ReplayOptions:
    """The arguments and options of `ckpt replay`."""

    thread: OptionalThread = None
    at: At = None
    ns: Annotated[
        str | None, Option(metavar="NAMESPACE", help="Only this namespace; '' is the root.")
    ] = None
    verify: VerifyOption = False
    strict: Annotated[
        bool, Option("--strict", help="As --verify; exit 1 also if anything cannot be verified.")
    ] = False
    all_threads: Annotated[bool, Option("--all", help="Replay all threads.")] = False
    match: Match = None
    where: Where = None
    jobs: Jobs = 1
    cluster: Cluster = None
    repair: Annotated[
        bool, Option("--repair", help="Restore lost values, as `ckpt repair values`.")
    ] = False
    plan_out: PlanOut = None
    dry_run: DryRun = False
    yes: Yes = False

    @property
    def is_several(self) -> bool:
        """Whether the options may choose more than one thread."""
        return self.all_threads or self.match is not None or bool(self.where)

    @property
    def is_part(self) -> bool:
        """Whether the options name a checkpoint or a namespace."""
        return self.at is not None or self.ns is not None

    def check(self) -> None:
        """Raise `UsageError` for options that exclude each other."""
        if (self.dry_run or self.yes) and not self.repair:
            raise UsageError("--dry-run, --plan-out and --yes require --repair")
        if self.repair and (self.verify or self.strict or self.is_several or self.is_part):
            raise UsageError(
                "--repair takes a whole thread, without --verify, --strict, --at, --ns, --all,"
                " --match or --where",
                hint="ckpt replay THREAD --repair",
            )
        if self.is_several and (self.thread is not None or self.is_part):
            raise UsageError("THREAD cannot be combined with --all, --match or --where")
        if not self.is_several and self.jobs > 1:
            raise UsageError("--jobs requires --all, --match or --where")
        if not self.is_several and self.cluster is not None:
            raise UsageError("--cluster requires --all, --match or --where")


@plannable("replay", only_with="repair")
@takes(ReplayOptions)
def replay(session: Session, options: ReplayOptions) -> None:
    """Verify checkpoints against recorded writes.

    Rebuilds each checkpoint from its parent's state and the tasks' writes, and compares the
    result with what is stored. THREAD@REF replays the steps that led to that checkpoint.

    Reducers are not stored. For each channel, ckpt takes the reducer that explains every step,
    or shows ? if several kinds do. EVIDENCE counts the steps that other reducers do not explain.
    A value is unverifiable if it cannot be rebuilt; REASON says why.

    --repair restores values that are missing or unreadable, as `ckpt repair values` does.

    ```
    ckpt -s agent.db replay user-42
    ckpt -s agent.db replay user-42 --verify --reducer notes=append
    ckpt -s agent.db replay --all --strict --jobs 4 -o ndjson
    ckpt -s postgresql://db/agents replay user-42 --repair --dry-run
    ```
    """
    told = dict(session.names.told_reducers)
    options.check()
    if options.is_several:
        _all(session, options, told)
        return
    if options.repair:
        _repair(session, options, told)
        return
    checkpoint = session.checkpoint(TargetArguments(options.thread, options.at, options.ns))
    thread = checkpoint.thread
    is_part = checkpoint.target.chosen
    ns = checkpoint.ns if options.ns is not None else None
    reader = thread.reader
    refs = short_refs([one.key.checkpoint_id for n in reader.namespaces for one in reader.index(n)])
    if not (options.verify or options.strict):
        rows = checkpoint.transitions(told) if is_part else thread.transitions(told, ns=ns)
        if not any(one.checks for one in rows.found.found.transitions):
            number = counted(len(rows.found.found.transitions), "transition")
            session.note(f"nothing to verify: no channel was written to or changed in {number}")
        session.output.records(rows, transition_columns(refs))
        return
    answer = checkpoint.replay(told) if is_part else thread.replay(told, ns=ns)
    about = answer.found
    session.output.document(
        answer.to_dict,
        lambda: report_lines(about, refs, session.output.width),
        rows=lambda: report_rows(about),
        columns=REPORT_COLUMNS,
    )
    _conclude(session, [about], strict=options.strict)


def _repair(session: Session, options: ReplayOptions, told: dict[str, str]) -> None:
    # What changes a store takes as long to load as all the rest.
    from ckpt_cli.commands.repair_values import show_values_repair
    from ckpt_cli.plans.repair_values import plan_value_repair
    from ckpt_cli.queries.replay_all import check_channels

    reducers = known_reducers(dict(session.names.reducers))
    reader = find_thread(session.store, options.thread, session.note)
    check_channels(session.store, [reader.thread_id], told, f"thread '{reader.thread_id}'")
    found = plan_value_repair(reader, session.editable, None, session.now, reducers)
    if not found.rebuilt and not found.refused:
        session.note("nothing to do: no value is missing or unreadable")
    show_values_repair(session, found, dry_run=options.dry_run, yes=options.yes)


def _all(session: Session, options: ReplayOptions, told: dict[str, str]) -> None:
    found = session.handle.replay_all(
        match=options.match,
        where=options.where or (),
        reducers=told,
        jobs=options.jobs,
        cluster=options.cluster,
        watch=partial(progress, total=None, label="replaying threads"),
    )
    reports: list[ReplayReport] = []

    def rows() -> Iterator[dict[str, Any]]:
        for one in found:
            if one.found.findings:
                reports.append(one.found)
            yield one.to_dict()

    session.output.records(rows(), THREAD_COLUMNS)
    if options.verify or options.strict:
        _conclude(session, reports, strict=options.strict)


def _conclude(session: Session, reports: list[ReplayReport], *, strict: bool) -> None:
    """Exit with 1 on a finding that counts, and say how to look at it."""
    findings = [(about, one) for about in reports for one in about.findings]
    wrong = [pair for pair in findings if pair[1].verdict is Verdict.MISMATCH]
    for about, one in wrong or (findings if strict else []):
        child = one.transition.child
        diff = shell.command("ckpt", "diff", "--writes", ids=[f"{about.thread_id}@{child}"])
        what = "difference" if wrong else "step that cannot be verified"
        session.note(f"`{diff}` shows the first {what}")
        raise Exit(1)
