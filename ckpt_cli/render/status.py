"""Statuses and next nodes in words and styles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ckpt_backends.model import Status
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Style

STATUS_STYLES: dict[Status, Style] = {
    Status.ERROR: "error",
    Status.INTERRUPTED: "question",
    Status.PENDING: "change",
    Status.DONE: "plain",
    Status.UNKNOWN: "dim",
    Status.EMPTY: "dim",
}


def node_names(nodes: Sequence[str] | None) -> str:
    """Return the nodes that are next, in words; `?` if they are not known."""
    if nodes is None:
        return "?"
    return counted_names(nodes) or "nothing"


def next_node_names(paths: Sequence[Sequence[str]] | None) -> str:
    """Return the same for paths into subgraphs."""
    from ckpt_cli.core.tasks.step_nodes import path_text  # late: lists do not need it

    return node_names(None if paths is None else [path_text(tuple(path)) for path in paths])


def counted_names(nodes: Sequence[str]) -> str:
    """Return the nodes, each once: `agent, search ×3`."""
    return ", ".join(
        f"{safe_text(node)} ×{n}" if n > 1 else safe_text(node)
        for node, n in Counter(nodes).items()
    )


def marks_style(marks: Sequence[str]) -> Style:
    """Return the style of the worst of some conditions."""
    known = [Status(mark) for mark in marks if mark in set(Status)]
    if known:
        return STATUS_STYLES[known[0]]
    return "warn" if marks else "plain"
