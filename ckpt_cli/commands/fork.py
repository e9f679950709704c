"""`ckpt fork`: go on from a checkpoint elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from ckpt_cli.commands.carrying_out import carry_out
from ckpt_cli.core.editing import parse_edit
from ckpt_cli.options import AsOf, At, DryRun, Force, Reason, Yes
from ckpt_cli.reading.back import Back, find_target
from ckpt_cli.reading.clone import plan_clone
from ckpt_cli.reading.rollback import Wishes, plan_rollback
from ckpt_cli.session import Session


def fork(
    ctx: typer.Context,
    thread: Annotated[
        str, typer.Argument(metavar="THREAD[@REF]", help="Thread id, perhaps with a checkpoint.")
    ],
    ref: Annotated[
        str | None, typer.Argument(metavar="[REF]", help="The checkpoint to go on from.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="NEW", help="Copy it to a new thread.")
    ] = None,
    at: At = None,
    as_of: AsOf = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="CHANNEL=JSON", help="Merge a value in, by its reducer."),
    ] = None,
    append: Annotated[
        list[str] | None,
        typer.Option("--append", metavar="CHANNEL=JSON", help="Add an item to a list."),
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option("--replace", metavar="CHANNEL=JSON", help="Put a value in the place of one."),
    ] = None,
    as_node: Annotated[
        str | None, typer.Option("--as-node", metavar="NODE", help="Go on as after this node.")
    ] = None,
    reason: Reason = None,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Go on from a checkpoint in a new branch or thread.

    Without --to, a copy of the checkpoint becomes the thread's head, as with rollback. With it,
    the checkpoint and what led to it are copied to a new thread; of a thread's head also what its
    tasks stored, so that a question that waits there waits in both.

    --set is what Command(update=...) is: the application's own reducer merges the value when the
    thread resumes. --append and --replace change the stored value past the reducer. With
    --as-node, what NODE started when it last ran is next, and nothing else.

    \b
      ckpt -s agent.db fork user-42 head --to user-42-try
      ckpt -s agent.db fork user-42 step:3 --set 'messages=[{"role": "user", "content": "Kyoto"}]'
      ckpt -s agent.db fork user-42 step:3 --replace 'hotel={"name": "Ryokan"}' --dry-run
      ckpt -s agent.db fork user-42 f169 --append 'notes="checked"' --as-node review
    """
    session: Session = ctx.obj
    edits = [parse_edit("set", text) for text in set_ or ()]
    edits += [parse_edit("append", text) for text in append or ()]
    edits += [parse_edit("replace", text) for text in replace or ()]
    wishes = Wishes(reason=reason, fork=True, edits=tuple(edits), as_node=as_node, force=force)
    back = Back(ref, at, as_of)
    target = find_target(session.store, thread, back, session.now, session.zone, session.note)
    if to is not None:
        plan = plan_clone(target.reader, session.rows, target.checkpoint_id, to, wishes)
    else:
        plan = plan_rollback(target.reader, session.rows, target.checkpoint_id, session.now, wishes)
    question = f"Fork thread '{target.reader.thread_id}'?"
    carry_out(session, plan, question, dry_run=dry_run, yes=yes)
