"""Find the checkpoint that first set a value, and the task that wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound, UsageError
from ckpt_backends.model import Checkpoint
from ckpt_cli.core import value_origin
from ckpt_cli.core.redact import redact, redact_text
from ckpt_cli.core.state import (
    BY,
    FROM,
    NAME,
    REASON,
    START,
    Body,
    is_state,
    named_node,
    read_body,
    state_values,
)
from ckpt_cli.core.tasks import TaskWrite, finished, task_writes
from ckpt_cli.core.value_origin import TracedPath
from ckpt_cli.core.values import All, Path, parse_path, same, select
from ckpt_cli.reading.states import StateTimeline, read_state
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import Moment

By: TypeAlias = Literal["task", "input", "caller", "update", "fork", "unknown"]


@dataclass(frozen=True, slots=True)
class Edit:
    """What the metadata of a fork says about an edit made with the fork."""

    forked_from: str | None
    """The checkpoint that was copied; None if it is not recorded."""
    forked_by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Blame:
    """The origin of a value."""

    place: TracedPath
    value: Value
    moment: Moment
    """The first checkpoint that has the value."""
    by: By
    """A task; the graph's input; the caller's `Command(update=...)`; `update_state`; an edit
    made with a fork; or unknown.
    """
    writes: Sequence[TaskWrite] = ()
    """The write that set the value; several if it is not known which one."""
    node: str | None = None
    remark: str | None = None
    """A limitation of the answer, to show to the user."""
    edit: Edit | None = None
    """Set if the value is an edit made with a fork."""


def blame(target: Target, path: str) -> Blame:
    """Find the origin of the value at a path of a checkpoint, such as `messages[-1].content`.

    Raises `NotFound` if the path does not exist, `Unreadable` if the checkpoint cannot be read, and
    `UsageError` if the path does not name one value.
    """
    steps = parse_path(path)
    if not steps or not isinstance(steps[0], str) or any(isinstance(one, All) for one in steps):
        raise UsageError(
            f"'{path}' is not the path of one value", hint="use a path such as messages[-1].content"
        )
    if not is_redacted(target.reader.store):
        return _blame(target, steps[0], steps)
    try:
        found = _blame(target, steps[0], steps)
    except NotFound:
        # The usual error message would reveal existing keys.
        raise NotFound(f"nothing at '{path}' in this state") from None
    return replace(
        found,
        value=redact(found.value),
        moment=found.moment.redacted(),
        writes=[one.redacted() for one in found.writes],
        edit=None if found.edit is None else _redacted(target, found.edit),
    )


def _redacted(target: Target, edit: Edit) -> Edit:
    """Return the edit without its reason and without text that may come from an application."""
    ids = {one.key.checkpoint_id for one in target.reader.index(target.checkpoint_ns)}
    return Edit(
        edit.forked_from if edit.forked_from in ids else None,
        edit.forked_by if edit.forked_by == NAME else None,
        None if edit.reason is None else redact_text(edit.reason),
    )


def _blame(target: Target, channel: str, steps: Path) -> Blame:
    reader, channels = target.reader, [channel]
    moment = reader.moment(target.checkpoint_ns, target.checkpoint_id, values=True, state=channels)
    moment.check_readable()
    values = {**_internal(moment.body, channel), **read_state(reader, moment, channels).values}
    (found,) = select(cast("dict[Value, Value]", dict(values)), steps)
    where, value = value_origin.traced_path(values, found.path), found.value
    own = [] if reader.is_values_only else _by_caller(moment, where, value)
    if own:
        return _given(target, where, value, moment, own)
    first, is_complete = _first(target, where, value)
    setter = reader.moment(target.checkpoint_ns, first)
    parent = setter.checkpoint.parent_checkpoint_id
    if setter.source == "fork" and not _is_copied(target, where, value, setter):
        return _edited(where, value, setter)
    if reader.is_values_only and setter.writes:
        return _written(
            where, value, setter, reader.moment(target.checkpoint_ns, first, values=True)
        )
    if parent is None or not is_complete:
        is_first = (
            parent is None
            and setter.source != "loop"  # its parent was pruned
            and reader.has_history
        )
        remark = None if is_first else "set here or earlier: the parent checkpoint is not stored"
        return _without_parent(where, value, setter, remark)
    before = reader.moment(target.checkpoint_ns, parent, values=True)
    by = _written(where, value, setter, before)
    return by if by.by != "caller" else _given(target, where, value, before, by.writes, by)


def _given(
    target: Target,
    where: TracedPath,
    value: Value,
    moment: Moment,
    own: Sequence[TaskWrite],
    found: Blame | None = None,
) -> Blame:
    """Return a result for the caller's writes on a checkpoint.

    On a fork they are an edit made with the fork, unless the fork copied them.
    """
    if moment.source == "fork" and moment.metadata.get(BY) == NAME:
        copied = _original(target, moment)
        stored = () if copied is None else task_writes(copied.writes, copied.step)
        theirs = [one.value for one in stored if value_origin.is_caller(one)]
        if not any(same(one.value, other) for one in own for other in theirs):
            return _edited(where, value, moment, own)
    return found or Blame(where, value, moment, "caller", own)


def _edited(
    where: TracedPath, value: Value, fork: Moment, writes: Sequence[TaskWrite] = ()
) -> Blame:
    def text(key: str) -> str | None:
        found = fork.metadata.get(key)
        return found if isinstance(found, str) else None

    edit = Edit(text(FROM), text(BY), text(REASON))
    return Blame(where, value, fork, "fork", writes, edit=edit)


def _original(target: Target, fork: Moment, channel: str | None = None) -> Moment | None:
    """Return the checkpoint that a fork copied, if it is recorded and still stored."""
    copied = fork.metadata.get(FROM)
    if not isinstance(copied, str):
        return None
    try:
        state = False if channel is None else [channel]
        return target.reader.moment(target.checkpoint_ns, copied, values=True, state=state)
    except NotFound:
        return None


def _is_copied(target: Target, where: TracedPath, value: Value, fork: Moment) -> bool:
    """Return whether a fork has the value from the copied checkpoint, not from an edit."""
    original = _original(target, fork, where.channel)
    if original is None:
        return FROM not in fork.metadata and fork.metadata.get(BY) != NAME
    values = read_state(target.reader, original, [where.channel]).values
    found, stored = value_origin.value_at(values, where)
    return found and same(stored, value)


def _by_caller(moment: Moment, where: TracedPath, value: Value) -> list[TaskWrite]:
    """Return the caller's writes on this checkpoint that make the value; empty if they do not."""
    own = [
        one
        for one in task_writes(moment.writes, moment.step)
        if value_origin.is_caller(one) and one.write.channel == where.channel
    ]
    if not own:
        return []
    is_stored, stored = value_origin.value_at(state_values(moment.body), where)
    if is_stored:
        return [] if same(stored, value) else value_origin.writers(own, where, value)
    return [one for one in own if value_origin.write_holds(one, where, value)][-1:]


