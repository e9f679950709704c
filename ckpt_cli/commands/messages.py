"""`ckpt messages`: print the conversation at a checkpoint."""

from __future__ import annotations

from typing import Annotated

from typer import Context, Option

from ckpt_backends import shell
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.core.conversation import statistics
from ckpt_cli.core.refs import short_refs
from ckpt_cli.options import AsOf, At, Namespace, OptionalThread, number
from ckpt_cli.queries.messages import USUAL, last_held
from ckpt_cli.reading.target import Target, TargetArguments
from ckpt_cli.render.messages import MESSAGES_VIEW, STATISTICS_VIEW
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session


def messages(
    ctx: Context,
    thread: OptionalThread = None,
    at: At = None,
    ns: Namespace = None,
    channel: Annotated[
        str | None,
        Option(
            "--channel",
            metavar="CHANNEL",
            help="Channel with the messages. [default: messages, else the one with the most]",
        ),
    ] = None,
    last: Annotated[int | None, number("Print the last N messages.")] = None,
    full: Annotated[
        bool, Option("--full", help="Print all fields of each message, uncut.")
    ] = False,
    stat: Annotated[bool, Option("--stat", help="Count messages, tokens and tool calls.")] = False,
    as_of: AsOf = None,
) -> None:
    """Print the conversation of a thread.

    The result of a tool is printed under its call. On a terminal, long texts are cut; --full
    prints them whole.

    ```
    ckpt -s agent.db messages user-42
    ckpt -s agent.db messages user-42@step:3 --last 2 --full
    ckpt -s agent.db messages user-42 --stat
    ckpt -s agent.db messages user-42 -o json | jq -r '.[].content'
    ```
    """
    session: Session = ctx.obj
    checkpoint = session.checkpoint(TargetArguments(thread, at, ns))
    found = checkpoint.conversation(channel)
    if found.others and channel is None:
        others = ", ".join(found.others)
        session.note(f"showing channel '{found.channel}'; messages are also in: {others}")
    if not found.turns:
        session.note(_emptied(checkpoint.target, found.channel))
    for remark in found.remarks:
        session.note(f"channel '{found.channel}': {remark}")
    if stat:
        session.show(Answer(statistics(found.turns), STATISTICS_VIEW))
        return
    first = 0 if last is None else max(len(found.turns) - last, 0)
    session.show(AnswerList((found.turns, first), MESSAGES_VIEW), full=full)


def _emptied(target: Target, channel: str) -> str:
    """Say that a channel holds no messages, and where it last did."""
    before = last_held(target, [channel])
    if before is None:
        return f"channel '{channel}' is empty: no messages yet"
    reader, ns = target.reader, target.checkpoint_ns
    ref = short_refs([one.key.checkpoint_id for one in reader.index(ns)])[before.checkpoint_id]
    words = [*(["--ns", ns] if ns else []), *(["--channel", channel] if channel != USUAL else [])]
    line = shell.command("ckpt", "messages", *words, ids=[f"{reader.thread_id}@{ref}"])
    number = counted(before.number, "message")
    return f"channel '{channel}' is empty here; `{line}` shows the {number} that it held before"
