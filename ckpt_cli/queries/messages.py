"""Read the conversation at a checkpoint, from the channel that holds it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ckpt_backends import shell
from ckpt_backends.codec.values import Cut, Opaque, Value
from ckpt_backends.errors import NotFound
from ckpt_cli.core.conversation import Turn, message_list, said, transcript
from ckpt_cli.core.redact import redact_turn
from ckpt_cli.core.state import given_input
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import unreadable

USUAL = "messages"
_EMPTY: tuple[Value, ...] = (None, [], {})
_NEAR = 20
"""Number of ancestors that are read to find the channel that held the conversation."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of one channel at one checkpoint."""

    channel: str
    turns: Sequence[Turn]
    others: Sequence[str]
    """Other channels that contain messages."""
    remarks: Sequence[str]
    """Notes on the value, for example that it was rebuilt or cut."""


def conversation(target: Target, channel: str | None) -> Conversation:
    """Return the messages of a channel, by default of the channel that contains the conversation.

    Raises `NotFound` if the channel does not exist or contains no messages, or `Unreadable`.
    """
    reader = target.reader
    wanted = True if channel is None else [channel]
    stored = reader.stored(target.checkpoint_ns, target.checkpoint_id, state=wanted)
    stored.check_readable()
    state = read_state(reader, stored, None if channel is None else [channel])
    held = {name: found for name, value in state.values.items() if (found := message_list(value))}
    given = given_input(stored.body, stored.metadata) if not held else None
    if isinstance(given, dict):
        lists = {str(name): message_list(said(value)) for name, value in given.items()}
        told = {name: found for name, found in lists.items() if found}
        if channel in (None, *told) and told:
            channel = channel or _usual(target, told, {})
            return _of_lists(target, told, channel, ["its input, which the next step takes in"])
    if channel is None:
        channel = _usual(target, held, state.values)
    elif channel not in state.values:
        there = ", ".join(map(shell.word, state.values)) or "none"
        raise NotFound(f"no channel '{channel}' at this checkpoint", hint=f"its channels: {there}")
    value = state.values[channel]
    if isinstance(value, Opaque):
        raise unreadable(f"channel '{channel}'", value)
    remarks = [state.rebuilt[channel]] if channel in state.rebuilt else []
    if isinstance(value, Cut):
        remarks.append(f"cut: {value.reason}")
    if channel not in held and value not in _EMPTY:
        there = ", ".join(map(shell.word, held)) or "none"
        raise NotFound(
            f"channel '{channel}' holds no messages", hint=f"channels with messages: {there}"
        )
    return _of_lists(target, held, channel, remarks)


def _of_lists(
    target: Target, lists: Mapping[str, Sequence[Value]], channel: str, remarks: Sequence[str]
) -> Conversation:
    """Return the messages of one of some lists."""
    turns = transcript(lists.get(channel, ()))
    if is_redacted(target.reader.store):
        turns = list(map(redact_turn, turns))
    return Conversation(channel, turns, [name for name in lists if name != channel], remarks)


class LastHeld(NamedTuple):
    """The nearest checkpoint before another one at which a channel held messages."""

    channel: str
    checkpoint_id: str
    number: int
    """Number of messages."""


def last_held(
    target: Target, channels: Collection[str], most: int | None = None
) -> LastHeld | None:
    """Return where one of these channels last held messages, before a checkpoint.

    Only the `most` nearest ancestors are read.
    """
    reader, ns = target.reader, target.checkpoint_ns
    ancestors = reader.ancestry(ns, target.checkpoint_id)[1:]
    for one in ancestors[:most]:
        state = read_state(reader, reader.stored(ns, one, state=channels), channels)
        for name in channels:
            if found := message_list(state.values.get(name)):
                return LastHeld(name, one, len(found))
    return None


def _usual(target: Target, held: Mapping[str, Sequence[Value]], values: Mapping[str, Value]) -> str:
    """Return the channel `messages`, or else the one with the most messages, or that had some.

    Raises `NotFound` if no channel contains messages.
    """
    if USUAL in held:
        return USUAL
    if held:
        return max(held, key=lambda name: len(held[name]))
    if USUAL in values and (values[USUAL] in _EMPTY or isinstance(values[USUAL], Opaque)):
        return USUAL
    empty = [name for name, value in values.items() if value == []]
    if empty and (before := last_held(target, empty, _NEAR)) is not None:
        return before.channel
    there = ", ".join(map(shell.word, values)) or "none"
    raise NotFound("no channel of this checkpoint holds messages", hint=f"its channels: {there}")
