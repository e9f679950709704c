"""Which threads there are, and what happened in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ckpt_cli.mcp.asking import Asked, Tool
from ckpt_cli.mcp.pages import Item
from ckpt_cli.mcp.parameters import NAMESPACE, REF, SINCE, THREAD, WHERE, flag, number, text, texts
from ckpt_cli.queries.threads import SORTS

_STATUSES = ("error", "interrupted", "pending", "done", "unknown", "empty")


def _threads(asked: Asked) -> Iterator[Item]:
    rows = asked.store.handle.listed(
        asked.where,
        status=asked.get("status"),
        match=asked.get("match"),
        since=asked.get("since"),
        sort=asked.get("sort", "last"),
        sizes=asked.get("sizes", False),
        watch=asked.watch,
    )
    return (one.to_dict() for one in rows)


def _tree(asked: Asked) -> Iterator[Item]:
    drawn = asked.thread().tree(ns=asked.get("ns"), unfold=asked.get("unfold", False))
    return iter(drawn.split("\n"))


def _history(asked: Asked) -> Iterator[Item]:
    found = asked.thread().history(ns=asked.get("ns"), all_ns=asked.get("all_ns", False))
    return (without_versions(one.listed()) for one in asked.watch(found))


def without_versions(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without the versions of channels: long, and nothing to a model."""
    return {name: value for name, value in record.items() if name != "versions"}


def _timeline(asked: Asked) -> Iterator[Item]:
    found = asked.checkpoint().timeline(since=asked.get("since"), last=asked.get("last")).to_dict()
    steps = found.pop("steps")
    yield found
    yield from steps


TOOLS = (
    Tool(
        "threads",
        "List threads",
        "List the threads of the store, newest first, with status, step, what runs next, and why"
        " a thread waits. Begin here to find stuck threads: status error, interrupted or pending.",
        {
            "status": texts("Only threads for which one of these holds.", choices=_STATUSES),
            "where": WHERE,
            "match": text("Only thread ids that match this shell pattern, such as user-*."),
            "since": SINCE,
            "sort": text("Order; by default last activity.", choices=SORTS),
            "sizes": flag("Add the stored bytes; takes longer on some stores."),
        },
        _threads,
    ),
    Tool(
        "tree",
        "Draw a thread",
        "Draw a thread as a tree: its steps, forks, subgraph calls, questions and errors. Use it"
        " to see what happened in one thread before you look at single checkpoints.",
        {
            "thread": THREAD,
            "ns": NAMESPACE,
            "unfold": flag("Show every step; by default, long runs of steps are folded."),
        },
        _tree,
    ),
    Tool(
        "history",
        "List checkpoints",
        "List the checkpoints of a thread, newest first, with step, nodes, next nodes, status and"
        " number of writes, without values. Use it to find the id of a checkpoint.",
        {
            "thread": THREAD,
            "ns": NAMESPACE,
            "all_ns": flag("Include the checkpoints of subgraphs."),
        },
        _history,
    ),
    Tool(
        "timeline",
        "Show how long steps took",
        "Tell how long each step and each node of a thread took, and how long it waited for a"
        " person. The first item sums up, then one item follows for each step.",
        {
            "thread": THREAD,
            "ref": REF,
            "ns": NAMESPACE,
            "since": SINCE,
            "last": number("Only this number of steps.", 1),
        },
        _timeline,
    ),
)
