"""`ckpt stats`: what nodes write, how long they take, and what their tokens cost."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from typer import Argument, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.api.watch import Watcher
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import (
    Cluster,
    Jobs,
    Match,
    Where,
    command_options,
    not_huge,
    takes,
)
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session

_TOP = 20


@command_options
class StatsOptions:
    """The arguments and options of `ckpt stats`."""

    thread: Annotated[
        str | None, Argument(metavar="THREAD", help="Thread id. [default: all threads]")
    ] = None
    time: Annotated[bool, Option("--time", help="Show how long each node took.")] = False
    tokens: Annotated[bool, Option("--tokens", help="Show how many tokens messages cost.")] = False
    by: Annotated[
        list[str] | None,
        Option(
            metavar="KEYS",
            help="With --tokens: by model, node, thread, day, or several: model,day.",
        ),
    ] = None
    match: Match = None
    where: Where = None
    ns: Annotated[
        str | None,
        Option(metavar="NAMESPACE", help="With THREAD: only this namespace; '' is the root."),
    ] = None
    since: Annotated[
        str | None, Option(metavar="TIME", help="Only checkpoints from TIME on: 2h, 2026-04-07.")
    ] = None
    until: Annotated[str | None, Option(metavar="TIME", help="Only checkpoints up to TIME.")] = None
    top: Annotated[
        int, Option(metavar="N", help="Show the N largest.", min=1, callback=not_huge)
    ] = _TOP
    jobs: Jobs = 1
    cluster: Cluster = None

    def check(self) -> None:
        """Raise `UsageError` for options that exclude each other."""
        if self.thread is not None and (self.match is not None or self.where):
            raise UsageError(
                "THREAD cannot be combined with --match or --where", hint="use one of them"
            )
        if self.thread is None and self.ns is not None:
            raise UsageError("--ns requires THREAD")
        if self.time and self.tokens:
            raise UsageError("--time cannot be combined with --tokens", hint="use one of them")
        if self.by and not self.tokens:
            raise UsageError("--by requires --tokens")

    @property
    def of_thread(self) -> dict[str, Any]:
        """The arguments of the question about one thread."""
        return {"ns": self.ns, "since": self.since, "until": self.until}

    @property
    def of_store(self) -> dict[str, Any]:
        """The arguments of the question about many threads."""
        watch: Watcher = partial(progress, total=None, label="counting threads")
        return {
            "match": self.match,
            "where": self.where or (),
            "since": self.since,
            "until": self.until,
            "jobs": self.jobs,
            "cluster": self.cluster,
            "watch": watch,
        }


@takes(StatsOptions)
def stats(session: Session, options: StatsOptions) -> None:
    """Show what nodes write, how long they take, or what tokens cost.

    Without --time and --tokens, show how much each node writes to each channel. Sizes are the
    lengths of what is stored; no value is decoded. The second table compares what tasks wrote to
    each channel (WRITTEN) with all its stored values together (STORED). RATIO is STORED divided
    by WRITTEN: a high one means that a value is stored again and again.

    --time sums up the steps of `ckpt timeline` on all branches. P50 and P95 are the times that
    50 and 95 of 100 runs did not exceed.

    --tokens counts each message of a model once, also if it was removed or trimmed since. A table
    [prices] in the configuration adds what they cost.

    ```
    ckpt -s agent.db stats user-42
    ckpt -s agent.db stats --match 'user-*' --since 7d
    ckpt -s agent.db stats --time --where 'status = error'
    ckpt -s agent.db stats --tokens --by model,day --since 30d
    ckpt -s agent.db stats -o json | jq '.by[:5]'
    ```
    """
    options.check()
    if options.time:
        _show_times(session, options)
    elif options.tokens:
        _show_tokens(session, options)
    else:
        _show_writes(session, options)


def _show_writes(session: Session, options: StatsOptions) -> None:
    from ckpt_cli.render.stats import STATS_COLUMNS, pair_records, stats_lines

    if options.thread is not None:
        answer = session.thread(options.thread).stats(**options.of_thread)
    else:
        answer = session.handle.stats(**options.of_store)
    found, output = answer.found, session.output
    output.document(
        answer.to_dict,
        lambda: stats_lines(found, options.top, output.width, unicode=output.unicode),
        rows=lambda: pair_records(found),
        columns=STATS_COLUMNS,
    )


def _show_times(session: Session, options: StatsOptions) -> None:
    from ckpt_cli.render.node_times import node_times_lines
    from ckpt_cli.render.timeline import node_columns, node_rows

    if options.thread is not None:
        answer = session.thread(options.thread).node_times(**options.of_thread)
    else:
        answer = session.handle.node_times(**options.of_store)
    found, output = answer.found, session.output
    output.document(
        answer.to_dict,
        lambda: node_times_lines(found, options.top, output.width),
        rows=lambda: node_rows(found.nodes),
        columns=node_columns(),
    )


def _show_tokens(session: Session, options: StatsOptions) -> None:
    from ckpt_cli.render.usage import (
        unpriced_note,
        usage_columns,
        usage_lines,
        usage_records,
        without_usage_note,
    )

    by = options.by or ["model"]
    if options.thread is not None:
        answer = session.thread(options.thread).tokens(by=by, **options.of_thread)
    else:
        answer = session.handle.tokens(by=by, **options.of_store)
    found, prices, output = answer.found, session.names.prices, session.output
    output.document(
        answer.to_dict,
        lambda: usage_lines(found, prices, options.top, output.width),
        rows=lambda: usage_records(found, prices),
        columns=usage_columns(found, prices),
    )
    unpriced = unpriced_note(found, prices, named=not session.settings.get("redact"))
    for note in filter(None, (unpriced, without_usage_note(found))):
        session.note(note)
    if found.unread:
        session.warn(f"{counted(found.unread, 'value')} could not be read and counted")
