"""Long-term memory: LangGraph's Store and the like."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.errors import UsageError
from ckpt_cli.mcp.asking import OPEN_HINT, Asked, Tool
from ckpt_cli.mcp.pages import Item
from ckpt_cli.mcp.parameters import SINCE, text


def _memory(asked: Asked) -> Iterator[Item]:
    memory, namespace = asked.store.handle.memory, asked.get("namespace", "")
    if (key := asked.get("key")) is not None:
        yield memory.show(key, namespace).to_dict()
        return
    if (wanted := asked.get("search")) is not None:
        if not asked.store.allowed.values:
            raise UsageError("this server hides the values to search", hint=OPEN_HINT)
        hits = memory.search(wanted, namespace, watch=asked.watch)
        yield from (one.to_dict() for one in hits)
        if hits.missed:
            yield {"missed": hits.missed}
        return
    items = memory.items(namespace, match=asked.get("match"), since=asked.get("since"))
    yield from (one.to_dict() for one in asked.watch(items))


TOOLS = (
    Tool(
        "memory",
        "Read long-term memory",
        "List what agents remember across threads, without values; with key, show one item with"
        " its value and where it came from; with search, find a text.",
        {
            "namespace": text("Only this namespace and those below it, such as users/anna."),
            "key": text("Show the item with this key."),
            "search": text("Find this text in namespaces, keys and values."),
            "match": text("Only keys that match this shell pattern."),
            "since": SINCE,
        },
        _memory,
    ),
)
