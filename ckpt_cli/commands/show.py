"""`ckpt show`: a thread and its state, an earlier checkpoint, or the tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Context, Option

from ckpt_backends.errors import NotFound, UsageError
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.api.thread import CheckpointHandle, ThreadHandle
from ckpt_cli.options import AsOf, At, Channels, Memory, Namespace, OptionalThread
from ckpt_cli.reading.target import NamedThread, TargetArguments
from ckpt_cli.render.fields import View
from ckpt_cli.render.text import StyledLine, Ui
from ckpt_cli.session import Session


def show(
    ctx: Context,
    thread: OptionalThread = None,
    ref: Annotated[
        str | None, Argument(metavar="REF", help="Checkpoint of the thread, in place of @REF.")
    ] = None,
    at: At = None,
    ns: Namespace = None,
    as_of: AsOf = None,
    channel: Channels = None,
    path: Annotated[
        str | None,
        Option(
            "--path",
            metavar="PATH",
            help="Show one part of the state, such as 'messages[-1].content'.",
        ),
    ] = None,
    full: Annotated[bool, Option("--full", help="Do not cut long values on a terminal.")] = False,
    writes: Annotated[
        bool, Option("--writes", help="Also show what the tasks of the next step wrote.")
    ] = False,
    metadata: Annotated[
        bool, Option("--metadata", help="Also show the metadata of the checkpoint.")
    ] = False,
    long: Annotated[
        bool, Option("--long", help="Show each namespace; in JSON also size, changes and memory.")
    ] = False,
    memory: Memory = None,
    raw: Annotated[
        bool, Option("--raw", help="Print the stored bytes of the checkpoint, undecoded.")
    ] = False,
    where: Annotated[
        bool, Option("--where", help="Print the queries that find the checkpoint in the store.")
    ] = False,
    tree: Annotated[
        bool, Option("--tree", help="Draw the checkpoints of the thread as a tree.")
    ] = False,
    unfold: Annotated[bool, Option("--unfold", help="Show every step, also plain ones.")] = False,
    all_ns: Annotated[
        bool, Option("--all-ns", help="Also draw the tree of each subgraph call.")
    ] = False,
    mermaid: Annotated[bool, Option("--mermaid", help="Print the tree as a Mermaid flowchart.")] = (
        False
    ),
    svg: Annotated[bool, Option("--svg", help="Print the tree as a picture (SVG).")] = False,
    ascii_only: Annotated[
        bool, Option("--ascii", help="Draw the tree with ASCII characters only.")
    ] = False,
    as_: Annotated[
        Literal["pytest"] | None,
        Option("--as", metavar="pytest", help="Print a test of each task of the next step."),
    ] = None,
    graph: Annotated[
        str, Option(metavar="MODULE:NAME", help="With --as: the graph that the test runs.")
    ] = "app.graph:graph",
) -> None:
    """Show what is wrong with a thread, how to resume it, and its state.

    Begins with the status, the error of each failed task, the questions that wait for an answer,
    and the call that resumes the thread; then come its age and size, what ckpt changed in it, the
    long-term memory made from it, and the state at its head. With REF, show the state at that
    checkpoint. Without THREAD, show the newest thread.

    ```
    ckpt -s agent.db show user-42
    ckpt -s agent.db show user-42 --tree
    ckpt -s agent.db show user-42 head~2 --path 'messages[-1].content'
    ckpt -s agent.db show alice@example.com --at step:3 --writes
    ckpt -s agent.db show user-42 --as-of yesterday --channel messages -o json
    ckpt -s .deer-flow/data/deerflow.db show user-42 --long -o json
    ckpt -s agent.db show user-42 --as pytest --graph app.graph:build
    ```
    """
    session: Session = ctx.obj
    _ = session.store  # a store that cannot be opened is reported before wrong options
    draws: Literal["tree", "mermaid", "svg", ""]
    draws = "tree" if tree else "mermaid" if mermaid else "svg" if svg else ""
    if draws:
        if any((channel, path, writes, metadata, raw, where, long, memory)):
            raise UsageError(
                f"--{draws} draws a whole thread, without values",
                hint="use it with --ns, --all-ns, --unfold and --ascii only",
            )
    elif unfold or all_ns or ascii_only:
        raise UsageError("--unfold, --all-ns and --ascii need --tree", hint="add --tree")
    elif path is not None and channel:
        raise UsageError(
            "--path cannot be combined with --channel",
            hint="begin the path with the channel: --path 'CHANNEL[0]'",
        )
    named = session.handle.named(TargetArguments(thread, at, ns, ref=ref))
    if draws:
        _show_tree(session, named, draws, all_ns=all_ns, unfold=unfold, ascii_only=ascii_only)
        return
    found = session.handle.checkpoint(named)
    if as_ is not None:
        _show_tests(session, found, graph, is_head=not named.has_ref)
    elif raw:
        session.output.raw(found.raw())
    elif where:
        _show_sources(session, found)
    elif path is not None:
        _show_path(session, found, path)
    else:
        _show_state(
            session, found, channel, memory, long=long, full=full, writes=writes, metadata=metadata
        )


def _show_tree(
    session: Session,
    named: NamedThread,
    draws: Literal["tree", "mermaid", "svg"],
    *,
    all_ns: bool,
    unfold: bool,
    ascii_only: bool,
) -> None:
    thread = ThreadHandle(named.reader, session)
    keep = session.handle.checkpoint(named) if named.has_ref else None

    def entries(thread: ThreadHandle) -> list[dict[str, Any]]:
        return [one.listed().to_dict() for one in thread.history(ns=named.ns, all_ns=all_ns)]

    def drawn(thread: ThreadHandle, ui: Ui) -> Iterator[StyledLine]:
        # Here, since a plain `show` needs none of it.
        if draws == "tree":
            from ckpt_cli.render.tree import tree_lines as lines
        elif draws == "svg":
            from ckpt_cli.render.tree_pictures import svg_lines as lines
        else:
            from ckpt_cli.render.tree_pictures import mermaid_lines as lines

        found = thread.read_tree(named.ns, all_ns=all_ns, unfold=unfold, keep=keep)
        return lines(found, ui._replace(unicode=ui.unicode and not ascii_only))

    from ckpt_cli.render.history import history_columns

    view = View(entries, drawn, entries, history_columns({}, all_ns=True))
    session.show(AnswerList(thread, view))


def _show_tests(
    session: Session, checkpoint: CheckpointHandle, graph: str, *, is_head: bool
) -> None:
    """Print tests of the step behind a checkpoint; of the last step behind which anything ran, if
    none is named.
    """
    from ckpt_cli.api.thread_tests import ThreadTests
    from ckpt_cli.render.thread_tests import pasted

    tests = ThreadTests(Path(), graph, ignored=session.names.ignored_secrets)
    found = tests.of(checkpoint.target.reader, checkpoint.id)
    if is_head and not found.tested and (parent := checkpoint.parent) is not None:
        found = tests.of(checkpoint.target.reader, parent.id)
    if not found.tested:
        why = "; ".join(f"{one.what}: {one.reason}" for one in found.left_out)
        raise NotFound(
            f"no task of checkpoint '{checkpoint.id}' can be a test{f': {why}' if why else ''}",
            hint="`ckpt history THREAD` lists the steps; name the checkpoint before one",
        )
    session.output.verbatim(pasted(found.form, found.tested, graph))


def _show_sources(session: Session, checkpoint: CheckpointHandle) -> None:
    from ckpt_cli.render.show import SOURCES_VIEW, Sources

    found = Sources(str(session.names.store_url), checkpoint.sources())
    session.show(Answer(found, SOURCES_VIEW))


def _show_path(session: Session, checkpoint: CheckpointHandle, path: str) -> None:
    from ckpt_cli.render.show import picked_view

    session.show(Answer(checkpoint.select(path), picked_view(many="[]" in path)))


def _show_state(
    session: Session,
    checkpoint: CheckpointHandle,
    channel: list[str] | None,
    memory: str | None,
    *,
    long: bool,
    full: bool,
    writes: bool,
    metadata: bool,
) -> None:
    from ckpt_cli.render.show import SHOW_VIEW, WRITES_VIEW

    for_people = session.output.text
    answer = checkpoint.show(
        channel,
        writes=writes or session.output.machine,
        operations=long or for_people,
        size=long or (for_people and session.store.sums_sizes),
        namespaces=long,
    )
    found = answer.found
    if found.thread is None and (long or memory is not None):
        raise UsageError(
            f"{'--long' if long else '--memory'} describes a thread, not a checkpoint",
            hint="leave out REF and --ns",
        )
    if found.thread is not None and (long or for_people or memory is not None):
        found = found._replace(memories=checkpoint.thread.memories(memory))
    session.show(
        Answer(found, WRITES_VIEW if writes else SHOW_VIEW),
        writes=writes,
        metadata=metadata,
        whole=bool(full or channel) or not session.output.terminal,
        words=session.names.words,
    )
