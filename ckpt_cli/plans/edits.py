"""What edits need to know about a thread, and the resulting state."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_backends import shell
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound, Unsupported
from ckpt_cli.core.forking.edit_state import BRANCH, ChannelEdit
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.replay.add_messages import unknown_removals
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.states import read_state, rules_of
from ckpt_cli.threads.thread import ThreadReader

_EDGES = ("branch:", "join:", "start:", "__pregel_tasks")


def known_channels(*moments: Moment) -> frozenset[str]:
    """Return the channels that appear in some checkpoints or in the writes of their tasks."""
    return frozenset(
        name
        for moment in moments
        for name in (
            *moment.body.versions,
            *moment.body.values,
            *(write.channel for write in moment.writes),
        )
    )


def edges_of(reader: ThreadReader, node: str) -> tuple[str, ...]:
    """Return the edges that a node wrote when it last ran in this thread.

    Raises `NotFound` if it never finished, and `Unsupported` if it wrote to a join or a Send, which
    cannot be repeated by name.
    """
    nodes: set[str] = set()
    for moment in reader.moments(""):
        for task in moment.step.tasks:
            nodes |= {task.node} if task.node is not None and task.finished else set()
            if task.node != node or not task.finished:
                continue
            edges = {one.channel for one in task.writes if one.channel.startswith(_EDGES)}
            if others := sorted(one for one in edges if not one.startswith(BRANCH)):
                raise Unsupported(
                    f"cannot continue after '{node}': it wrote to joins or Sends, which ckpt"
                    f" cannot repeat ({', '.join(others)})",
                    hint=f"call update_state(..., as_node={node!r}) in the application",
                )
            return tuple(sorted(edges))
    known = [one for one in nodes if not one.startswith("__")]
    raise NotFound(
        f"node '{node}' never finished in thread '{reader.thread_id}'",
        hint=f"finished nodes: {', '.join(map(shell.word, sorted(known))) or 'none'}",
    )


def nodes_behind(edges: Sequence[str]) -> tuple[str, ...]:
    """Return the nodes that the edges lead to."""
    return tuple(one.removeprefix(BRANCH) for one in edges)


def previewed(
    reader: ThreadReader, target: Moment, edits: Sequence[ChannelEdit]
) -> tuple[dict[str, Value], list[str]]:
    """Return the state of a checkpoint after the edits, and notes about it."""
    found, notes = dict(read_state(reader, target).values), []
    for edit in edits:
        before = found.get(edit.channel)
        if edit.kind == "set":
            ns = target.key.checkpoint_ns
            delta = edit.channel in reader.delta_channels(ns)
            found[edit.channel], how = rules_of(reader.store, target.body).merge(
                namespace_kind(ns), edit.channel, before, [edit.value], delta=delta
            )
            notes.append(
                f"the application's reducer merges '{edit.channel}' when the thread resumes; this"
                f" plan {'takes' if how.endswith('told') else 'assumes'}"
                f" {how.removeprefix('assumed ')}"
            )
            if "add_messages" in how and not delta:
                notes += [
                    f"add_messages raises an error: '{edit.channel}' has no message '{one}' to"
                    " remove"
                    for one in unknown_removals(before, edit.value)
                ]
        elif edit.kind == "append" and isinstance(before, list):
            found[edit.channel] = [*before, edit.value]
        else:
            found[edit.channel] = edit.value
    return found, notes
