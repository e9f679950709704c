"""Find conversations at the head of a thread that a model's API refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ckpt_backends.codec.values import Tagged, Value
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Status
from ckpt_cli.core.channels import delta_channels, without_snapshot
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.conversation.pairing import (
    Counterparts,
    call_ids,
    is_conversation,
    last_calling,
    last_turn,
    result_ids,
)
from ckpt_cli.core.doctor.conversation import message_findings
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.doctor.repeated_calls import repeated_calls
from ckpt_cli.core.tasks.triggers import SENDS
from ckpt_cli.core.values.unwrap import fields_of
from ckpt_cli.queries.doctor.terms import Terms
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.redaction import is_redacted
from ckpt_cli.threads.states import State, read_state
from ckpt_cli.threads.thread import ThreadReader


def conversation_findings(reader: ThreadReader, head: Moment, terms: Terms) -> Iterator[Finding]:
    """Yield what is wrong with the messages at a head that was read with its state.

    A run in flight is left alone: its next step may add the results.
    """
    if head.status in {Status.PENDING, Status.UNKNOWN} and _is_young(head, terms):
        return
    state = _state_with_messages(reader, head)
    found = _lists(state)
    names = not is_redacted(reader.store)
    yield from library_findings(head.key, state)
    for channel, items in conversations(found).items():
        others = counterparts(head, found, channel)
        yield from message_findings(head.key, channel, items, others, names=names)
        yield from repeated_calls(head.key, channel, items, names=names)


def library_findings(key: CheckpointKey, state: State) -> Iterator[Finding]:
    """Yield the channels of a head of which releases of LangGraph read different messages."""
    for channel, one in state.by_library.items():
        number = f"{one.items} message{'' if one.items == 1 else 's'}"
        yield Finding(
            code="state-by-library",
            detail=f"'{channel}' has {number} as LangGraph {one.release} reads it, and"
            f" {one.other_items} as {one.other} does",
            thread_id=key.thread_id,
            checkpoint_ns=key.checkpoint_ns,
            checkpoint_id=key.checkpoint_id,
            channel=channel,
        )


def message_lists(reader: ThreadReader, moment: Moment) -> dict[str, list[Value]]:
    """Return the channels that hold a list with messages, at a checkpoint read with its state.

    A rebuilt value is left out unless it consists of messages only: then its reducer is likely
    to be that of messages.
    """
    return _lists(_state_with_messages(reader, moment))


def _state_with_messages(reader: ThreadReader, moment: Moment) -> State:
    """Return the state, with the stored lists of messages and the DeltaChannels rebuilt."""
    stored = moment.body.values
    # The metadata names the DeltaChannels without a stored value. To look for others, all
    # checkpoints of the thread would be read.
    names = {name for name, value in stored.items() if _has_messages(without_snapshot(value))}
    return read_state(reader, moment, names | delta_channels(moment.metadata))


def _lists(state: State) -> dict[str, list[Value]]:
    return {
        name: value
        for name, value in state.values.items()
        if isinstance(value, list)
        and _has_messages(value)
        and (name not in state.rebuilt or all(as_message(one) is not None for one in value))
    }


def conversations(lists: Mapping[str, list[Value]]) -> dict[str, list[Value]]:
    """Return those of these lists that are conversations."""
    return {name: items for name, items in lists.items() if is_conversation(items)}


def counterparts(
    moment: Moment, found: Mapping[str, Sequence[Value]], channel: str
) -> Counterparts:
    """Return where the calls and results of a channel may have their counterparts.

    These are other lists of messages at the same checkpoint, and pending Sends: agents start one
    task for each call.
    """
    answered, called = set[str](), set[str]()
    for name, items in found.items():
        if name != channel:
            answered |= result_ids(items)
            called |= call_ids(items)
    open_from = _open_from(moment, found[channel], channel)
    is_final = moment.step.next == () and Status.INTERRUPTED not in moment.conditions
    return Counterparts(open_from, _sent_calls(moment), answered, called, is_final)


def _open_from(moment: Moment, items: Sequence[Value], channel: str) -> int:
    """Return the index of the first message with calls that a task may still answer.

    If a node runs next, it may answer the calls since the last message of a person. If a question
    waits, it may concern the last calls, whatever follows them.
    """
    if moment.step.next == ():
        return len(items)
    if Status.INTERRUPTED in moment.conditions:
        return min(last_turn(items), last_calling(items))
    if any(one.task_id == NULL_TASK_ID and one.channel == channel for one in moment.writes):
        # What runs next was decided before the caller added messages.
        stored = without_snapshot(moment.body.values.get(channel))
        return last_turn(stored) if isinstance(stored, list) else 0
    return last_turn(items)


def _sent_calls(moment: Moment) -> set[str]:
    """Return the ids of the tool calls that pending Sends have as their argument.

    `create_agent` sends a list with the call, `create_react_agent` a dict with the call and the
    state.
    """
    packets = moment.body.values.get(SENDS) or moment.body.pending_sends
    found: set[str] = set()
    for packet in packets if isinstance(packets, list) else ():
        payload = packet.payload if isinstance(packet, Tagged) else packet
        parts = payload[1:] if isinstance(payload, list) else list(fields_of(packet).values())
        parts += [item for part in parts if isinstance(part, list) for item in part]
        parts += [part.get("tool_call") for part in parts if isinstance(part, dict)]
        for part in parts:
            call_id = part.get("id") if isinstance(part, dict) and "args" in part else None
            found |= {call_id} if isinstance(call_id, str) else set()
    return found


def _has_messages(value: Value) -> bool:
    return isinstance(value, list) and any(as_message(one) is not None for one in value)


def _is_young(head: Moment, terms: Terms) -> bool:
    return head.at is not None and head.at > terms.before
