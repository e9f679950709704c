"""Search a state for a text, folded values too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ckpt_cli.core.conversation import as_message
from ckpt_cli.render.folding import (
    BEGINNING,
    PART,
    ValueNode,
    children,
    is_index,
    parts_of,
    text_of,
)
from ckpt_cli.render.values import key_text, leaf, message_label, summary

MOST_VALUES = 300_000
MOST_CHARACTERS = 50_000_000
"""A search ends after this number of values or characters."""
MOST_HITS = 10_000
_SCALAR = 1_000
"""Number of characters or bytes of a scalar that are searched."""


@dataclass(slots=True)
class Hits:
    """Where a text was found, from top to bottom."""

    nodes: list[ValueNode] = field(default_factory=list)
    above: int = 0
    """How many of them are above the node that the search started from."""
    ended: str | None = None
    """The path at which the search ended; None if everything was searched."""


def search(roots: Iterable[ValueNode], wanted: str, start: str | None) -> Iterator[Hits]:
    """Search all values for a text in lower case; yields the same hits after each value.

    `start` is the name of the node under the cursor.
    """
    hits, values, characters = Hits(), 0, 0
    waiting = [iter(roots)]
    while waiting:
        node = next(waiting[-1], None)
        if node is None:
            waiting.pop()
            continue
        if node.name == start:
            hits.above = len(hits.nodes)
        text = own_text(node, len(wanted))
        values, characters = values + 1, characters + len(text)
        if wanted in text.casefold():
            hits.nodes.append(node)
        if values > MOST_VALUES or characters > MOST_CHARACTERS or len(hits.nodes) == MOST_HITS:
            hits.ended = node.path
            yield hits
            return
        yield hits
        waiting.append(iter(children(node)))


def own_text(node: ValueNode, beyond: int) -> str:
    """Return the text of a node without the nodes below it; a part of a text goes on `beyond`."""
    text = node.value if isinstance(node.value, str) else text_of(node.value)
    if node.kind == "characters":
        is_shown = text is not None and node.stop - node.start <= PART
        return text[node.start : node.stop + beyond] if text is not None and is_shown else ""
    if node.kind != "value":
        return ""
    key = "" if is_index(node.key) else key_text(node.key)
    if text is not None:
        return f"{key}\n{text[: BEGINNING + beyond]}"
    if parts_of(node.value):
        message = as_message(node.value)
        return key if message is None else f"{key}\n{message_label(message)}"
    scalar = leaf(node.value, _SCALAR)
    return f"{key}\n{summary(node.value, _SCALAR) if scalar is None else scalar[:_SCALAR]}"
