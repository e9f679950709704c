"""`ckpt fork`: branch off from a checkpoint, in the same thread or a new one."""

from __future__ import annotations

from typing import Annotated

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.apply_plan import show_and_apply
from ckpt_cli.commands.plan_out import plannable
from ckpt_cli.core.forking.edit_state import parse_edit
from ckpt_cli.options import AsOf, At, DryRun, Force, Reason, Yes, argument, option
from ckpt_cli.plans.fork_to_thread import plan_fork_to_thread
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.plans.rollback_target import FORK_OPTIONS, TargetOptions, find_target
from ckpt_cli.plans.root_branch import RollbackOptions
from ckpt_cli.session import Session


@plannable("fork")
def fork(
    session: Session,
    thread: Annotated[str, argument("THREAD[@REF]", "Thread id, optionally with a checkpoint.")],
    ref: Annotated[
        str | None, argument("[REF]", "Checkpoint to fork from. [default with --to: head]")
    ] = None,
    to: Annotated[str | None, option("NEW", "Fork to a new thread with the id NEW.")] = None,
    at: At = None,
    as_of: AsOf = None,
    set_: Annotated[
        list[str] | None,
        option("CHANNEL=JSON", "Merge a value with the channel's reducer; repeatable.", "--set"),
    ] = None,
    append: Annotated[
        list[str] | None, option("CHANNEL=JSON", "Append an item to a list; repeatable.")
    ] = None,
    replace: Annotated[
        list[str] | None, option("CHANNEL=JSON", "Replace the stored value; repeatable.")
    ] = None,
    as_node: Annotated[str | None, option("NODE", "Continue as if NODE had just run.")] = None,
    reason: Reason = None,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Fork a branch or a new thread from a checkpoint.

    Without --to, a copy of the checkpoint becomes the thread's head, as with rollback. With --to,
    the checkpoint and its ancestors are copied to a new thread. A copy of the head also gets the
    writes of its tasks, so that a waiting question waits in both threads.

    --set does what Command(update=...) does: the application's reducer merges the value when the
    thread resumes. --append and --replace change the stored value without the reducer.
    --as-node continues with the nodes that followed NODE when it last ran in this thread.

    \b
      ckpt -s agent.db fork user-42 --to user-42-try
      ckpt -s agent.db fork user-42 step:3 --set 'messages=[{"role": "user", "content": "Kyoto"}]'
      ckpt -s agent.db fork user-42 step:3 --replace 'hotel={"name": "Ryokan"}' --dry-run
      ckpt -s agent.db fork user-42 f169 --append 'notes="checked"' --as-node review
    """
    if to == "":
        raise UsageError("the new thread id is empty", hint="ckpt fork THREAD --to NEW")
    edits = [parse_edit("set", text) for text in set_ or ()]
    edits += [parse_edit("append", text) for text in append or ()]
    edits += [parse_edit("replace", text) for text in replace or ()]
    options = RollbackOptions(
        reason=reason, fork=True, edits=tuple(edits), as_node=as_node, force=force
    )
    target_options = TargetOptions(
        ref, at, as_of, options=FORK_OPTIONS, head_by_default=to is not None
    )
    target = find_target(
        session.store, thread, target_options, session.now, session.zone, session.note
    )
    if to is not None:
        plan = plan_fork_to_thread(
            target.reader, session.editable, target.checkpoint_id, to, options
        )
    else:
        plan = plan_rollback(
            target.reader, session.editable, target.checkpoint_id, session.now, options
        )
    question = f"Fork thread '{target.reader.thread_id}'?"
    show_and_apply(session, plan, question, dry_run=dry_run, yes=yes, reason=reason)
