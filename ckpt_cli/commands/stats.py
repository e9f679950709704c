"""`ckpt stats`: which nodes write how much to which channels."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from ckpt_backends.errors import UsageError
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import Jobs, Match, Where, argument, option
from ckpt_cli.render.stats import STATS_COLUMNS, pair_records, stats_lines
from ckpt_cli.session import Session

_TOP = 20


def stats(
    session: Session,
    thread: Annotated[str | None, argument("[THREAD]", "Thread id. [default: all threads]")] = None,
    match: Match = None,
    where: Where = None,
    ns: Annotated[
        str | None, option("NAMESPACE", "With THREAD: only this namespace; '' is the root.")
    ] = None,
    since: Annotated[
        str | None, option("TIME", "Only checkpoints from TIME on: 2h, 2026-04-07.")
    ] = None,
    until: Annotated[str | None, option("TIME", "Only checkpoints up to TIME.")] = None,
    top: Annotated[int, option("N", "Show the N largest.", min=1)] = _TOP,
    jobs: Jobs = 1,
) -> None:
    """Show how much each node writes to each channel.

    Sizes are the lengths of what is stored; no value is decoded. The second table compares what
    tasks wrote to each channel (WRITTEN) with all its stored values together (STORED). RATIO is
    STORED divided by WRITTEN: a high one means that a value is stored again and again.

    \b
      ckpt -s agent.db stats user-42
      ckpt -s agent.db stats --match 'user-*' --since 7d
      ckpt -s agent.db stats -o json | jq '.by[:5]'
    """
    if thread is not None:
        if match is not None or where:
            raise UsageError(
                "THREAD cannot be combined with --match or --where", hint="use one of them"
            )
        answer = session.thread(thread).stats(ns=ns, since=since, until=until)
    else:
        if ns is not None:
            raise UsageError("--ns requires THREAD")
        answer = session.handle.stats(
            match=match,
            where=where or (),
            since=since,
            until=until,
            jobs=jobs,
            watch=partial(progress, total=None, label="counting threads"),
        )
    found = answer.found
    output = session.output
    output.document(
        answer.to_dict,
        lambda: stats_lines(found, top, output.width, unicode=output.unicode),
        rows=lambda: pair_records(found),
        columns=STATS_COLUMNS,
    )
