"""`ckpt replay`: verify checkpoints against the recorded writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Annotated

from typer import Context, Exit, Option

from ckpt_backends import shell
from ckpt_backends.errors import UsageError
from ckpt_cli.api.answer import Answer
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.core.reducers import known_reducers
from ckpt_cli.core.refs import short_refs
from ckpt_cli.core.replay import JudgedCheck, Replayed, Verdict
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import At, Cluster, DryRun, Jobs, Match, OptionalThread, Where, Yes
from ckpt_cli.queries.replay import check_channels
from ckpt_cli.reading.target import TargetArguments, find_thread
from ckpt_cli.render.replay import (
    REPLAY_VIEW,
    THREAD_COLUMNS,
    VERIFY_VIEW,
    transition_columns,
    transitions,
)
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session


@plannable("replay", only_with="repair")
def replay(
    ctx: Context,
    thread: OptionalThread = None,
    at: At = None,
    ns: Annotated[
        str | None, Option(metavar="NAMESPACE", help="Only this namespace; '' is the root.")
    ] = None,
    all_steps: Annotated[
        bool, Option("--all-steps", help="Show every channel of every step, also what matches.")
    ] = False,
    verify: Annotated[bool, Option("--verify", help="Exit with 1 if anything differs.")] = False,
    strict: Annotated[
        bool, Option("--strict", help="Exit with 1 also if anything cannot be verified.")
    ] = False,
    all_threads: Annotated[bool, Option("--all", help="Replay all threads.")] = False,
    match: Match = None,
    where: Where = None,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    repair: Annotated[
        bool, Option("--repair", help="Restore lost values, as `ckpt repair values`.")
    ] = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Verify that a thread's states follow from its tasks' writes.

    Rebuilds each checkpoint from its parent's state and the tasks' writes, and compares the
    result with what is stored. Prints a line for each channel, and below it the steps that differ
    or cannot be verified. THREAD@REF replays the steps that led to that checkpoint.

    Reducers are not stored. For each channel, ckpt takes the reducer that explains every step,
    or shows ? if several kinds do. EVIDENCE counts the steps that other reducers do not explain.
    A value is unverifiable if it cannot be rebuilt; the reason follows it.

    --repair restores values that are missing or unreadable, as `ckpt repair values` does.

    ```
    ckpt -s agent.db replay user-42
    ckpt -s agent.db replay user-42@step:7 --all-steps
    ckpt -s agent.db replay user-42 --verify --reducer notes=append
    ckpt -s agent.db replay --all --strict --jobs 4 -o ndjson
    ckpt -s postgresql://db/agents replay user-42 --repair --dry-run
    ```
    """
    session: Session = ctx.obj
    is_several = all_threads or match is not None or bool(where)
    is_part = at is not None or ns is not None
    told = dict(session.names.told_reducers)
    if (dry_run or yes) and not repair:
        raise UsageError("--dry-run, --plan-out and --yes require --repair")
    if repair and (verify or strict or all_steps or is_several or is_part):
        raise UsageError(
            "--repair takes a whole thread, without --verify, --strict, --all-steps, --at, --ns,"
            " --all, --match or --where",
            hint="ckpt replay THREAD --repair",
        )
    if is_several and (thread is not None or is_part):
        raise UsageError("THREAD cannot be combined with --all, --match or --where")
    if is_several and all_steps:
        raise UsageError("--all-steps shows one thread", hint="ckpt replay THREAD --all-steps")
    if not is_several and (jobs > 1 or cluster is not None):
        option = "--jobs" if jobs > 1 else "--cluster"
        raise UsageError(f"{option} requires --all, --match or --where")
    if repair:
        _repair(session, thread, told)
    elif is_several:
        watch = partial(progress, total=None, label="replaying threads")
        found = session.handle.replay_all(
            match=match, where=where or (), reducers=told, jobs=jobs, cluster=cluster, watch=watch
        )
        first: dict[Verdict, JudgedCheck] = {}
        session.show_list(_noting(found, first), THREAD_COLUMNS)
        _conclude(session, first, verify=verify, strict=strict)
    else:
        target = TargetArguments(thread, at, ns)
        about = _show(session, target, told, all_steps=all_steps, findings=verify or strict)
        first = {one.verdict: one for one in reversed(about.findings)}
        _conclude(session, first, verify=verify, strict=strict)


def _show(
    session: Session,
    target: TargetArguments,
    told: dict[str, str],
    *,
    all_steps: bool,
    findings: bool,
) -> Replayed:
    """Replay a thread, or a part of it. Prints its channels, or all its steps.

    The rows of TSV are the channels, or only the `findings`.
    """
    checkpoint = session.checkpoint(target)
    thread = checkpoint.thread
    if checkpoint.target.chosen:
        answer = checkpoint.replay(told)
    else:
        answer = thread.replay(told, ns=checkpoint.ns if target.ns is not None else None)
    found = answer.found
    if not any(one.checks for one in found.transitions):
        number = counted(len(found.transitions), "transition")
        session.note(f"nothing to verify: no channel was written to or changed in {number}")
    index = chain.from_iterable(map(thread.reader.index, thread.reader.namespaces))
    refs = short_refs([one.key.checkpoint_id for one in index])
    if all_steps:
        session.output.records(transitions(found), transition_columns(refs))
    else:
        answer.view = VERIFY_VIEW if findings else REPLAY_VIEW
        session.show(answer, refs=refs)
    return found


def _noting(
    found: Iterable[Answer[Replayed]], first: dict[Verdict, JudgedCheck]
) -> Iterator[Answer[Replayed]]:
    """Yield the threads, and note the first finding of each kind."""
    for answer in found:
        for one in answer.found.findings:
            first.setdefault(one.verdict, one)
        yield answer


def _repair(session: Session, thread: str | None, told: dict[str, str]) -> None:
    # What changes a store takes as long to load as all the rest.
    from ckpt_cli.commands.repair import show_values_repair
    from ckpt_cli.plans.repair import plan_value_repair

    reducers = known_reducers(dict(session.names.reducers))
    reader = find_thread(session.store, thread, session.note)
    check_channels(session.store, [reader.thread_id], told, f"thread '{reader.thread_id}'")
    found = plan_value_repair(reader, session.editable, None, session.now, reducers)
    if not found.rebuilt and not found.refused:
        session.note("nothing to do: no value is missing or unreadable")
    show_values_repair(session, found)


def _conclude(
    session: Session, first: Mapping[Verdict, JudgedCheck], *, verify: bool, strict: bool
) -> None:
    """Say how to look at the first finding that counts, and exit with 1 if that was asked for."""
    wrong = first.get(Verdict.MISMATCH)
    one = wrong or (first.get(Verdict.UNVERIFIABLE) if strict else None)
    if one is None:
        return
    ids = [f"{one.thread_id}@{one.transition.child}"]
    what = "difference" if wrong else "step that cannot be verified"
    session.note(f"`{shell.command('ckpt', 'diff', '--writes', ids=ids)}` shows the first {what}")
    if verify or strict:
        raise Exit(1)
