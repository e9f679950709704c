"""Judges which threads of a store another version of their graph would break."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ckpt_backends.errors import NotFound
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.compat import (
    CompatVerdict,
    Graph,
    GraphFile,
    Incompatibility,
    Judging,
    StoredHead,
    deferral_of,
    is_meant,
    judge,
    needed,
    objects_of,
    schemas_of,
    state_of,
)
from ckpt_cli.core.lineage import NamespacePart, levels
from ckpt_cli.core.state import NOT_NODES, delta_channels, is_delta
from ckpt_cli.core.tasks import subgraph_calls
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.thread import ThreadReader, TriggerInference, number_of

_NOT_KEYS = ("branch:", "join:", "__")
GRAPH_ID = "graph_id"
"""The key of metadata in which LangGraph's server names the graph of a thread."""


class JudgedThread(NamedTuple):
    """What another version of its graph does to a thread."""

    thread_id: str
    in_flight: bool
    """Whether something runs next: otherwise only its state matters."""
    findings: Sequence[Incompatibility]
    graph: str | None
    """The name of the graph that it was judged by; None if it belongs to another one."""
    needs: frozenset[str] = frozenset()
    """The nodes that it may still run."""

    @property
    def verdict(self) -> CompatVerdict:
        """The worst of all findings."""
        if self.graph is None:
            return CompatVerdict.OTHER_GRAPH
        order = list(CompatVerdict)
        return min(
            (one.verdict for one in self.findings), key=order.index, default=CompatVerdict.OK
        )


def judged_threads(
    store: Store,
    threads: Iterable[Thread],
    new: GraphFile,
    old: GraphFile | None,
    accepted: Collection[str] = (),
) -> Iterator[JudgedThread]:
    """Yield what the new graphs do to each of some threads.

    `old` describes the graphs that wrote them; `accepted` are differences that are meant. Threads
    that are gone meanwhile are left out.
    """
    inference = TriggerInference(store)
    for thread in threads:
        try:
            found = _judged(ThreadReader(store, thread, inference), new, old)
        except NotFound:
            continue
        if found is not None:
            left = [one for one in found.findings if not is_meant(one, accepted)]
            yield found._replace(findings=left)


def _judged(reader: ThreadReader, new: GraphFile, old: GraphFile | None) -> JudgedThread | None:
    level = stored_head(reader, "")
    if level is None:
        return None
    in_flight = bool(level.step.next) or level.step.next is None
    name = graph_of_thread(reader, level, new, old)
    if name is None:
        return JudgedThread(reader.thread_id, in_flight, (), None)
    graph = new.parts[new.graphs[name]]
    before = _old_graph(name, level, old)
    judging = Judging(new, graph, old, before)
    needs: frozenset[str] = frozenset()
    if in_flight:
        findings = judge(level, judging)
        is_known = level.step.next is not None
        needs = needed(level, before or graph) if is_known else frozenset((before or graph).nodes)
    else:
        stored = [one for one in deferral_of(level, judging) if one.verdict is CompatVerdict.BREAKS]
        findings = [
            *stored,
            *state_of(level, graph, new.schemas),
            *schemas_of(level, graph, new.schemas),
            *objects_of(level, judging),
        ]
    return JudgedThread(reader.thread_id, in_flight, findings, name, needs)


def stored_head(reader: ThreadReader, ns: str) -> StoredHead | None:
    """Return the head of a namespace; None if it has none."""
    head = reader.head(ns)
    if head is None:
        return None
    moment = reader.moment(ns, head, values=True, state=True)
    stateful = {
        one.node for each in reader.namespaces for one in levels(each) if _is_stateful(one, ns)
    }
    values = moment.body.values
    unstored = delta_channels(moment.metadata) & moment.body.versions.keys() - values.keys()
    deltas = unstored | {name for name, value in values.items() if is_delta(value)}
    return StoredHead(
        tuple(one.node for one in levels(ns)),
        moment.key,
        moment.body,
        moment.step,
        number_of(head, moment.metadata) or 0,
        subgraph_calls(reader.namespaces).get(ns, {}),
        frozenset(stateful),
        lambda inner: stored_head(reader, inner),
        frozenset(deltas),
        lambda name: read_state(reader, moment, [name]).values.get(name),
        is_redacted(reader.store),
    )


def _is_stateful(one: NamespacePart, ns: str) -> bool:
    return bool(one.node) and one.task_id is None and one.outer == ns


def _names(level: StoredHead) -> tuple[set[str], set[str]]:
    """Return the nodes and the keys of the state that a thread shows."""
    nodes = {one for one in level.body.seen if one not in NOT_NODES and one != "__start__"}
    nodes |= {task.node for task in level.step.tasks if task.node and task.node != "__start__"}
    return nodes, {one for one in level.body.versions if not one.startswith(_NOT_KEYS)}


def graph_of_thread(
    reader: ThreadReader, level: StoredHead, file: GraphFile, old: GraphFile | None
) -> str | None:
    """Return the graph that a thread belongs to; None if it shows too little of any.

    Threads of other graphs may have a name in common, such as `messages`. Most names of a thread
    are in the graph that wrote it; one that was changed since may have lost some of them.
    """
    nodes, keys = _names(level)
    told = reader.moment("", level.key.checkpoint_id).metadata.get(GRAPH_ID)
    if isinstance(told, str):
        return told if told in file.graphs else None

    def shared(name: str) -> tuple[int, int]:
        graph = file.parts[file.graphs[name]]
        return len(nodes & graph.nodes.keys()), len(keys & graph.channels.keys())

    best = max(file.graphs, key=shared)
    if file.parts[file.graphs[best]].is_functional and not keys and len(file.graphs) == 1:
        return best
    if nodes or keys:
        before = _old_graph(best, level, old)
        known = {*file.parts[file.graphs[best]].nodes, *file.parts[file.graphs[best]].channels}
        known |= {*before.nodes, *before.channels} if before is not None else set()
        share = len((nodes | keys) & known) / len(nodes | keys)
        return best if share >= (1 / 3 if before is None else 1 / 2) else None
    return best if len(file.graphs) == 1 else None


def _old_graph(name: str, level: StoredHead, old: GraphFile | None) -> Graph | None:
    """Return the graph that wrote a thread, of the same name or with its nodes."""
    if old is None:
        return None
    if name in old.graphs:
        return old.parts[old.graphs[name]]
    nodes, _ = _names(level)
    parts = [old.parts[number] for number in old.graphs.values()]
    return max(parts, key=lambda one: len(nodes & one.nodes.keys()))
