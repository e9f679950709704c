"""Judges which threads of a store another version of their graph would break."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ckpt_backends.errors import NotFound
from ckpt_backends.model import Thread, in_chunks
from ckpt_backends.protocol import Store
from ckpt_cli.core.compat import (
    CompatVerdict,
    Graph,
    GraphFile,
    Incompatibility,
    Judging,
    StoredHead,
    deferred_pair,
    findings_of,
    is_meant,
    needed,
    values_needed,
)
from ckpt_cli.core.lineage import NamespacePart, levels, namespace_in
from ckpt_cli.core.state import FROM, NOT_NODES, delta_channels, is_delta, read_metadata
from ckpt_cli.core.tasks import subgraph_calls
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.thread import (
    Moment,
    ThreadReader,
    TriggerInference,
    head_keys,
    heads_with,
    writes_of_heads,
)

_NOT_KEYS = ("branch:", "join:", "__")
GRAPH_ID = "graph_id"
"""The key of metadata in which LangGraph's server names the graph of a thread."""
FINGERPRINT = "graph_fingerprint"
"""The key of metadata in which an application may tell which version of a graph ran."""
_MOST_SHAPES = 10_000


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
    that are gone meanwhile are left out. Of a thread that is done, only those values are read whose
    types tell something new.
    """
    judge = _Judge(store, new, old)
    for some in in_chunks(threads):
        for found in judge.judged(some):
            left = [one for one in found.findings if not is_meant(one, accepted)]
            yield found._replace(findings=left)


class _Judge:
    """Judges threads of a store by two descriptions of graphs."""

    def __init__(self, store: Store, new: GraphFile, old: GraphFile | None) -> None:
        self._store, self._new, self._old = store, new, old
        self._inference = TriggerInference(store)
        self._wanted = frozenset(key for one in _pairs(new, old) for key in values_needed(one))
        self._known: dict[Hashable, JudgedThread] = {}
        """What was found for threads that are done, by the shape of their heads."""

    def judged(self, threads: Sequence[Thread]) -> Iterator[JudgedThread]:
        """Yield what is found for each of a few threads."""
        writes = writes_of_heads(self._store, head_keys(threads))
        listed = {one.thread_id: one for one in threads}
        found: dict[str, JudgedThread | None] = {}
        for head in heads_with(self._store, threads, writes, self._inference, state=self._wanted):
            thread_id = head.key.thread_id
            is_done = head.step.next == ()
            found[thread_id] = (
                self._done(self._reader(listed[thread_id]), head) if is_done else None
            )
        for thread_id in filter(found.__contains__, listed):
            one = found[thread_id]
            with suppress(NotFound):
                one = one or self._in_flight(self._reader(listed[thread_id]))
            if one is not None:
                yield one

    def _reader(self, thread: Thread) -> ThreadReader:
        return ThreadReader(self._store, thread, self._inference)

    def _in_flight(self, reader: ThreadReader) -> JudgedThread | None:
        level = stored_head(reader, "")
        return None if level is None else self._of(level)

    def _done(self, reader: ThreadReader, head: Moment) -> JudgedThread:
        """Return what is found for a thread that is done; heads of one shape are judged once."""
        level = _as_stored(reader, head, {}, frozenset())
        if not self._wanted.isdisjoint({*level.body.values, *level.deltas}):
            return self._of(level)
        shape = _shape(level)
        found = self._known.get(shape)
        if found is None:
            found = self._of(level)
            if len(self._known) < _MOST_SHAPES:
                self._known[shape] = found
        return found._replace(thread_id=reader.thread_id)

    def _of(self, level: StoredHead) -> JudgedThread:
        thread_id, in_flight = level.key.thread_id, level.step.next != ()
        name = graph_of_thread(level, self._new, self._old)
        if name is None:
            return JudgedThread(thread_id, in_flight, (), None)
        graph = self._new.parts[self._new.graphs[name]]
        judging = Judging(self._new, graph, self._old, old_graph_of(name, level, self._old))
        if level.metadata.get(FINGERPRINT) == self._new.fingerprints.get(name, ""):
            judging = Judging(self._new, graph, self._new, graph)
        needs: frozenset[str] = frozenset()
        if in_flight:
            before = judging.old or graph
            is_known = level.step.next is not None
            needs = needed(level, before) if is_known else frozenset(before.nodes)
        return JudgedThread(thread_id, in_flight, findings_of(level, judging), name, needs)


def _pairs(new: GraphFile, old: GraphFile | None) -> Iterator[Judging]:
    """Yield each new graph with each of the old ones that it may come from."""
    for name, number in new.graphs.items():
        graph = new.parts[number]
        if old is None:
            yield Judging(new, graph)
            continue
        alike = [old.graphs[name]] if name in old.graphs else old.graphs.values()
        for before in alike:
            yield Judging(new, graph, old, old.parts[before])


def _shape(level: StoredHead) -> Hashable:
    """Return what the verdict of a thread that is done depends on, if no values are needed."""
    body, metadata = level.body, level.metadata
    return (
        str(metadata.get(GRAPH_ID)),
        str(metadata.get(FINGERPRINT)),
        body.is_javascript,
        frozenset(body.versions),
        frozenset(body.seen),
        frozenset((name, deferred_pair(value) is None) for name, value in body.values.items()),
        level.deltas,
        frozenset(one.channel for task in level.step.tasks for one in task.writes),
    )


def stored_head(reader: ThreadReader, ns: str) -> StoredHead | None:
    """Return the head of a namespace; None if it has none."""
    head = reader.head(ns)
    if head is None:
        return None
    return head_of(reader, reader.moment(ns, head, values=True, state=True))


def head_of(reader: ThreadReader, moment: Moment) -> StoredHead:
    """Return the head of a namespace, which was read with all values."""
    ns = moment.key.checkpoint_ns
    stateful = {
        one.node for each in reader.namespaces for one in levels(each) if _is_stateful(one, ns)
    }
    if len(stateful) > 1:
        stateful -= set(_migrated(reader, ns, stateful))
    calls = subgraph_calls(reader.namespaces).get(ns, {})
    return _as_stored(reader, moment, calls, frozenset(stateful))


def _as_stored(
    reader: ThreadReader, moment: Moment, calls: Mapping[str, str], stateful: frozenset[str]
) -> StoredHead:
    values = moment.body.values
    unstored = delta_channels(moment.metadata) & moment.body.versions.keys() - values.keys()
    return StoredHead(
        tuple(one.node for one in levels(moment.key.checkpoint_ns)),
        moment.key,
        moment.body,
        moment.metadata,
        moment.step,
        moment.number or 0,
        calls,
        stateful,
        lambda inner: stored_head(reader, inner),
        frozenset(unstored | {name for name, value in values.items() if is_delta(value)}),
        lambda name: read_state(reader, moment, [name]).values.get(name),
        is_redacted(reader.store),
    )


def _migrated(reader: ThreadReader, ns: str, nodes: Collection[str]) -> Iterator[str]:
    """Yield the nodes whose memory `ckpt migrate` has copied to another node."""
    heads = {reader.head(namespace_in(ns, one)): one for one in nodes}
    for one in nodes:
        inner = namespace_in(ns, one)
        for copy in reader.checkpoints(inner, [reader.head(inner) or ""], metadata=True):
            origin = read_metadata(copy).get(FROM)
            if isinstance(origin, str) and heads.get(origin, one) != one:
                yield heads[origin]


def _is_stateful(one: NamespacePart, ns: str) -> bool:
    return bool(one.node) and one.task_id is None and one.outer == ns


def _names(level: StoredHead) -> tuple[set[str], set[str]]:
    """Return the nodes and the keys of the state that a thread shows."""
    nodes = {one for one in level.body.seen if one not in NOT_NODES and one != "__start__"}
    nodes |= {task.node for task in level.step.tasks if task.node and task.node != "__start__"}
    return nodes, {one for one in level.body.versions if not one.startswith(_NOT_KEYS)}


def graph_of_thread(level: StoredHead, file: GraphFile, old: GraphFile | None) -> str | None:
    """Return the graph that a thread belongs to; None if it shows too little of any.

    A thread that tells its graph belongs to that one. Threads of other graphs may have a name in
    common, such as `messages`. Most names of a thread are in the graph that wrote it; one that was
    changed since may have lost some of them.
    """
    named = _stamped(level, file)
    if named is not None:
        return named
    mark, before = level.metadata.get(FINGERPRINT), None if old is None else _stamped(level, old)
    if isinstance(mark, str) and old is not None and old.fingerprints and before is None:
        return None
    told = level.metadata.get(GRAPH_ID)
    if isinstance(told, str):
        return told if told in file.graphs else None
    if before in file.graphs:
        return before
    nodes, keys = _names(level)

    def shared(name: str) -> tuple[int, int]:
        graph = file.parts[file.graphs[name]]
        return len(nodes & graph.nodes.keys()), len(keys & graph.channels.keys())

    best = max(file.graphs, key=shared)
    if file.parts[file.graphs[best]].is_functional and not keys and len(file.graphs) == 1:
        return best
    if nodes or keys:
        wrote = old_graph_of(best, level, old)
        known = {*file.parts[file.graphs[best]].nodes, *file.parts[file.graphs[best]].channels}
        known |= {*wrote.nodes, *wrote.channels} if wrote is not None else set()
        share = len((nodes | keys) & known) / len(nodes | keys)
        return best if share >= (1 / 3 if wrote is None else 1 / 2) else None
    return best if len(file.graphs) == 1 else None


def _stamped(level: StoredHead, file: GraphFile) -> str | None:
    """Return the graph with the fingerprint that the application wrote into the metadata."""
    mark = level.metadata.get(FINGERPRINT)
    marked = (name for name in file.graphs if file.fingerprints.get(name, "") == mark)
    return next(marked, None)


def old_graph_of(name: str, level: StoredHead, old: GraphFile | None) -> Graph | None:
    """Return the graph that wrote a thread, by fingerprint, name or nodes."""
    if old is None:
        return None
    named = _stamped(level, old) or name
    if named in old.graphs:
        return old.parts[old.graphs[named]]
    nodes, _ = _names(level)
    parts = [old.parts[number] for number in old.graphs.values()]
    return max(parts, key=lambda one: len(nodes & one.nodes.keys()))
