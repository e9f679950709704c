"""`ckpt fork`: branch off from a checkpoint, with another state if wanted."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Context, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.arguments import MoreThreads, Reason
from ckpt_cli.commands.changing import roll_back
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.core.edit_state import parse_edit
from ckpt_cli.options import At, DryRun, Force, HeadAt, Match, OptionalThread, Where, Yes
from ckpt_cli.plans.fork import RollbackOptions
from ckpt_cli.plans.rollback import FORK_OPTIONS, TargetOptions
from ckpt_cli.session import Session


@plannable("fork")
def fork(
    ctx: Context,
    thread: OptionalThread = None,
    ref: Annotated[
        str | None,
        Argument(metavar="REF", help="Checkpoint to fork from. [default with --as: head]"),
    ] = None,
    more: MoreThreads = None,
    match: Match = None,
    where: Where = None,
    at: At = None,
    as_of: HeadAt = None,
    set_: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="CHANNEL=JSON",
            help="Merge a value with the channel's reducer; repeatable.",
        ),
    ] = None,
    append: Annotated[
        list[str] | None,
        Option("--append", metavar="CHANNEL=JSON", help="Append an item to a list; repeatable."),
    ] = None,
    replace_: Annotated[
        list[str] | None,
        Option("--replace", metavar="CHANNEL=JSON", help="Replace the stored value; repeatable."),
    ] = None,
    as_node: Annotated[
        str | None, Option("--as-node", metavar="NODE", help="Continue as if NODE had just run.")
    ] = None,
    as_: Annotated[
        str | None,
        Option(
            "--as",
            metavar="NEW",
            help="Put the edited checkpoint and its ancestors into a new thread.",
        ),
    ] = None,
    reason: Reason = None,
    force: Force = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Fork a branch from a checkpoint, edited if wanted.

    A copy of the checkpoint becomes the thread's head, as with rollback.

    --set does what Command(update=...) does: the application's reducer merges the value when the
    thread resumes. --append and --replace change the stored value without the reducer.
    --as-node continues with the nodes that followed NODE when it last ran in this thread.

    With --as, the edited checkpoint is the head of a new thread, as with `ckpt copy THREAD@REF
    --as NEW`, and this thread is left as it is. If it is the head, tasks that finished do not run
    again, and a waiting question waits in both threads. '{thread}' in NEW is the id of this thread.

    With --where, --match or several threads, shows one plan for all of them and asks once.
    -o ndjson prints the threads to resume, one a line.

    ```
    ckpt -s agent.db fork user-42 step:3 --set 'messages=[{"role": "user", "content": "Kyoto"}]'
    ckpt -s agent.db fork user-42 step:3 --replace 'hotel={"name": "Ryokan"}' --dry-run
    ckpt -s agent.db fork user-42 f169 --append 'notes="checked"' --as-node review
    ckpt -s agent.db fork user-42 head --replace 'budget=900' --as user-42-cheap
    ckpt -s agent.db fork --where 'status = error' --at head --replace 'retries=0'
    ```
    """
    session: Session = ctx.obj
    edits = [parse_edit("set", text) for text in set_ or ()]
    edits += [parse_edit("append", text) for text in append or ()]
    edits += [parse_edit("replace", text) for text in replace_ or ()]
    options = RollbackOptions(
        reason=reason, fork=True, edits=tuple(edits), as_node=as_node, force=force
    )
    if as_ == "":
        raise UsageError("the new thread id is empty", hint="give one: --as NEW")
    if as_ is not None and not options.edits_state:
        raise UsageError(
            "--as without an edit makes a copy", hint="use `ckpt copy THREAD@REF --as NEW`"
        )
    choice = TargetOptions(None, at, as_of, options=FORK_OPTIONS, head_by_default=as_ is not None)
    words, conditions = (thread, ref, more), (match, where)
    roll_back(session, words, conditions, choice, options, new=as_)
