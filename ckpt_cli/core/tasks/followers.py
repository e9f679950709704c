"""Learn which nodes follow a node, from what happened after it in the checkpoints of a graph.

Until LangGraph 0.3.15 a node writes to a channel with its name, and the nodes at the end of its
edges subscribe to that channel. No checkpoint stores the subscriptions, so one that
waits at `interrupt_before` or `interrupt_after` equals one after a last node. What tells them apart
is a later checkpoint: a run, and also a new input, notes in `versions_seen` every node that
subscribes to a channel with a new value. Source: `apply_writes` in `langgraph/pregel/algo.py` and
`_first` in `langgraph/pregel/loop.py`, 0.2.14 and 0.2.70.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from ckpt_cli.core.state import Body
from ckpt_cli.core.tasks.triggers import NOT_NODES, START, is_output

_ENTRIES = ("start:", f"{START}:")
"""How Python and, before 0.2.74, LangGraph.js begin the names of edges from the start."""
_Seen = Mapping[str, Mapping[str, object]]


class Followers(NamedTuple):
    """What the checkpoints of one thread tell about the edges of one graph."""

    passed: dict[str, frozenset[str]]
    """For each node after which a run or an input came: all nodes that follow it; none at an end.
    """
    updated: dict[str, set[str]]
    """For each node, other nodes as which `update_state` was called right after it."""
    ran: set[str]
    """The nodes that ran."""
    entries: set[str] | None
    """The channels of edges from the start; None if no run began."""
    joins: set[str]
    """The channels of joins, to which each of their members writes."""
    state: set[str]
    """The channels of the state that were written."""

    def agrees(self, other: "Followers") -> bool:
        """Return whether both probably come from one graph: what both know is the same."""
        if None not in (self.entries, other.entries) and self.entries != other.entries:
            return False
        if not (self.state <= other.state or other.state <= self.state):
            return False
        if self._lacks(other.joins) or other._lacks(self.joins):
            return False
        common = self.passed.keys() & other.passed.keys()
        return all(self.passed[node] == other.passed[node] for node in common)

    def _lacks(self, joins: set[str]) -> bool:
        """Return whether a member of one of these joins ran, and did not write to it."""
        members = (
            f"+{one.removeprefix('join:').rpartition(':')[0]}+" for one in joins - self.joins
        )
        return any(f"+{node}+" in names for names in members for node in self.ran)


class _Child(NamedTuple):
    """What is needed of a checkpoint until its parent is read."""

    source: str | None
    chosen: Mapping[str, object]
    """The nodes whose channels have a value, with the versions."""
    seen: _Seen


def graph_of(checkpoint_ns: str) -> tuple[str, ...]:
    """Return the nodes that called each other's subgraphs, outermost first: calls of one graph have
    them in common.
    """
    return tuple(
        segment.rpartition(":")[0] or segment
        for segment in checkpoint_ns.split("|")
        if segment and not segment.isdecimal()
    )


def learn_followers(
    checkpoints: Iterable[tuple[str, str | None, str | None, Body]],
) -> Followers:
    """Return what checkpoints tell, given (id, parent id, source, body) of each, newest first."""
    found = Followers({}, {}, set(), None, set(), set())
    nodes: set[str] = set()
    channels: set[str] = set()
    children: dict[str, list[_Child]] = {}
    for checkpoint_id, parent_id, source, body in checkpoints:
        nodes.update(body.seen)
        channels.update(body.versions)
        found.ran.update(node for node, read in body.seen.items() if read)
        held = {name: body.versions.get(name) for name in body.values if is_output(body, name)}
        for child in children.pop(checkpoint_id, ()):
            _compare(found, held, child)
        if parent_id is not None:
            children.setdefault(parent_id, []).append(_Child(source, held, body.seen))
    edges = {name for name in channels if ":" in name}
    return found._replace(
        entries={one for one in edges if one.startswith(_ENTRIES)} if START in nodes else None,
        joins={name for name in edges if name.startswith("join:")},
        state=channels - edges - nodes - {START},
    )


def _compare(found: Followers, held: Mapping[str, object], child: _Child) -> None:
    """Add what a checkpoint and one of its children tell."""
    if child.source == "update":
        nodes = {name for name, version in child.chosen.items() if held.get(name) != version}
        for name in held:
            found.updated.setdefault(name, set()).update(nodes - {name})
        return
    if child.source not in {"loop", "input"}:
        return
    for name, version in held.items():
        # The newest answer stays: the graph may have been changed.
        if version is not None and name not in found.passed:
            found.passed[name] = frozenset(
                node
                for node, read in child.seen.items()
                if node not in NOT_NODES and read.get(name) == version
            )


def followers_of(
    node: str, own: Followers, others: Callable[[], Iterable[Followers]]
) -> Collection[str] | None:
    """Return the nodes that follow a node: none if the graph ends there, None if it is not known.

    `own` is from the thread asked about. `others` are from other threads, and perhaps from other
    graphs; they are read only if the thread itself does not tell.

    Where a run has passed the node, the answer is sure. Else the one node as which `update_state`
    was called after it is taken, if it never ran: the caller acted for a node that waited. A node
    that ran without following this one was only chosen to go on from there.
    """
    if node in own.passed:
        return own.passed[node]
    alike = [own, *(one for one in others() if one.agrees(own))]
    answers = {one.passed[node] for one in alike if node in one.passed}
    if answers:
        return answers.pop() if len(answers) == 1 else None
    ran = {name for one in alike for name in one.ran}
    for some in ([own], alike):
        updated = {name for one in some for name in one.updated.get(node, ())} - ran
        if len(updated) == 1:
            return updated
    return None
