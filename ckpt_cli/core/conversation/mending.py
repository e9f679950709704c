"""Put the messages of a broken conversation in an order that the APIs of models accept."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.conversation.pairing import CallPlace, Pairing, answered_ids


def mended(items: Sequence[Value], found: Pairing) -> list[int | CallPlace]:
    """Return the new order: indexes of messages, and calls in the place of their new results.

    New results come behind the results that the message with the call already has. A result that
    comes before its call moves there. Other orphaned results are left out.
    """
    orphans = {
        call_id: index
        for index in reversed(found.orphaned)
        if (message := as_message(items[index])) is not None
        for call_id in answered_ids(message)
    }
    moved: set[int] = set()
    behind: dict[int, list[int | CallPlace]] = {}
    for place in found.unanswered:
        result = orphans.pop(place.id, None)
        # A message may have the results of several calls.
        if result is None or result not in moved:
            behind.setdefault(_after_results(items, place.index), []).append(
                place if result is None else result
            )
        if result is not None:
            moved.add(result)
    order: list[int | CallPlace] = []
    for index in range(len(items) + 1):
        order += behind.get(index, [])
        if index < len(items) and index not in found.orphaned:
            order.append(index)
    return order


def _after_results(items: Sequence[Value], index: int) -> int:
    """Return the index behind the results that follow a message."""
    index += 1
    while index < len(items):
        message = as_message(items[index])
        if message is None or not answered_ids(message):
            return index
        index += 1
    return index
