"""Find the write that put a value into a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound
from ckpt_backends.model import NULL_TASK_ID
from ckpt_cli.core.conversation import as_message
from ckpt_cli.core.reducers import overwrite
from ckpt_cli.core.tasks import UPDATE_PATH, TaskWrite
from ckpt_cli.core.values import Path, same, select, unwrap


@dataclass(frozen=True, slots=True)
class TracedPath:
    """A place in the state that can be found again in earlier states."""

    path: Path
    """Starts with the channel; contains no negative indexes."""
    message_id: str | None = None
    """Id of the message at `path[1]`, which may have had another index before."""

    @property
    def channel(self) -> str:
        return str(self.path[0])

    @property
    def rest(self) -> Path:
        """The path inside the message, or inside the channel."""
        return self.path[2:] if self.message_id is not None else self.path[1:]


def traced_path(values: Mapping[str, Value], path: Path) -> TracedPath:
    """Return the place of a path that contains no `[]` and no negative indexes."""
    held = unwrap(values.get(str(path[0])))
    index = path[1] if len(path) > 1 else None
    if isinstance(held, list) and isinstance(index, int):
        message = as_message(held[index])
        if message is not None and message.id is not None:
            return TracedPath(path, message.id)
    return TracedPath(path)


def value_at(values: Mapping[str, Value], place: TracedPath) -> tuple[bool, Value]:
    """Return whether an earlier state has the place, and the value there."""
    if place.channel not in values:
        return False, None
    value = values[place.channel]
    if place.message_id is not None:
        found = _by_id(value, place.message_id)
        if found is None:
            return False, None
        value = found
    return _at(value, place.rest)


def writers(writes: Sequence[TaskWrite], place: TracedPath, value: Value) -> list[TaskWrite]:
    """Return the write that put the value there; several if that is ambiguous.

    If there is only one write to the channel, it is returned. Of several, the last one that
    contains the message or the value; all of them if none does, since a reducer may have computed
    the value.
    """
    candidates = [one for one in writes if one.write.channel == place.channel]
    if len(candidates) < 2:
        return candidates
    fitting = [one for one in candidates if write_holds(one, place, value)]
    return fitting[-1:] or candidates


def applied_writes(writes: Sequence[TaskWrite], source: str | None) -> list[TaskWrite]:
    """Return the writes of a checkpoint that produced a child with this source.

    Writes of `update_state` are stored next to those of the tasks. A new input discards both.
    """
    if source == "input":
        return []
    updates = source == "update"
    return [one for one in writes if one.path.startswith(UPDATE_PATH) == updates]


def is_caller(placed: TaskWrite) -> bool:
    """Return whether the caller wrote it with `Command(update=...)`."""
    return placed.write.task_id == NULL_TASK_ID


def write_holds(placed: TaskWrite, place: TracedPath, value: Value) -> bool:
    """Return whether a write contains the message of the place, or the value itself."""
    if placed.write.value is None:
        return False
    written = decode(placed.write.value)
    is_whole, replacement = overwrite(written)
    written = replacement if is_whole else written
    if place.message_id is not None:
        return _by_id(written, place.message_id) is not None
    if same(written, value):
        return True
    held = unwrap(written)
    if isinstance(held, list):
        return any(same(item, value) for item in held)
    found, part = _at(written, place.rest)
    return found and same(part, value)


def _by_id(value: Value, message_id: str) -> Value:
    """Return the last message with this id in a list of messages; None if there is none."""
    message = as_message(value)
    held = unwrap(value) if message is None else [value]
    for item in reversed(held) if isinstance(held, list) else ():
        found = as_message(item)
        if found is not None and found.id == message_id and found.role != "remove":
            return item
    return None


def nodes_in_metadata(metadata: Mapping[str, Value], channel: str) -> list[str]:
    """Return the nodes that wrote to a channel, from the metadata of LangGraph before 0.5."""
    writes = metadata.get("writes")
    return [
        node
        for node, wrote in (writes.items() if isinstance(writes, dict) else ())
        if isinstance(node, str) and isinstance(wrote, dict) and channel in wrote
    ]


def _at(value: Value, rest: Path) -> tuple[bool, Value]:
    try:
        found = select(value, rest)
    except NotFound:
        return False, None
    return True, found[0].value
