"""`ckpt messages`: print the conversation at a checkpoint."""

from __future__ import annotations

from typing import Annotated

from ckpt_cli.core.conversation.transcript import statistics
from ckpt_cli.options import At, Namespace, OptionalThread, flag, option
from ckpt_cli.render.messages import (
    STAT_COLUMNS,
    message_columns,
    message_records,
    statistics_lines,
    statistics_record,
    statistics_rows,
    transcript_lines,
)
from ckpt_cli.session import Session
from ckpt_cli.threads.target import TargetArguments


def messages(
    session: Session,
    thread: OptionalThread = None,
    at: At = None,
    ns: Namespace = None,
    channel: Annotated[
        str | None,
        option(
            "CHANNEL", "Channel with the messages. [default: messages, else the one with the most]"
        ),
    ] = None,
    last: Annotated[int | None, option("N", "Print the last N messages.", min=1)] = None,
    full: Annotated[bool, flag("Print all fields of each message, uncut.")] = False,
    stat: Annotated[bool, flag("Count messages, tokens and tool calls.")] = False,
) -> None:
    """Print the conversation of a thread.

    The result of a tool is printed under its call. On a terminal, long texts are cut; --full
    prints them whole.

    \b
      ckpt -s agent.db messages user-42
      ckpt -s agent.db messages user-42@step:3 --last 2 --full
      ckpt -s agent.db messages user-42 --stat
      ckpt -s agent.db messages user-42 -o json | jq -r '.[].content'
    """
    output = session.output
    found = session.checkpoint(TargetArguments(thread, at, ns)).conversation(channel)
    if found.others and channel is None:
        others = ", ".join(found.others)
        session.note(f"showing channel '{found.channel}'; messages are also in: {others}")
    for remark in found.remarks:
        session.note(f"channel '{found.channel}': {remark}")
    if stat:
        record = statistics_record(statistics(found.turns))
        output.document(
            lambda: record,
            lambda: statistics_lines(record, output.width),
            rows=lambda: statistics_rows(record),
            columns=STAT_COLUMNS,
        )
        return
    first = 0 if last is None else max(len(found.turns) - last, 0)
    output.document(
        lambda: list(message_records(found.turns, first)),
        lambda: transcript_lines(
            found.turns, first, output.width, full=full, cut=output.terminal and not full
        ),
        rows=lambda: message_records(found.turns, first),
        columns=message_columns(),
    )
    if not found.turns:
        session.note("no messages yet")
