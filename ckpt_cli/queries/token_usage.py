"""Count the tokens of a thread's messages, each message once.

Messages come from the writes of tasks, so those that were removed or trimmed since are counted too.
A state is read only where the writes that made it are not stored.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from ckpt_backends.checkpoint_ids import step_of, time_of
from ckpt_backends.codec import decode
from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.model import NULL_TASK_ID, Checkpoint, TypedBytes
from ckpt_cli.core.conversation.messages import MODEL_ROLES, Message, as_message
from ckpt_cli.core.conversation.transcript import model_of
from ckpt_cli.core.state import read_body
from ckpt_cli.core.stats import CALLER, UPDATE
from ckpt_cli.core.tasks.step_nodes import node_path, path_text
from ckpt_cli.core.tasks.task_ids import UPDATE_PATH
from ckpt_cli.core.tasks.tasks import CONTROL
from ckpt_cli.core.tasks.triggers import SENDS, START
from ckpt_cli.core.tasks.writes import tasks_by_id
from ckpt_cli.core.tree.calls import is_call
from ckpt_cli.core.usage.message_ledger import FoundMessage, MessageLedger, Origin, Told
from ckpt_cli.core.usage.tokens import TokenCounts, counts_of
from ckpt_cli.core.values.unwrap import unwrap
from ckpt_cli.threads.thread import ThreadReader

INPUT = "(input)"
"""Shown as the node of messages that a run was started with."""
_PLAIN = frozenset({"msgpack", "json", "redis-json", "bson", "bson-plain", "pickle"})
"""Types whose bytes contain the names of the fields."""
_MARKS = (b"usage", b"Usage", b"AIMessage", b"assistant", b"\xa2ai", b'"ai"')
"""One of these is in the names of all fields that tell tokens, or in a message of a model."""
_DEEPEST = 8
"""Lists and dicts in which messages are looked for, one inside the other."""
_AT_ONCE = 50


class ThreadMessages(NamedTuple):
    """The messages of models in a thread, each once."""

    found: Sequence[FoundMessage]
    unread: int
    """Number of values that could not be read, whose messages are missing."""


def messages_of(reader: ThreadReader, checkpoint_ns: str | None = None) -> ThreadMessages:
    """Return the messages of models in a thread, on all branches."""
    with remembering() as memo:
        return ThreadMessages([*_ledger(reader, checkpoint_ns).messages()], memo.unreadable)


def thread_messages(
    reader: ThreadReader, *, with_nodes: bool
) -> Iterator[tuple[FoundMessage, str | None]]:
    """Yield each message that tells its tokens, and with `with_nodes` the node that wrote it."""
    found = [one for one in messages_of(reader).found if one.tokens.messages]
    nodes = nodes_of(reader, found) if with_nodes else {}
    for one in found:
        yield one, INPUT if with_nodes and _is_input(one.origin) else nodes.get(one.origin)


def _ledger(reader: ThreadReader, only: str | None) -> MessageLedger:
    """Return all messages of models, from writes and from states without stored writes."""
    found = MessageLedger()
    indexes = reader.indexes() if only is None else {only: reader.index(only)}
    index = {(ns, one.key.checkpoint_id): one for ns, some in indexes.items() for one in some}
    stored: set[tuple[str, str]] = set()
    for write in reader.store.writes(reader.thread_id, checkpoint_ns=only, values=True):
        key = write.key.checkpoint_ns, write.key.checkpoint_id
        if write.channel in CONTROL:
            continue
        stored.add(key)
        if write.channel != SENDS and write.value is not None and _may_tell(write.value):
            at = write.at or _time(index.get(key), key[1])
            origin = Origin(*key, write.task_id, write.task_path, write.node, at)
            told = _told(decode(write.value))
            found.add_list(write.channel, origin, _given(told) if _is_input(origin) else told)
    _add_states(reader, found, index, stored)
    return found


def _add_states(
    reader: ThreadReader,
    found: MessageLedger,
    index: dict[tuple[str, str], Checkpoint],
    stored: set[tuple[str, str]],
) -> None:
    """Add the messages in states that are not made of stored writes, and in the newest ones."""
    parents = {(ns, one.parent_checkpoint_id) for (ns, _), one in index.items()}
    wanted = (
        one.key
        for key, one in index.items()
        if (key not in parents and not is_call(key[0]))
        or not _is_explained(key, one, index, stored, reader)
    )
    while some := list(islice(wanted, _AT_ONCE)):
        for one in reader.store.checkpoints_at(some, body=True, values=True):
            ns, checkpoint_id = one.key.checkpoint_ns, one.key.checkpoint_id
            origin = Origin(ns, checkpoint_id, at=_time(one, checkpoint_id))
            for channel, value in read_body(one).values.items():
                if channel != SENDS:
                    told = _told(value)
                    found.add_state(origin, _given(told) if channel == START else told)


def _is_explained(
    key: tuple[str, str],
    one: Checkpoint,
    index: dict[tuple[str, str], Checkpoint],
    stored: set[tuple[str, str]],
    reader: ThreadReader,
) -> bool:
    """Return whether the writes that made a checkpoint are stored."""
    if reader.is_values_only:
        return key in stored
    parent = key[0], one.parent_checkpoint_id or ""
    if parent not in index:
        # The first checkpoint of a graph holds its input, which `__start__` writes.
        return not parent[1] and step_of(key[1]) == -1
    steps = step_of(parent[1]), step_of(key[1])
    # With durability="exit", only the writes of one of several steps are stored.
    follows = None in steps or (steps[1] or 0) - (steps[0] or 0) in {0, 1}
    return parent in stored and follows


def _may_tell(value: TypedBytes) -> bool:
    return value.type not in _PLAIN or any(mark in value.data for mark in _MARKS)


def _time(one: Checkpoint | None, checkpoint_id: str) -> datetime | None:
    return (None if one is None else one.at) or time_of(checkpoint_id)


def _told(value: Value, depth: int = 0) -> Iterator[tuple[Message, FoundMessage | None]]:
    """Yield the messages in a value in their order, with their tokens if they tell them."""
    message = as_message(value)
    if message is not None:
        tokens = counts_of(message)
        if tokens is None and message.role in MODEL_ROLES:
            tokens = TokenCounts()
        yield message, None if tokens is None else FoundMessage(model_of(message), tokens)
        return
    held = unwrap(value)
    if held is None or depth >= _DEEPEST:
        return
    for item in held.values() if isinstance(held, dict) else held:
        yield from _told(item, depth + 1)


def _is_input(origin: Origin) -> bool:
    return origin.own_node == START


def _given(told: Told) -> Told:
    """Leave out what an input has without usage data: the caller, and no model, wrote it there."""
    return ((message, one if one and one.tokens.messages else None) for message, one in told)


def nodes_of(reader: ThreadReader, messages: Iterable[FoundMessage]) -> dict[Origin, str]:
    """Return the path of the node that wrote each message, as far as known."""
    found: dict[Origin, str] = {}
    unnamed: dict[str, list[Origin]] = {}
    for origin in {one.origin for one in messages}:
        name = _named(origin)
        if name is not None:
            found[origin] = name
        elif origin.task_id is not None:
            unnamed.setdefault(origin.checkpoint_ns, []).append(origin)
    for ns, origins in unnamed.items():
        by_checkpoint: dict[str, list[Origin]] = {}
        for origin in origins:
            by_checkpoint.setdefault(origin.checkpoint_id, []).append(origin)
        for moment in reader.moments(ns, by_checkpoint):
            tasks = tasks_by_id(moment.step)
            for origin in by_checkpoint[moment.key.checkpoint_id]:
                task = tasks.get(origin.task_id or "")
                if task is not None and task.node is not None:
                    found[origin] = path_text(node_path(ns, [task.node]))
    return found


def _named(origin: Origin) -> str | None:
    if origin.task_id == NULL_TASK_ID:
        return CALLER
    if origin.task_path.startswith(UPDATE_PATH):
        return UPDATE
    if origin.own_node is None:
        return None
    return path_text(node_path(origin.checkpoint_ns, [origin.own_node]))
