"""`ckpt show`: the state at a checkpoint, or the tree of a thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.checkpoint import CheckpointHandle
from ckpt_cli.api.thread import ThreadHandle
from ckpt_cli.options import (
    AsOf,
    At,
    Channels,
    Namespace,
    OptionalThread,
    command_options,
    takes,
)
from ckpt_cli.queries.show import CheckpointView
from ckpt_cli.render.records import channel_rows, picked_rows
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine
from ckpt_cli.session import Session
from ckpt_cli.threads.target import NamedThread, TargetArguments

if TYPE_CHECKING:
    from ckpt_cli.render.terminal.table import Column


@command_options
class ShowOptions:
    """The arguments and options of `ckpt show`."""

    thread: OptionalThread = None
    ref: Annotated[
        str | None, Argument(metavar="REF", help="Checkpoint of the thread, in place of @REF.")
    ] = None
    at: At = None
    ns: Namespace = None
    as_of: AsOf = None
    channel: Channels = None
    path: Annotated[
        str | None,
        Option(metavar="PATH", help="Show one part of the state, such as 'messages[-1].content'."),
    ] = None
    full: Annotated[bool, Option("--full", help="Do not cut long values on a terminal.")] = False
    writes: Annotated[
        bool, Option("--writes", help="Also show what the tasks of its next step wrote.")
    ] = False
    metadata: Annotated[
        bool, Option("--metadata", help="Also show the metadata of the checkpoint.")
    ] = False
    raw: Annotated[
        bool, Option("--raw", help="Print the stored bytes of the checkpoint, undecoded.")
    ] = False
    where: Annotated[
        bool, Option("--where", help="Print the queries that find it in the store.")
    ] = False
    tree: Annotated[
        bool, Option("--tree", help="Draw the checkpoints of the thread as a tree.")
    ] = False
    unfold: Annotated[bool, Option("--unfold", help="Show every step, also plain ones.")] = False
    all_ns: Annotated[
        bool, Option("--all-ns", help="Also draw the tree of each subgraph call.")
    ] = False
    mermaid: Annotated[bool, Option("--mermaid", help="Print the tree as a Mermaid flowchart.")] = (
        False
    )
    svg: Annotated[bool, Option("--svg", help="Print the tree as a picture (SVG).")] = False
    ascii_only: Annotated[
        bool, Option("--ascii", help="Draw the tree with ASCII characters only.")
    ] = False

    @property
    def draws(self) -> str:
        """The option that draws a tree; `''` without one."""
        asked = {"tree": self.tree, "mermaid": self.mermaid, "svg": self.svg}
        return next((name for name, is_asked in asked.items() if is_asked), "")

    def check(self) -> None:
        """Raise `UsageError` for options that exclude each other."""
        if self.draws:
            if any((self.channel, self.path, self.writes, self.metadata, self.raw, self.where)):
                raise UsageError(
                    f"--{self.draws} draws a whole thread, without values",
                    hint="use it with --ns, --all-ns, --unfold and --ascii only",
                )
        elif self.unfold or self.all_ns or self.ascii_only:
            raise UsageError("--unfold, --all-ns and --ascii need --tree", hint="add --tree")
        elif self.path is not None and self.channel:
            raise UsageError(
                "--path cannot be combined with --channel",
                hint="begin the path with the channel: --path 'CHANNEL[0]'",
            )


@takes(ShowOptions)
def show(session: Session, options: ShowOptions) -> None:
    """Show the state at a checkpoint, or the tree of a thread.

    Without REF, show the thread's head. Without THREAD, show the newest thread.

    ```
    ckpt -s agent.db show user-42
    ckpt -s agent.db show user-42 --tree
    ckpt -s agent.db show user-42 head~2 --path 'messages[-1].content'
    ckpt -s agent.db show alice@example.com --at step:3 --writes
    ckpt -s agent.db show user-42 --as-of yesterday --channel messages -o json
    ```
    """
    _ = session.store  # a store that cannot be opened is reported before wrong options
    options.check()
    words = TargetArguments(options.thread, options.at, options.ns, options.as_of, options.ref)
    named = session.handle.named(words)
    if options.draws:
        _show_tree(session, named, options)
        return
    found = session.handle.checkpoint(named)
    if options.raw:
        session.output.raw(found.raw())
    elif options.where:
        _show_sources(session, found)
    elif options.path is not None:
        _show_path(session, found, options.path)
    else:
        writes = options.writes or session.output.machine
        _show_state(session, found.show(options.channel, writes=writes), options)


def _show_tree(session: Session, named: NamedThread, options: ShowOptions) -> None:
    thread = ThreadHandle(named.reader, session)
    keep = session.handle.checkpoint(named) if named.has_ref else None

    def record() -> list[dict[str, Any]]:
        found = thread.history(ns=named.ns, all_ns=options.all_ns)
        return [one.listed().to_dict() for one in found]

    def text() -> Iterator[StyledLine]:
        # Here, since a plain `show` needs none of it.
        from ckpt_cli.render.tree.lines import tree_lines
        from ckpt_cli.render.tree.mermaid import mermaid_lines
        from ckpt_cli.render.tree.wording import ASCII, UNICODE

        found = thread.read_tree(named.ns, all_ns=options.all_ns, unfold=options.unfold, keep=keep)
        if options.mermaid:
            yield from mermaid_lines(found.plan, found.details, found.refs)
            return
        if options.svg:
            from ckpt_cli.render.tree.svg import svg_lines

            yield from svg_lines(
                found.plan,
                found.details,
                found.refs,
                thread_id=thread.id,
                zone=session.zone,
                status=", ".join(found.conditions),
            )
            return
        yield from tree_lines(
            found.plan,
            found.details,
            found.refs,
            thread_id=thread.id,
            zone=session.zone,
            now=session.now,
            status=", ".join(found.conditions),
            width=session.output.width,
            glyphs=UNICODE if session.output.unicode and not options.ascii_only else ASCII,
        )

    from ckpt_cli.render.history import history_columns

    columns = history_columns({}, session.now, session.zone, all_ns=True)
    session.output.document(record, text, rows=record, columns=columns)


def _show_sources(session: Session, checkpoint: CheckpointHandle) -> None:
    from ckpt_cli.render.terminal.table import Column

    found = checkpoint.sources()
    session.output.document(
        lambda: {"store": str(session.names.store_url), "queries": found},
        lambda: (StyledLine(((safe_text(query), "plain"),), whole=True) for query in found),
        rows=lambda: ({"query": query} for query in found),
        columns=[Column("QUERY", "query")],
    )


def _show_path(session: Session, checkpoint: CheckpointHandle, path: str) -> None:
    from ckpt_cli.render.terminal.table import Column

    found = checkpoint.select(path)
    rows, many = picked_rows(found), "[]" in path

    def text() -> Iterator[StyledLine]:
        from ckpt_cli.render.state import picked_lines

        yield from picked_lines(found, session.output.width)

    session.output.document(
        lambda: [row["value"] for row in rows] if many else rows[0]["value"],
        text,
        rows=lambda: rows,
        columns=[Column("PATH", "path"), Column("VALUE", "value")],
    )


def _show_state(session: Session, answer: Answer[CheckpointView], options: ShowOptions) -> None:
    found, record = answer.found, answer.to_dict()

    def text() -> Iterator[StyledLine]:
        from ckpt_cli.render.state import show_lines

        yield from show_lines(
            found,
            session.now,
            session.zone,
            session.output.width,
            writes=options.writes,
            metadata=options.metadata,
            whole=bool(options.full or options.channel) or not session.output.terminal,
        )

    session.output.document(
        answer.to_dict,
        text,
        rows=lambda: record["writes"] if options.writes else channel_rows(record),
        columns=_columns(session, writes=options.writes),
    )


def _columns(session: Session, *, writes: bool) -> Sequence[Column]:
    """Return the columns of TSV; JSON and text have none, and tables take a while to import."""
    if session.output.machine or session.output.text:
        return ()
    from ckpt_cli.render.history import channel_columns, write_columns

    return write_columns() if writes else channel_columns()