def _first(target: Target, where: TracedPath, value: Value) -> tuple[str, bool]:
    """Return the oldest checkpoint since which the place has always had the value.

    The second result is False if an older checkpoint may have had it but is not stored.
    """
    chain = target.reader.ancestry(target.checkpoint_ns, target.checkpoint_id)
    first, version = chain[0], None
    for checkpoint in _bodies(target, chain, where.channel):
        body = read_body(checkpoint)
        channel = where.channel
        here = body.versions.get(channel)
        if version is None or here != version:
            values = state_values(body) | _internal(body, channel)
            if version is not None and channel in body.values and not is_state(channel, body):
                return first, True  # Each step writes an edge anew.
            if channel not in values and channel in body.versions and is_state(channel, body):
                return _first_rebuilt(target, chain, where, value)
            found, stored = value_origin.value_at(values, where)
            if checkpoint.key.checkpoint_id != chain[0] and not (found and same(stored, value)):
                return first, True
        first, version = checkpoint.key.checkpoint_id, here
    return first, False


def _first_rebuilt(
    target: Target, chain: Sequence[str], where: TracedPath, value: Value
) -> tuple[str, bool]:
    """Like `_first`, for a channel that is not stored at every checkpoint; builds each state
    once.
    """
    first: str | None = None
    for point in StateTimeline(target.reader, target.checkpoint_ns, set(chain), [where.channel]):
        if first is not None and where.channel not in point.changed:
            continue
        found, there = value_origin.value_at(point.values, where)
        if not (found and same(there, value)):
            first = None
        elif first is None:
            first = point.checkpoint.key.checkpoint_id
    first = first or chain[0]
    return first, first != chain[-1]


def _internal(body: Body, channel: str) -> dict[str, Value]:
    """Return the value of a channel that is not part of the state, such as `join:a+b:c`."""
    if channel not in body.values or is_state(channel, body):
        return {}
    return {channel: body.values[channel]}


def _bodies(target: Target, chain: Sequence[str], channel: str) -> Iterator[Checkpoint]:
    for checkpoint_id in chain:
        yield from target.reader.checkpoints(
            target.checkpoint_ns, [checkpoint_id], body=True, values=[channel]
        )


def _without_parent(where: TracedPath, value: Value, setter: Moment, remark: str | None) -> Blame:
    by: By = "unknown"
    if remark is None:
        by = "update" if setter.source == "update" else "input"
    return Blame(where, value, setter, by, remark=remark)


def _written(where: TracedPath, value: Value, setter: Moment, parent: Moment) -> Blame:
    """Find the write of the parent that set the value, or else use the setter's metadata.

    In layouts that store writes with the checkpoint they produced, `parent` is that checkpoint.
    """
    source = setter.source
    made_by = value_origin.applied_writes(task_writes(parent.writes, parent.step), source)
    writes = value_origin.writers(made_by, where, value)
    nodes = {one.node for one in writes}
    if not writes:
        nodes = set(value_origin.nodes_in_metadata(setter.metadata, where.channel))
    node = nodes.pop() if len(nodes) == 1 else None
    by: By = "task"
    remark = None
    if source in {"input", "update"}:
        by = "input" if source == "input" else "update"
    elif node == START and is_state(where.channel, setter.body):
        by = "input"
    elif writes and all(map(value_origin.is_caller, writes)):
        by = "caller"
    elif len(writes) > 1:
        remark = f"merged from {len(writes)} writes of this step"
    elif not writes and source == "fork":
        return _edited(where, value, setter)
    elif not writes and (reader := named_node(where.channel)) in finished(parent.step):
        node, remark = reader, f"emptied when {reader} ran"
    elif not writes and node is None:
        by, remark = "unknown", "no write to this channel is stored for this step"
    return Blame(where, value, setter, by, writes, node, remark)
