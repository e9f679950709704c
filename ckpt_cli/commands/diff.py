"""`ckpt diff`: what changed between two checkpoints."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Context, Exit, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.api.thread import CheckpointHandle
from ckpt_cli.core.replay import Verdict
from ckpt_cli.options import AsOf, Channels, Namespace, OptionalThread
from ckpt_cli.queries.replay import check_channels
from ckpt_cli.reading.target import TargetArguments
from ckpt_cli.session import Session


def diff(
    ctx: Context,
    thread: OptionalThread = None,
    first: Annotated[
        str | None, Argument(metavar="REF", help="Compare from this checkpoint to the head.")
    ] = None,
    second: Annotated[
        str | None, Argument(metavar="REF", help="Compare from the first REF to this one.")
    ] = None,
    ns: Namespace = None,
    channel: Channels = None,
    stat: Annotated[bool, Option("--stat", help="Show one line per channel, with sizes.")] = False,
    writes: Annotated[
        bool, Option("--writes", help="Show what each task wrote to make this checkpoint.")
    ] = False,
    exit_code: Annotated[
        bool, Option("--exit-code", help="Exit with 1 if anything changed.")
    ] = False,
    as_of: AsOf = None,
) -> None:
    """Show what changed between two checkpoints.

    THREAD alone, or THREAD@REF, is compared with its parent. THREAD REF shows what changed from
    REF to the head. THREAD REF REF and THREAD@REF REF show what changed from the first to the
    second, even if the second is older. REF may also be a checkpoint of another thread, as
    THREAD@REF. Messages are matched by their id.

    With --writes, show what each task wrote to each channel, in order, and whether these writes
    produce the stored value; if not, where it differs.

    ```
    ckpt -s agent.db diff user-42
    ckpt -s agent.db diff user-42 head~5
    ckpt -s agent.db diff user-42 step:3 step:7 --stat
    ckpt -s agent.db diff user-42@f169 other-thread@head
    ckpt -s agent.db diff --writes user-42@step:7
    ```
    """
    session: Session = ctx.obj
    words = TargetArguments(thread, ns=ns)
    if writes:
        if first is not None or stat:
            raise UsageError(
                "--writes cannot be combined with " + ("--stat" if stat else "two checkpoints"),
                hint="use `ckpt diff --writes THREAD@REF`",
            )
        _show_writes(session, session.checkpoint(words), channel, exit_code=exit_code)
        return
    one, other = session.two_checkpoints(words, first, second)
    answer = one.diff(None, channel) if other is None else other.diff(one, channel)
    found = answer.found
    if channel and not found.changes:
        ids = {at.thread.id for at in (one, other) if at is not None}
        check_channels(session.store, ids, channel, f"thread '{' or '.join(sorted(ids))}'")
    session.show(answer, stat=stat)
    if not found.changes:
        session.note("no changes" if found.before else "the first checkpoint has no values")
    for name in found.missing(channel or ()):
        session.note(f"no channel '{name}' at these checkpoints")
    if exit_code and found.changes:
        raise Exit(1)


def _show_writes(
    session: Session, checkpoint: CheckpointHandle, channel: list[str] | None, *, exit_code: bool
) -> None:
    answer = checkpoint.diff_writes(session.names.told_reducers, channel)
    session.show(answer)
    channels = answer.found.channels.values()
    if exit_code and any(one.verdict is Verdict.MISMATCH for one in channels):
        raise Exit(1)
