"""Reads the pending Sends of a checkpoint: which nodes they start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.model import NULL_TASK_ID, Write
from ckpt_cli.core.state import Body
from ckpt_cli.core.tasks.triggers import SENDS
from ckpt_cli.core.values.unwrap import fields_of


def written_by_caller(body: Body, writes: Iterable[Write]) -> set[str]:
    """Return the channels that the caller wrote to, which LangGraph.js counts for what runs next.

    The Python libraries count them only in the checkpoint that contains what was written. Source:
    `_prepareStateSnapshot` in `@langchain/langgraph/dist/pregel/index.js`, 0.2.74 and 1.7.3.
    """
    if not body.is_javascript:
        return set()
    return {write.channel for write in writes if write.task_id == NULL_TASK_ID}


def sent_nodes(
    body: Body,
    parent_sends: Callable[[], Sequence[Write]],
    own_sends: Callable[[], Sequence[Write]] | None,
) -> list[str | None] | None:
    """Return the node of each pending Send, None for an unreadable one; None if all are unreadable.

    Bodies before format 4 hold Sends inline; if the layout does not store them there, they are
    among the parent's writes. `own_sends` is given if the Sends of the caller count too.
    """
    packets: Value = body.values.get(SENDS)
    if body.v < 4:
        packets = body.pending_sends
        if packets is None:
            packets = _packets(parent_sends())
    if own_sends is not None and (packets is None or isinstance(packets, list)):
        sent = _packets(write for write in own_sends() if write.task_id == NULL_TASK_ID)
        # From format 4 on they are a channel, and new Sends replace older ones.
        packets = sent if sent is None or body.v >= 4 else [*(packets or ()), *sent]
    if packets is None and body.v < 4:
        return None
    if isinstance(packets, Opaque | Cut):
        return None
    return [_sent_node(packet) for packet in packets] if isinstance(packets, list) else []


def sends_among(writes: Iterable[Write]) -> list[str | None] | None:
    """Return the node of each Send among some writes, None for an unreadable one; None if the
    values of the writes were not read.
    """
    packets = _packets(writes)
    return None if packets is None else list(map(_sent_node, packets))


def _packets(writes: Iterable[Write]) -> list[Value] | None:
    """Return the Sends among some writes, in order; None if one was not read."""
    sent = [write for write in writes if write.channel == SENDS]
    sent.sort(key=lambda write: (write.task_path, write.task_id, write.idx))
    values = [write.value for write in sent if write.value is not None]
    return list(map(decode, values)) if len(values) == len(sent) else None


def _sent_node(packet: Value) -> str | None:
    """Return the node of a Send: `Send(node, arg)` in Python, `{node, args}` in LangGraph.js."""
    payload = packet.payload if isinstance(packet, Tagged) else packet
    node = fields_of(packet).get("node")
    if isinstance(packet, Tagged) and isinstance(payload, list) and payload:
        node = payload[0]
    return node if isinstance(node, str) else None
