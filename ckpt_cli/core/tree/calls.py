"""Subgraph calls: the parts of their namespaces, and the steps that made them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckpt_cli.core.tree.branches import Branches
from ckpt_cli.core.tree.rows import Key

DEEPEST = 50
"""Deepest subgraph call that is drawn under its caller."""


class SubgraphCalls:
    """The namespaces of a thread, each below the checkpoint that called it.

    `called` has the namespaces called from each checkpoint, by time; `sections` all others.
    """

    def __init__(self, branches: Mapping[str, Branches]) -> None:
        self._branches = branches
        self.called, self.sections = self._find()

    def _find(self) -> tuple[dict[Key, list[str]], list[str]]:
        by_task = {
            (ns, task): (ns, item.checkpoint_id)
            for ns, branches in self._branches.items()
            for item in branches.items.values()
            for task in item.tasks
        }
        calls: dict[Key, list[str]] = {}
        sections = []
        for ns in self._branches:
            caller = self._caller(ns, by_task) if is_call(ns) else None
            if caller is not None:
                calls.setdefault(caller, []).append(ns)
            elif ns:
                sections.append(ns)
        for made in calls.values():
            made.sort(key=lambda ns: min(self._branches[ns].items))
        # Stateful namespaces are part of the thread's state; calls without a caller come after
        # them.
        return calls, sorted(sections, key=lambda ns: (is_call(ns), ns))

    def _caller(self, ns: str, by_task: Mapping[Key, Key]) -> Key | None:
        if ns.count("|") > DEEPEST:
            return None
        segments = ns.split("|")
        for place in range(len(segments) - 1, -1, -1):
            task = segments[place].rpartition(":")[2]
            caller = by_task.get(("|".join(segments[:place]), task))
            if caller is not None:
                return caller
        first = self._branches[ns].items[min(self._branches[ns].items)]
        for place in range(len(segments) - 1, -1, -1):
            outer = "|".join(segments[:place])
            branches = self._branches.get(outer)
            if branches is not None and first.parents.get(outer) in branches.items:
                return outer, first.parents[outer]
        return None

    def checkpoints(self, namespaces: Iterable[str]) -> list[Key]:
        """Return all checkpoints of some namespaces and of the calls that they made."""
        pending = list(namespaces)
        keys: list[Key] = []
        for ns in pending:
            for checkpoint_id in self._branches[ns].items:
                keys.append((ns, checkpoint_id))
                pending.extend(self.called.get((ns, checkpoint_id), ()))
        return keys


def is_call(ns: str) -> bool:
    """Return whether a namespace is one call of a subgraph; others keep state across calls."""
    return namespace_parts(ns)[1] is not None


def calling_node(ns: str) -> str:
    """Return the node that made the call, or the name of a stateful namespace."""
    return namespace_parts(ns)[0]


def namespace_parts(ns: str) -> tuple[str, str | None, str]:
    """Return (node, task id, number of a further call) of the innermost call.

    The task id is None for a stateful namespace; the number is `''` for the first call in a task.
    """
    segments = ns.split("|")
    number = ""
    while len(segments) > 1 and segments[-1].isdecimal():
        number = segments.pop()
    node, colon, task = segments[-1].rpartition(":")
    return (node, task, number) if colon else (task, None, number)
