"""What a resume of stored threads would do in another version of their graph.

LangGraph stores no tasks. It computes them again from the channels of the head and the nodes of the
graph that resumes (`prepare_next_tasks` in `langgraph/pregel/_algo.py`), and drops without a word
what matches no node and no channel. So the tasks of the new graph are computed here in the same way
and compared with those that were planned. `ckpt_cli/data/probe.py` describes graphs as JSON.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from enum import StrEnum
from typing import Any, NamedTuple

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value, items_of
from ckpt_backends.errors import UsageError
from ckpt_backends.model import CheckpointKey, is_reserved
from ckpt_cli.core.lineage import namespace_in
from ckpt_cli.core.redact import redact_text
from ckpt_cli.core.state import END, RESUME, START, Body, is_new, named_node, version_number
from ckpt_cli.core.tasks import (
    CONTROL,
    Step,
    Task,
    call_ids,
    call_of,
    caller_of,
    is_call,
    origin_at,
    pull_ids,
    sent_index,
)

FORMAT = 1
LARGEST = 16 << 20
"""Bytes of a description of graphs."""
_MARK = "ckpt_graph"


class CompatVerdict(StrEnum):
    """What the new graph does to a thread, the worst first."""

    BREAKS = "breaks"
    """The resume raises."""
    LOSES = "loses"
    """A planned task, an answer or a part of the state is dropped."""
    REPEATS = "repeats"
    """What had finished runs again."""
    CHANGES = "changes"
    """Something else runs, or it runs with other data."""
    CANNOT_TELL = "cannot tell"
    OTHER_GRAPH = "another graph"
    OK = "ok"


class Incompatibility(NamedTuple):
    """One thing that a resume in the new graph does otherwise."""

    verdict: CompatVerdict
    code: str
    where: str
    """The node or channel, with the subgraphs around it: `research > ask`."""
    reason: str
    remedy: str


def is_meant(one: Incompatibility, accepted: Collection[str]) -> bool:
    """Return whether a difference is accepted, as `CODE:WHERE` or `CODE`."""
    return one.code in accepted or f"{one.code}:{one.where}" in accepted


# Graphs as the probe describes them. The file may come from anywhere, so nothing in it is believed.


class GraphNode(NamedTuple):
    """A node of a graph."""

    triggers: tuple[str, ...]
    is_deferred: bool
    subgraphs: tuple[tuple[int, str], ...]
    """Parts of the file, and how each is checkpointed: `calls`, `thread`, `none` or `own`."""
    code: str
    asks: tuple[Any, ...]
    """The literal arguments of `interrupt()` in the order of the source; None if it is no literal.
    """
    asks_all: bool
    """Whether these are all questions, each asked once."""
    calls: tuple[str, ...]
    """The `@task` functions that it may call, in the order of the source."""
    calls_all: bool
    """Whether these are all calls, each made once."""
    tools: Mapping[str, frozenset[str]] | None
    """The arguments of each tool that it runs; None if it runs none."""
    agents: Mapping[str, frozenset[str]]
    """The names of the agents that these tools call, of those that call any."""
    gates: frozenset[str] | None
    """The tools before which it asks a person; None if it is no such gate."""
    needs: Mapping[str, Any]
    """Its state schema: `kind`, and `required` keys."""


class GraphChannel(NamedTuple):
    """A channel of a graph."""

    kind: str
    container: str
    """What its reducer merges: `list`, `dict`, `set`, `str` or `int`; `''` if nothing tells."""
    schema: str
    """The key of its JSON Schema; `''` if it has none."""
    members: frozenset[str]
    type: str
    """The name of its type, without what it contains."""
    classes: frozenset[str]
    """The classes of the application that its type names, as `module.Class`."""


class Graph(NamedTuple):
    """One graph: nodes, channels, and where nodes lead."""

    name: str
    is_functional: bool
    nodes: Mapping[str, GraphNode]
    channels: Mapping[str, GraphChannel]
    edges: Mapping[str, frozenset[str]]
    """Where nodes always lead, but for joins."""
    branches: Mapping[str, frozenset[str]]
    """Where they may lead, by a condition or a command."""
    anywhere: frozenset[str]
    """Nodes that may lead to any other."""

    def reached_from(
        self, starts: Iterable[str], arrived: Mapping[str, Collection[str]], *, surely: bool = False
    ) -> set[str]:
        """Return the nodes that may run after some nodes, with these.

        `arrived` are the members that joins have already. With `surely`, only those to which no
        condition leads.
        """
        found = {one for one in starts if one in self.nodes}
        while more := self.behind(found, arrived, surely=surely) - found:
            found |= more
        return found

    def behind(
        self, found: Set[str], arrived: Mapping[str, Collection[str]], *, surely: bool = False
    ) -> set[str]:
        """Return the nodes to which some nodes lead, one step further than these."""
        more = {end for node in found for end in self.edges.get(node, ())}
        if not surely:
            more |= {end for node in found for end in self.branches.get(node, ())}
            if found & self.anywhere:
                more |= self.nodes.keys()
        more |= {
            node
            for name, members in self.joins.items()
            if (node := named_node(name)) is not None
            and members & found
            and members <= found | set(arrived.get(name, ()))
        }
        return more & self.nodes.keys()

    @property
    def meant(self) -> frozenset[str]:
        """The nodes that a new run may reach; to others nothing leads any more."""
        return frozenset(self.reached_from([START], {}))

    @property
    def joins(self) -> Mapping[str, frozenset[str]]:
        """The members of each join, by its channel."""
        return {name: one.members for name, one in self.channels.items() if one.members}


class GraphClass(NamedTuple):
    """What stored objects of a class need."""

    kind: str
    """`enum`, `dataclass`, `pydantic` or `class`."""
    fields: frozenset[str] | None
    """None if it takes any."""
    required: frozenset[str]
    values: tuple[Any, ...]
    """Of an enum."""


class GraphFile(NamedTuple):
    """The graphs of one application."""

    graphs: Mapping[str, int]
    parts: tuple[Graph, ...]
    schemas: Mapping[str, Any]
    classes: Mapping[str, GraphClass]
    """By `module.Class`."""
    fingerprints: Mapping[str, str]
    """What tells each graph from its other versions, by its name."""


def read_graphs(data: bytes, name: str) -> GraphFile:
    """Return what a probe printed; `name` is for errors. Raises `UsageError` for anything else."""
    if len(data) > LARGEST:
        raise UsageError(f"'{name}' is longer than {LARGEST >> 20} MiB")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get(_MARK) != FORMAT:
        hint = "`ckpt compat --probe > probe.py`, then `python probe.py app:graph > graph.json`"
        raise UsageError(f"'{name}' is not what the probe prints", hint=hint)
    parts = tuple(_graph(one) for one in _list(found.get("parts")))
    graphs = {
        str(graph): number
        for graph, number in _map(found.get("graphs")).items()
        if type(number) is int and 0 <= number < len(parts)
    }
    if not graphs:
        raise UsageError(f"'{name}' describes no graph")
    classes = {str(key): _class(one) for key, one in _map(found.get("classes")).items()}
    marks = {
        str(graph): mark
        for graph, mark in _map(found.get("fingerprints")).items()
        if isinstance(mark, str)
    }
    return GraphFile(graphs, parts, _map(found.get("schemas")), classes, marks)


def _graph(told: object) -> Graph:
    fields = _map(told)
    return Graph(
        _text(fields.get("name")),
        fields.get("kind") == "functional",
        {str(name): _node(one) for name, one in _map(fields.get("nodes")).items()},
        {str(name): _channel(one) for name, one in _map(fields.get("channels")).items()},
        {str(name): _names(ends) for name, ends in _map(fields.get("edges")).items()},
        {str(name): _names(ends) for name, ends in _map(fields.get("branches")).items()},
        _names(fields.get("anywhere")),
    )


def _node(told: object) -> GraphNode:
    fields = _map(told)
    inner = [_map(one) for one in _list(fields.get("subgraphs"))]
    tools = fields.get("tools")
    gates = fields.get("interrupt_on")
    return GraphNode(
        tuple(sorted(_names(fields.get("triggers")))),
        fields.get("defer") is True,
        tuple((_number(one.get("part")), _text(one.get("checkpointer"))) for one in inner),
        _text(fields.get("code")),
        tuple(_list(fields.get("asks"))),
        fields.get("asks_all", True) is True,
        tuple(one for one in _list(fields.get("calls")) if isinstance(one, str)),
        fields.get("calls_all", True) is True,
        None
        if not isinstance(tools, dict)
        else {str(name): _names(_map(one).get("args")) for name, one in tools.items()},
        {
            str(name): _names(one["agents"])
            for name, one in _map(tools).items()
            if isinstance(one, dict) and "agents" in one
        },
        None if not isinstance(gates, list) else _names(gates),
        _map(fields.get("input")),
    )


def _channel(told: object) -> GraphChannel:
    fields = _map(told)
    return GraphChannel(
        _text(fields.get("kind")),
        _text(fields.get("container")),
        _text(fields.get("schema")),
        _names(fields.get("members")),
        _text(fields.get("type")),
        _names(fields.get("classes")),
    )


def _class(told: object) -> GraphClass:
    fields = _map(told)
    return GraphClass(
        _text(fields.get("kind")),
        _names(fields["fields"]) if isinstance(fields.get("fields"), list) else None,
        _names(fields.get("required")),
        tuple(_list(fields.get("values"))),
    )


def _map(told: object) -> Mapping[str, Any]:
    return told if isinstance(told, dict) else {}


def _list(told: object) -> list[Any]:
    return told if isinstance(told, list) else []


def _names(told: object) -> frozenset[str]:
    return frozenset(one for one in _list(told) if isinstance(one, str))


def _text(told: object) -> str:
    return told if isinstance(told, str) else ""


def _number(told: object) -> int:
    return told if type(told) is int else -1


# What is stored of a thread, one namespace after the other.


class StoredHead(NamedTuple):
    """The head of one namespace of a thread."""

    nodes: tuple[str, ...]
    """The nodes that called it, outermost first; empty for the root."""
    key: CheckpointKey
    body: Body
    metadata: Mapping[str, Value]
    step: Step
    number: int
    """The step of its checkpoint."""
    calls: Mapping[str, str]
    """The subgraph calls from it: task id to node."""
    stateful: frozenset[str]
    """Nodes whose subgraphs keep their state over calls."""
    inner: Callable[[str], StoredHead | None]
    """Returns the head of a namespace below it."""
    deltas: frozenset[str]
    """The keys that were DeltaChannels."""
    rebuilt: Callable[[str], Value]
    """Returns the value of such a key, from the writes of earlier checkpoints."""

    is_redacted: bool
    """Whether nothing from a value may be told."""

    def stored(self, name: str) -> str:
        """Return a name that is part of a value, or what replaces it."""
        return redact_text(name) if self.is_redacted else name

    def place(self, name: str) -> str:
        """Return a node or channel with what is around it."""
        return " > ".join((*self.nodes, name))


def simulated(graph: Graph, body: Body) -> dict[str, tuple[str, ...]]:
    """Return the nodes of a graph that run next by their triggers, as LangGraph computes it."""
    found: dict[str, tuple[str, ...]] = {}
    for name, node in graph.nodes.items():
        fired = tuple(
            one
            for one in node.triggers
            if one in body.values
            and one in graph.channels
            and _is_available(graph.channels[one], body.values[one])
            and is_new(body, one, name)
            and (not body.updated or one in body.updated)
        )
        if fired:
            found[name] = fired
    return found


def deferred_pair(value: Value) -> tuple[Value, bool] | None:
    """Return the value of a deferred channel and whether it is finished; None for other values."""
    items = items_of(value)
    if items is not None and len(items) == 2 and isinstance(items[1], bool):
        return items[0], items[1]
    return None


def join_members(value: Value) -> frozenset[str]:
    """Return the names that arrived at a join."""
    pair = deferred_pair(value)
    value = value if pair is None else pair[0]
    if isinstance(value, Tagged) and value.type in {"builtins.set", "builtins.frozenset"}:
        value = value.payload
    return frozenset(one for one in items_of(value) or () if isinstance(one, str))


def _is_available(channel: GraphChannel, value: Value) -> bool:
    if channel.kind.startswith("NamedBarrier"):
        pair = deferred_pair(value)
        is_finished = pair is None or pair[1]
        return is_finished and channel.members <= join_members(value)
    if channel.kind == "LastValueAfterFinish":
        pair = deferred_pair(value)
        return pair is not None and pair[1]
    return True


# The judgement.


class Judging(NamedTuple):
    """A graph and, if it is known, the one that wrote the thread."""

    file: GraphFile
    graph: Graph
    old_file: GraphFile | None = None
    old: Graph | None = None

    def inside(self, node: str) -> Judging | None:
        """Return the same for the subgraph of a node; None unless the new graph shows one."""
        inner = self.graph.nodes[node].subgraphs if node in self.graph.nodes else ()
        if len(inner) != 1 or not 0 <= inner[0][0] < len(self.file.parts):
            return None
        old: Graph | None = None
        if self.old is not None and self.old_file is not None and node in self.old.nodes:
            before = self.old.nodes[node].subgraphs
            if len(before) == 1 and 0 <= before[0][0] < len(self.old_file.parts):
                old = self.old_file.parts[before[0][0]]
        return self._replace(graph=self.file.parts[inner[0][0]], old=old)

    def schema(self, key: object) -> Any:
        """Return a JSON Schema of the new graph."""
        return self.file.schemas.get(_text(key))

    def is_same_schema(self, key: object) -> bool:
        """Return whether a JSON Schema is that of the old graph, too."""
        return self.old_file is not None and self.old_file.schemas.get(_text(key)) == self.schema(
            key
        )


_KEEP_NODE = (
    "keep the node under its old name until these threads are done, or migrate them with"
    " --rename-node"
)
_KEEP_EDGE = "keep the edge until these threads are done"
_KEEP_KEY = "keep the key until these threads are done, or migrate them with --rename-channel"
_TRY = "resume a copy of one of these threads in a test"


def findings_of(level: StoredHead, judging: Judging) -> list[Incompatibility]:
    """Return what differs when a thread goes on in the new graph; only its state if it is done."""
    if level.body.is_javascript:
        text = "LangGraph.js wrote the thread, whose graphs compute their tasks in another way"
        return [_foreign(level, "javascript", text)]
    if level.step.next != ():
        if level.body.v in _FORMATS_OF_NODES:
            text = "a release before 0.3.15 wrote it, which named the channels of edges otherwise"
            return [_foreign(level, "old-format", text), *state_of(level, judging)]
        return judge(level, judging)
    return [
        *(one for one in deferral_of(level, judging) if one.verdict is CompatVerdict.BREAKS),
        *state_of(level, judging),
    ]


_FORMATS_OF_NODES = {1, 2}
"""Formats of bodies whose edges have other channels, which `_migrate_checkpoint` in
`langgraph/graph/state.py` renames."""


def _foreign(level: StoredHead, code: str, reason: str) -> Incompatibility:
    return Incompatibility(CompatVerdict.CANNOT_TELL, code, level.place("?"), reason, _TRY)


def judge(level: StoredHead, judging: Judging) -> list[Incompatibility]:
    """Return what differs when a thread with this head is resumed in the new graph."""
    found = [*deferral_of(level, judging), *_tasks(level, judging), *_new_tasks(level, judging)]
    found += _joins(level, judging)
    found += _gone_triggers(level, judging)
    found += _routes(level, judging)
    found += state_of(level, judging)
    found += _memory(level, judging)
    found += _tools(level, judging.graph)
    return found


def deferral_of(level: StoredHead, judging: Judging) -> Iterator[Incompatibility]:
    """Yield channels whose stored value has the form of the other kind of node.

    LangGraph reads those of deferred nodes when it loads a checkpoint, so that this raises for a
    thread that is done, too.
    """
    leave = "leave defer as it was until these threads are done, or migrate them"
    for name, value in level.body.values.items():
        if not name.startswith(("branch:to:", "join:")) or name not in judging.graph.channels:
            continue
        channel, node = judging.graph.channels[name], named_node(name) or name
        is_deferred, place = channel.kind.endswith("AfterFinish"), level.place(node)
        is_over = not channel.members and _is_taken(level, name)
        if is_deferred and deferred_pair(value) is None:
            text = (
                "the node is deferred now, and what is stored for it has the form of one that is"
                " not: LangGraph raises when it loads this"
            )
            yield Incompatibility(CompatVerdict.BREAKS, "deferred", place, text, leave)
        elif not is_deferred and not is_over and deferred_pair(value) is not None:
            yield from _undeferred(level, judging.graph, node, channel.members)


def _undeferred(
    level: StoredHead, graph: Graph, node: str, members: Set[str]
) -> Iterator[Incompatibility]:
    """Yield what becomes of the stored turn of a node, or of a join to it, that was deferred."""
    text = (
        "the node is not deferred any more, and what is stored for it has the form of one that is"
    )
    place = level.place(node)
    leave = "leave defer as it was until these threads are done, or migrate them"
    if not members:
        # The value triggers nothing, and an arrival from elsewhere replaces it.
        others = graph.reached_from(_starts(level, graph) - {node}, _arrived(level, graph))
        verdict = CompatVerdict.CANNOT_TELL if node in others else CompatVerdict.LOSES
        yield Incompatibility(verdict, "undeferred", place, f"{text}: its turn is dropped", leave)
    elif members & _ahead(level, graph):
        is_sure = members & _ahead(level, graph, surely=True)
        verdict = CompatVerdict.BREAKS if is_sure else CompatVerdict.CANNOT_TELL
        text = f"{text}: the next arrival raises"
        yield Incompatibility(verdict, "undeferred", place, text, leave)


def _tasks(level: StoredHead, judging: Judging) -> Iterator[Incompatibility]:
    """Yield what becomes of each planned task."""
    planned = simulated(judging.graph, level.body)
    for task in level.step.tasks:
        name = task.node
        if name is None:
            yield _unknown(level, "?", "which node a task belongs to cannot be told")
        elif judging.graph.is_functional and name not in judging.graph.nodes:
            yield Incompatibility(
                *(CompatVerdict.REPEATS, "entrypoint-gone", level.place(name)),
                "the entrypoint has another name: it begins again, with all of its @task calls",
                "keep the name of the entrypoint, or migrate the threads with --rename-node",
            )
        elif name not in judging.graph.nodes:
            yield from _gone(level, task, name)
        elif sent_index(task.path) is None and name not in planned:
            yield Incompatibility(
                *(CompatVerdict.LOSES, "not-triggered", level.place(name)),
                "nothing that is stored triggers the node in the new graph, so it does not run"
                f"{_with(task)}",
                _KEEP_EDGE,
            )
        else:
            yield from _same_task(level, judging, task, name)
    if level.step.next is None:
        yield _unknown(level, "?", "what runs next cannot be told from what is stored")


def _with(task: Task) -> str:
    """Return what is lost with a task."""
    if task.finished:
        return ", and what it wrote is dropped"
    return ", and the answer to its question is dropped" if task.questions else ""


def _gone(level: StoredHead, task: Task, name: str) -> Iterator[Incompatibility]:
    yield Incompatibility(
        *(CompatVerdict.LOSES, "node-gone", level.place(name)),
        f"the new graph has no node of this name, so the task does not run{_with(task)}",
        _KEEP_NODE,
    )


def _same_task(
    level: StoredHead, judging: Judging, task: Task, name: str
) -> Iterator[Incompatibility]:
    """Yield what is filed under another id, and what is inside of the task."""
    node = judging.graph.nodes[name]
    is_filed = task.id is None or sent_index(task.path) is not None or is_call(task.path)
    if not is_filed and task.id not in _ids(level, name, node):
        yield from _refiled(level, task, name)
        return
    yield from _subgraph(level, judging, task, name)
    yield from _code(level, judging, task, name)
    yield from _gates(level, task, node)


def _ids(level: StoredHead, name: str, node: GraphNode) -> set[str]:
    origin = origin_at(level.key, level.body, level.number + 1)
    return set() if origin is None else set(pull_ids(origin, name, [node.triggers]))


def _refiled(level: StoredHead, task: Task, name: str) -> Iterator[Incompatibility]:
    """Yield what a task loses whose id has changed with the edges that lead to its node."""
    place = level.place(name)
    why = "other edges lead to the node now, so its task has another id:"
    keep = "keep the edges that lead to the node until these threads are done, or migrate them"
    if task.finished:
        text = f"{why} what it wrote is dropped, and it runs again"
        yield Incompatibility(CompatVerdict.CHANGES, "task-id", place, text, keep)
    elif any(one.channel == RESUME for one in task.writes):
        text = f"{why} the answers that it got are dropped, and its questions are asked again"
        yield Incompatibility(CompatVerdict.REPEATS, "task-id", place, text, keep)
    elif task.questions:
        text = f"{why} an answer by the id of the question is not taken; a plain resume works"
        yield Incompatibility(CompatVerdict.CANNOT_TELL, "interrupt-id", place, text, keep)
    if task.id in level.calls:
        text = f"{why} its subgraph begins again"
        yield Incompatibility(CompatVerdict.REPEATS, "subgraph-restarts", place, text, keep)


def _new_tasks(level: StoredHead, judging: Judging) -> Iterator[Incompatibility]:
    """Yield nodes that run next although no task was planned for them."""
    planned = {task.node for task in level.step.tasks}
    for name in simulated(judging.graph, level.body):
        if judging.graph.is_functional or level.step.next is None:
            return
        if name not in planned:
            yield Incompatibility(
                *(CompatVerdict.CHANGES, "runs-now", level.place(name)),
                "the new graph runs the node next, which the old one did not",
                "check that it may run there",
            )


def _written(level: StoredHead) -> dict[str, set[str]]:
    """Return the nodes that finished, by the channels that they wrote to."""
    found: dict[str, set[str]] = {}
    for task in level.step.tasks:
        for one in task.writes if task.finished and task.node else ():
            found.setdefault(one.channel, set()).add(task.node or "")
    return found


def _arrived(level: StoredHead, graph: Graph) -> dict[str, frozenset[str]]:
    """Return the members that each join of a graph has, with those of finished tasks.

    A join that triggers a task of this step has none: it begins anew.
    """
    written = _written(level)
    stored = {name: join_members(level.body.values.get(name)) for name in graph.joins}
    return {
        name: (frozenset() if _is_taken(level, name) and members <= stored[name] else stored[name])
        | written.get(name, set())
        for name, members in graph.joins.items()
    }


def _is_taken(level: StoredHead, channel: str) -> bool:
    """Return whether a task of this step is of the node that a channel triggers."""
    return named_node(channel) in {task.node for task in level.step.tasks}


def _triggered(level: StoredHead, graph: Graph) -> set[str]:
    """Return the nodes that run after this step, whatever waits."""
    arrived = _arrived(level, graph)
    channels = {one for one in _written(level) if one.startswith("branch:to:")}
    channels |= {one for one in _put_off(level) if one.startswith("branch:to:")}
    channels |= {name for name, members in graph.joins.items() if members <= arrived[name]}
    return {node for one in channels if (node := named_node(one)) is not None}


def _put_off(level: StoredHead) -> Iterator[str]:
    """Yield channels of deferred nodes, or of joins to them, that wait for all others."""
    for name, value in level.body.values.items():
        if deferred_pair(value) is not None and not _is_taken(level, name):
            yield name


def _ahead(
    level: StoredHead, graph: Graph, *, surely: bool = False, among: Collection[str] | None = None
) -> set[str]:
    """Return the nodes that may still run: those of tasks that wait, and what follows all.

    With `among`, only from tasks of these nodes.
    """
    return graph.reached_from(_starts(level, graph, among), _arrived(level, graph), surely=surely)


def _starts(level: StoredHead, graph: Graph, among: Collection[str] | None = None) -> set[str]:
    """Return the nodes of tasks that wait, of `among` if given, and those that run after them."""
    waiting = {
        task.node
        for task in level.step.tasks
        if task.node and not task.finished and (among is None or task.node in among)
    }
    return waiting | _triggered(level, graph)


def _behind(
    level: StoredHead, graph: Graph, *, surely: bool = False, among: Collection[str] | None = None
) -> set[str]:
    """Return the nodes that may run after this step, as `_ahead` does."""
    ahead = _ahead(level, graph, surely=surely, among=among)
    found = graph.behind(ahead, _arrived(level, graph), surely=surely)
    return found | (_triggered(level, graph) & graph.nodes.keys())


def _has_run(level: StoredHead, node: str) -> bool:
    """Return whether a node has run since the last input."""
    if any(task.node == node and task.finished for task in level.step.tasks):
        return True
    began, seen = level.body.versions.get(START), level.body.seen.get(node)
    if began is None or not seen:
        return False
    return version_number(began) <= max(map(version_number, seen.values()))


def needed(level: StoredHead, graph: Graph) -> frozenset[str]:
    """Return the nodes that a thread may still run, with those of its tasks."""
    planned = {task.node for task in level.step.tasks if task.node}
    return frozenset(planned | _ahead(level, graph))


_KEEP_JOIN = (
    "keep the join with its members, in their order, until these threads are done; `migrate` finds"
    " another order"
)


def _joins(level: StoredHead, judging: Judging) -> Iterator[Incompatibility]:
    """Yield joins that can get some of their members, but not all, and joins that are gone."""
    graph, arrived = judging.graph, _arrived(level, judging.graph)
    ahead, behind = _ahead(level, graph), _behind(level, graph)
    surely = _ahead(level, graph, surely=True)
    planned = {task.node for task in level.step.tasks}
    for name, members in graph.joins.items():
        node, has = named_node(name) or name, arrived[name]
        coming = members & ahead
        if not (has or coming) or _was_stuck(level, judging, name):
            continue
        if not members <= graph.meant:  # it does not fire in a new run either
            continue
        is_stuck = not members <= has | coming
        if not is_stuck and (_is_known(judging, name) or members <= has | surely):
            continue
        gone = members - has - (coming if is_stuck else surely)
        if not is_stuck and not any(_has_run(level, one) for one in gone):
            continue
        missing = ", ".join(sorted(gone))
        is_over = node in planned or _has_run(level, node)
        is_once_less = _had_join(level, judging, node)
        is_lost = is_once_less or (is_stuck and node not in behind and not is_over)
        yield Incompatibility(
            *(CompatVerdict.LOSES if is_lost else CompatVerdict.CANNOT_TELL, "join-stuck"),
            level.place(node),
            f"the node waits for {missing}, which has run already and does not run again",
            _KEEP_JOIN,
        )
    yield from _gone_joins(level, judging, surely, behind)


def _had_join(level: StoredHead, judging: Judging, node: str) -> bool:
    """Return whether a join to a node that is gone had got some members, and would get all."""
    if (old := judging.old) is None:
        return False
    arrived, surely = _arrived(level, old), _ahead(level, old, surely=True)
    return any(
        arrived[name] and members <= arrived[name] | surely
        for name, members in old.joins.items()
        if named_node(name) == node and name not in judging.graph.channels
    )


def _gone_joins(
    level: StoredHead, judging: Judging, surely: Set[str], behind: Set[str]
) -> Iterator[Incompatibility]:
    """Yield joins that the new graph has not, with what had arrived."""
    graph, written = judging.graph, _written(level)
    for name in sorted({*level.body.values, *written} - graph.channels.keys()):
        node = named_node(name) or name
        has_any = bool(join_members(level.body.values.get(name))) or name in written
        is_full = _is_taken(level, name) and name not in written
        if not name.startswith("join:") or not has_any or is_full:
            continue
        if _could_not_fire(level, judging, name):
            continue
        verdict: CompatVerdict | None = CompatVerdict.LOSES
        text = "what arrived at the join is dropped, and no other edge leads to the node"
        if node not in graph.nodes:
            verdict = _of_gone(judging, node)
            text = "what arrived at the join is dropped, since its node is gone"
        elif node not in graph.meant:
            verdict = CompatVerdict.CANNOT_TELL
        elif node in behind:
            leads = any(node in graph.edges.get(one, ()) for one in surely)
            verdict = None if leads else CompatVerdict.CANNOT_TELL
        if verdict is not None:
            yield Incompatibility(verdict, "join-gone", level.place(node), text, _KEEP_JOIN)


def _leads(graph: Graph, starts: Iterable[str], node: str) -> bool:
    """Return whether one of some nodes leads to a node without a join."""
    return any(
        node in graph.edges.get(one, ()) or node in graph.branches.get(one, ()) for one in starts
    )


def _gone_triggers(level: StoredHead, judging: Judging) -> Iterator[Incompatibility]:
    """Yield nodes that are gone, to which finished tasks lead, or that are deferred."""
    written = _written(level)
    waiting = {task.node for task in level.step.tasks if task.node and not task.finished}
    for channel in sorted({*written, *_put_off(level)}):
        node = named_node(channel) if channel.startswith("branch:to:") else None
        if node is None or node in judging.graph.nodes or _is_taken(level, channel):
            continue
        if judging.old is not None and any(
            node in judging.old.edges.get(one, ()) for one in waiting
        ):
            continue  # what waits leads to it at the same time
        verdict = _of_gone(judging, node)
        if verdict is None:
            verdict = None if channel in written else CompatVerdict.CANNOT_TELL
        elif judging.old is not None and _leads(judging.old, waiting, node):
            verdict = CompatVerdict.CANNOT_TELL  # what waits may lead to it at the same time
        if verdict is not None:
            yield Incompatibility(
                *(verdict, "node-gone", level.place(node)),
                "the new graph has no node of this name, and it was to run next",
                _KEEP_NODE,
            )


def _of_gone(judging: Judging, node: str) -> CompatVerdict | None:
    """Return what it means that a node is gone to which a thread leads: None if it was left out.

    If a new one has its code or its place, it has another name.
    """
    old, graph = judging.old, judging.graph
    if old is None or node not in old.nodes:
        return CompatVerdict.LOSES
    added = graph.nodes.keys() - old.nodes.keys()
    if any(graph.nodes[one].code == old.nodes[node].code for one in added):
        return CompatVerdict.LOSES
    places = [one for one in old.nodes if _leads(old, [one], node)]
    joins = [members for name, members in old.joins.items() if named_node(name) == node]
    if any(_leads(graph, places, one) for one in added) or any(
        named_node(name) in added and members in joins for name, members in graph.joins.items()
    ):
        return CompatVerdict.LOSES
    return CompatVerdict.CANNOT_TELL if added & graph.meant else None


def _is_known(judging: Judging, channel: str) -> bool:
    """Return whether nothing is known of the old graph, or it has a channel, too."""
    return judging.old is None or channel in judging.old.channels


def _was_stuck(level: StoredHead, judging: Judging, name: str) -> bool:
    """Return whether no join of the old graph to the same node got all of its members either."""
    old, node = judging.old, named_node(name)
    if old is None:
        return False
    before = [one for one in old.joins if named_node(one) == node]
    if node in _ahead(level, old):  # an edge led to it
        before = [one for one in before if one == name]
    return bool(before) and all(_could_not_fire(level, judging, one) for one in before)


def _could_not_fire(level: StoredHead, judging: Judging, name: str) -> bool:
    """Return whether a join of the old graph did not get all of its members there either."""
    old = judging.old
    if old is None or name not in old.joins:
        return False
    return not old.joins[name] <= _arrived(level, old)[name] | _ahead(level, old)


def _routes(level: StoredHead, judging: Judging) -> Iterator[Incompatibility]:
    """Yield nodes to which the thread may have gone, and cannot any more."""
    old, graph = judging.old, judging.graph
    if old is None:
        return
    waiting = {task.node for task in level.step.tasks if task.node}
    # What follows a node that is gone is told with that node.
    sure = _behind(level, old, surely=True, among=graph.nodes)
    possible = _behind(level, old, among=graph.nodes)
    passed = [START, *(one for one in graph.nodes if _has_run(level, one))]
    again = graph.reached_from(passed, {}, surely=True)
    # A node to which nothing leads any more was left out on purpose.
    for name in sorted((possible & graph.meant) - _behind(level, graph) - {START, END}):
        is_over = name in waiting or _has_run(level, name)
        is_lost = name in sure and name in again and not is_over
        yield Incompatibility(
            *(CompatVerdict.LOSES if is_lost else CompatVerdict.CANNOT_TELL, "route"),
            level.place(name),
            "the node could follow in the old graph, and cannot in the new one",
            _KEEP_EDGE,
        )
    yield from _skipped(level, graph, old, _ahead(level, graph) | waiting)


_WITH_DEFAULT = {"BinaryOperatorAggregate", "DeltaChannel", "Topic"}


def _skipped(
    level: StoredHead, graph: Graph, old: Graph, ahead: Collection[str]
) -> Iterator[Incompatibility]:
    """Yield new nodes that the thread has passed already, if new keys may be theirs to write."""
    keys = [
        name
        for name, channel in graph.channels.items()
        if name not in old.channels
        and name not in level.body.versions
        and not is_reserved(name)
        and not name.startswith(("branch:", "join:"))
        and channel.kind not in _WITH_DEFAULT
    ]
    # Only other code can read what was not there.
    reads = any(
        name not in old.nodes or old.nodes[name].code != graph.nodes[name].code
        for name in ahead
        if name in graph.nodes
    )
    for name in (
        sorted(graph.nodes.keys() - old.nodes.keys() - set(ahead)) if keys and reads else ()
    ):
        if graph.reached_from([name], {}) & set(ahead):
            yield Incompatibility(
                *(CompatVerdict.CANNOT_TELL, "skipped", level.place(name)),
                f"the node is new, the thread has passed its place, and {', '.join(keys)} may be"
                " missing then",
                "give the key a default where it is read",
            )


def _memory(level: StoredHead, judging: Judging) -> Iterator[Incompatibility]:
    """Yield subgraphs that kept their state over calls, and do not any more."""
    for name in sorted(level.stateful):
        node = judging.graph.nodes.get(name)
        if node is None or not any(scope == "thread" for _, scope in node.subgraphs):
            yield Incompatibility(
                *(CompatVerdict.LOSES, "memory-gone", level.place(name)),
                "its subgraph remembers what it did, and nothing reads that in the new graph",
                "keep the node with checkpointer=True",
            )


def _subgraph(
    level: StoredHead, judging: Judging, task: Task, name: str
) -> Iterator[Incompatibility]:
    """Yield what differs inside of the subgraph that a task called, as far as it is not done."""
    if task.finished:
        return
    node, ns = judging.graph.nodes[name], level.key.checkpoint_ns
    called = namespace_in(ns, name, task.id) if task.id in level.calls else None
    stored = called or (namespace_in(ns, name) if name in level.stateful else None)
    if stored is None:
        return
    place = level.place(name)
    if not node.subgraphs:
        verdict = CompatVerdict.CANNOT_TELL
        if judging.old is not None and name in judging.old.nodes:
            verdict = CompatVerdict.LOSES if judging.old.nodes[name].subgraphs else verdict
        yield Incompatibility(
            *(verdict, "subgraph-unseen", place),
            "the node called a subgraph, and the new graph shows none in it",
            _TRY,
        )
        return
    expected = "calls" if called else "thread"
    if any(scope != expected for _, scope in node.subgraphs):
        yield Incompatibility(
            *(CompatVerdict.REPEATS, "subgraph-restarts", place),
            "its subgraph is checkpointed in another way, so it begins again",
            "keep the checkpointer of the subgraph until these threads are done",
        )
        return
    inside, head = judging.inside(name), level.inner(stored)
    if inside is None or head is None:
        yield _unknown(level, name, "it has several subgraphs, or their state is not stored")
        return
    yield from judge(head, inside)


def _code(level: StoredHead, judging: Judging, task: Task, name: str) -> Iterator[Incompatibility]:
    """Yield what other code of a node that waits does with its questions and calls."""
    old = None if judging.old is None else judging.old.nodes.get(name)
    node = judging.graph.nodes[name]
    if task.finished:
        return
    yield from _calls(level, node, old, task, name)
    if old is not None and old.code == node.code:
        return
    answers = sum(1 for one in task.writes if one.channel == RESUME)
    asked = [one for one in task.questions if len(one.path) <= 1]
    if (asked or answers) and node.gates is None:
        yield from _questions(level, node, old, name, [one.value for one in asked], answers)
    is_told = asked or answers or node.tools or (node.calls and node.calls_all)
    if old is not None and not is_told:
        yield _unknown(level, name, "its code differs")


def _calls(
    level: StoredHead, node: GraphNode, old: GraphNode | None, task: Task, name: str
) -> Iterator[Incompatibility]:
    """Yield calls of `@task` functions whose results are not found again.

    LangGraph files a result by the function's name and the number of the call in its caller.
    """
    origin = origin_at(level.key, level.body, level.number + 1)
    if origin is None or task.id is None:
        return
    caller = caller_of(origin, name, task.id, task.path)
    is_same = old is not None and old.code == node.code and old.calls == node.calls
    for one in level.step.others:
        place = call_of(one.path)
        has_more = one.finished or any(each.channel == RESUME for each in one.writes)
        if place is None or place[0] != task.path or not has_more:
            continue
        known = dict.fromkeys((*node.calls, *(old.calls if old is not None else ())))
        ids = {found: each for each in known for found in call_ids(origin, each, caller, place[1])}
        called = ids.get(one.id or "")
        if node.calls_all and place[1] >= len(node.calls):
            continue  # nothing asks for it any more
        if node.calls_all or (called is not None and called not in node.calls):
            wanted = node.calls[place[1]] if node.calls_all else "another one"
            if wanted != called:
                yield Incompatibility(
                    *(CompatVerdict.REPEATS, "task-call", level.place(name)),
                    f"its call {place[1] + 1} of a @task has returned"
                    f"{f' as {called}' if called else ''}, and is now {wanted}: LangGraph drops"
                    " the result and runs it again",
                    "keep the names and the order of the @task calls until these threads are done,"
                    " or migrate them with --rename-node",
                )
        elif not is_same and (old is not None or called is None):
            yield _unknown(
                *(level, name),
                "which @task it calls next cannot be told from its code, and their results are"
                " filed by their order",
            )


def _questions(
    level: StoredHead,
    node: GraphNode,
    old: GraphNode | None,
    name: str,
    asked: Sequence[Value],
    answers: int,
) -> Iterator[Incompatibility]:
    """Yield questions that are asked in another order, or not at all."""
    place = level.place(name)
    before = max(answers, 0)
    is_seen = old is None or (old.asks_all and before < len(old.asks))
    if is_seen and node.asks_all and before >= len(node.asks):
        yield Incompatibility(
            *(CompatVerdict.LOSES, "question-gone", place),
            "the node does not ask so many questions any more, so the answer is dropped",
            "keep the question until these threads are done",
        )
        return
    stored = asked[0] if asked else None
    if not node.asks_all or before >= len(node.asks):
        yield _unknown(level, name, "which question it asks next cannot be told from its code")
        return
    wanted = node.asks[before]
    if wanted is None or not isinstance(stored, str | int | float | list | dict):
        yield _unknown(level, name, "which question it asks next cannot be told from its code")
    elif wanted != stored:
        if stored in node.asks:
            yield Incompatibility(
                *(CompatVerdict.CHANGES, "question-order", place),
                "its questions are asked in another order, so the answer goes to another one",
                "keep the order of questions",
            )
        else:
            yield Incompatibility(
                *(CompatVerdict.CANNOT_TELL, "question-text", place),
                "the text of its question differs, and with it perhaps what an answer means",
                "compare the two questions",
            )


def _gates(level: StoredHead, task: Task, node: GraphNode) -> Iterator[Incompatibility]:
    """Yield calls that wait for a person before whom the new graph does not ask."""
    for one in task.questions if node.gates is not None and not task.finished else ():
        for name in _requested(one.value) - (node.gates or frozenset()):
            yield Incompatibility(
                *(CompatVerdict.CHANGES, "gate-gone", level.place(level.stored(name))),
                "the call waits for a person, and the new graph does not ask before this tool:"
                " it runs whatever the answer is",
                "keep the tool in interrupt_on until these threads are done",
            )


def _tools(level: StoredHead, graph: Graph) -> Iterator[Incompatibility]:
    """Yield open tool calls that no node ahead can run in the new graph."""
    ahead = needed(level, graph) & graph.nodes.keys()
    known = [graph.nodes[one].tools for one in sorted(ahead)]
    tools = {name: given for one in known if one is not None for name, given in one.items()}
    agents = {name: some for one in sorted(ahead) for name, some in graph.nodes[one].agents.items()}
    keep = "keep it until these threads are done"
    if not tools and not any(one is not None for one in known):
        return
    for name, given in _open_calls(level.body.values.get("messages")):
        place = level.place(level.stored(name))
        if name not in tools:
            text = "the new graph has no tool of this name: the call gets an error for an answer"
            yield Incompatibility(CompatVerdict.LOSES, "tool-gone", place, text, keep)
        elif more := ", ".join(map(level.stored, sorted(map(str, given.keys() - tools[name])))):
            text = f"the tool takes no {more} any more: the call gets an error for an answer"
            yield Incompatibility(CompatVerdict.LOSES, "tool-args", place, text, keep)
        elif (agent := given.get(_AGENT)) is not None and agent not in agents.get(name, [agent]):
            place = level.place(level.stored(str(agent)))
            text = "the new graph has no agent of this name: the call gets an error"
            yield Incompatibility(CompatVerdict.LOSES, "agent-gone", place, text, keep)


def _requested(value: Value) -> set[str]:
    """Return the tools that a question of LangChain's middleware is about."""
    fields = value.payload if isinstance(value, Tagged) else value
    asked = fields.get("action_requests") if isinstance(fields, dict) else None
    found = (one.get("name") for one in items_of(asked) or () if isinstance(one, dict))
    return {one for one in found if isinstance(one, str)}


_AGENT = "subagent_type"
"""The argument in which the tool `task` of Deep Agents gets the name of an agent."""


def _open_calls(messages: Value) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield the names and arguments of tool calls without a result, of the newest message that has
    calls.
    """
    said = [_fields(one) for one in items_of(messages) or ()]
    answered = {one.get("tool_call_id") for one in said if one.get("type") == "tool"}
    for one in reversed(said):
        calls = items_of(one.get("tool_calls")) or []
        for call in calls:
            if isinstance(call, dict) and call.get("id") not in answered:
                given = call.get("args")
                yield str(call.get("name")), given if isinstance(given, dict) else {}
        if calls:
            return


def _fields(value: Value) -> Mapping[Any, Any]:
    value = value.payload if isinstance(value, Tagged) else value
    return value if isinstance(value, dict) else {}


def _unknown(level: StoredHead, name: str, reason: str) -> Incompatibility:
    return Incompatibility(CompatVerdict.CANNOT_TELL, "code", level.place(name), reason, _TRY)


# The state: what is stored in channels that the new graph has not, or has in another way.

_CONTAINERS: Mapping[str, type] = {"list": list, "dict": dict, "str": str, "int": int}
_PLAIN_KINDS = {"LastValue", "AnyValue"}
"""Kinds of channels that hold what was written last, so that its type is the key's."""


def values_needed(judging: Judging) -> frozenset[str]:
    """Return the keys of the state whose values tell what the new graph makes of them.

    What is as in the old graph breaks nothing that was not broken before, so these are all keys
    with a type that tells something only if the old graph is not known.
    """
    channels = {
        name: channel
        for name, channel in judging.graph.channels.items()
        if not is_reserved(name) and not channel.kind.startswith(("Ephemeral", "NamedBarrier"))
    }
    if _changed_classes(judging):
        return frozenset(channels)
    before = {} if judging.old is None else judging.old.channels
    found = {
        name
        for name, channel in channels.items()
        if channel.container in _CONTAINERS
        or channel.classes
        or (channel.kind in _PLAIN_KINDS and channel.schema)
        if before.get(name) != channel or not judging.is_same_schema(channel.schema)
    }
    for node in judging.graph.nodes.values():
        if _is_checked(node) and not _was_checked(judging, node):
            found |= _map(_map(judging.schema(node.needs.get("schema"))).get("properties")).keys()
    return frozenset(found)


def _changed_classes(judging: Judging) -> bool:
    """Return whether stored objects may be of classes that are new or have other fields."""
    before = {} if judging.old_file is None else judging.old_file.classes
    return any(before.get(name) != one for name, one in judging.file.classes.items())


def _is_checked(node: GraphNode) -> bool:
    """Return whether the state of a node is made by a class, which checks it."""
    return node.needs.get("kind") in {"pydantic", "dataclass"}


def _was_checked(judging: Judging, node: GraphNode) -> bool:
    """Return whether a node of the old graph has the same state."""
    if judging.old is None or not judging.is_same_schema(node.needs.get("schema")):
        return False
    return any(one.needs == node.needs for one in judging.old.nodes.values())


def state_of(level: StoredHead, judging: Judging) -> Iterator[Incompatibility]:
    """Yield keys of the state that are dropped, or that the new graph cannot read, and nodes that
    cannot.

    Only `values_needed` are looked at; others may be missing.
    """
    wanted = values_needed(judging)
    written = {one.channel for task in level.step.tasks for one in task.writes if task.finished}
    for name in sorted({*level.body.values, *level.deltas, *written} - CONTROL):
        if is_reserved(name) or name in judging.graph.nodes:
            continue
        channel, place = judging.graph.channels.get(name), level.place(name)
        if channel is None:
            yield Incompatibility(
                *(CompatVerdict.LOSES, "key-gone", place),
                "the new state has no such key: the next checkpoint leaves its value out",
                _KEEP_KEY,
            )
        elif name in level.deltas:
            yield from _delta(level, name, channel, place, is_wanted=name in wanted)
        elif name in level.body.values and name in wanted:
            yield from _value(level.body.values[name], channel, place, judging)
    yield from _schemas(level, judging)
    yield from _objects_of(level, judging, wanted)


def _delta(
    level: StoredHead, name: str, channel: GraphChannel, place: str, *, is_wanted: bool
) -> Iterator[Incompatibility]:
    """Yield what becomes of a key whose value is rebuilt from writes: only keys with a reducer are.

    See `_delta_channels_to_replay` in `langgraph/pregel/_checkpoint.py`.
    """
    if channel.kind not in {"DeltaChannel", "BinaryOperatorAggregate"}:
        yield Incompatibility(
            *(CompatVerdict.LOSES, "delta-off", place),
            "its value is rebuilt from earlier writes, and the key has no reducer any more: it is"
            " empty",
            "keep the DeltaChannel until these threads are done",
        )
    elif is_wanted and (container := _CONTAINERS.get(channel.container)) is not None:
        value = level.rebuilt(name)
        if value is not None and not _is_a(value, container):
            yield from _other_container(channel, place)


def _schemas(level: StoredHead, judging: Judging) -> Iterator[Incompatibility]:
    """Yield nodes ahead whose state is a class that what is stored does not make.

    A thread that is done begins again, so all nodes are ahead of it.
    """
    graph, old = judging.graph, judging.old
    if not any(map(_is_checked, graph.nodes.values())):
        return
    ahead = needed(level, graph) if level.step.tasks else graph.reached_from([START], {})
    told: set[str] = set()
    for name in sorted(ahead & graph.nodes.keys()):
        node = graph.nodes[name]
        needs, was_checked = node.needs, _was_checked(judging, node)
        kind = _text(needs.get("name"))
        is_same = was_checked and old is not None and name in old.nodes
        if not _is_checked(node) or kind in told or is_same:
            continue
        told.add(kind)
        missing = [
            one
            for one in _list(needs.get("required"))
            if one not in level.body.values and not _has_default(graph.channels.get(str(one)))
        ]
        properties = _map(_map(judging.schema(needs.get("schema"))).get("properties"))
        misfits = [
            key
            for key, value in level.body.values.items()
            if key in properties and not was_checked
            if not _fits(value, properties[key], converts=True)
        ]
        if missing or misfits:
            lacks = f"lacks {', '.join(map(str, missing))}" if missing else ""
            has = f"does not fit in {', '.join(misfits)}" if misfits else ""
            yield Incompatibility(
                *(CompatVerdict.BREAKS, "required" if missing else "invalid", level.place(name)),
                f"its state is a {kind}, and what is stored {lacks or has}: LangGraph raises"
                " before the node runs",
                "give the key a default, keep its type, or migrate the threads with --default",
            )


def _has_default(channel: GraphChannel | None) -> bool:
    """Return whether a channel has a value before anything is written."""
    return channel is not None and channel.kind in _WITH_DEFAULT


def _value(
    value: Value, channel: GraphChannel, place: str, judging: Judging
) -> Iterator[Incompatibility]:
    container = _CONTAINERS.get(channel.container)
    if isinstance(value, Opaque | Cut):
        yield Incompatibility(
            *(CompatVerdict.CANNOT_TELL, "unread", place),
            "its type may have changed, and what is stored cannot be read here",
            "give the key of encrypted values, or keep the type until these threads are done",
        )
    elif container is not None and not _is_a(value, container):
        if value is not None or judging.old is not None:  # a reducer may be made for None
            yield from _other_container(channel, place)
    elif channel.kind in _PLAIN_KINDS and not _fits(value, judging.schema(channel.schema)):
        yield Incompatibility(
            *(CompatVerdict.CHANGES, "type", place),
            "what is stored does not fit the type that the key has now",
            "keep the type until these threads are done",
        )


def _other_container(channel: GraphChannel, place: str) -> Iterator[Incompatibility]:
    yield Incompatibility(
        *(CompatVerdict.BREAKS, "reducer", place),
        f"its reducer merges a {channel.container}, and what is stored is none",
        "keep the reducer until these threads are done",
    )


def _objects_of(
    level: StoredHead, judging: Judging, wanted: Collection[str]
) -> Iterator[Incompatibility]:
    """Yield keys with objects that the classes of the new graph do not make.

    LangGraph reads plain data in place of an object whose class or value is gone, or whose
    constructor fails; a pydantic model it makes without a check, and fields are missing.
    """
    keep = "keep the class as it was until these threads are done"
    for name, value in sorted(level.body.values.items()):
        channel = judging.graph.channels.get(name)
        if channel is None or name not in wanted:
            continue
        before = None if judging.old is None else judging.old.channels.get(name)
        place, told = level.place(name), set[str]()
        is_class = any(one.rpartition(".")[2] == channel.type for one in channel.classes)
        is_same = before is not None and before.classes == channel.classes
        if is_class and isinstance(value, dict) and not is_same:
            yield Incompatibility(
                *(CompatVerdict.CANNOT_TELL if before is None else CompatVerdict.BREAKS, "type"),
                *(place, f"its type is {channel.type} now, and what is stored is a plain dict"),
                "keep the type until these threads are done",
            )
        for kind, payload in _objects(value):
            made = judging.file.classes.get(kind)
            if made is not None:
                found = _misfit(level, kind, made, payload)
            elif _is_gone(kind, channel, before):
                sure = CompatVerdict.BREAKS if channel.classes else CompatVerdict.CANNOT_TELL
                found = sure, "class-gone", f"it has an object of {kind}, which the graph has not"
            else:
                continue
            if found is not None and found[1] not in told:
                told.add(found[1])
                verdict, code, text = found
                yield Incompatibility(verdict, code, place, text, keep)


def _is_gone(kind: str, channel: GraphChannel, before: GraphChannel | None) -> bool:
    """Return whether a class was named by the type of a channel, and is not any more."""
    if before is not None:
        return kind in before.classes - channel.classes
    named = {one.rpartition(".")[2] for one in channel.classes}
    return kind.rpartition(".")[2] in named  # it has moved


def _misfit(
    level: StoredHead, kind: str, made: GraphClass, payload: Value
) -> tuple[CompatVerdict, str, str] | None:
    """Return what is wrong with an object for the class of its name: verdict, code and text."""
    if made.kind == "enum":
        is_plain = payload is None or isinstance(payload, str | int | float)
        if is_plain and payload not in made.values:
            return CompatVerdict.BREAKS, "enum", f"it has a value that {kind} has not any more"
    elif made.kind in {"dataclass", "pydantic"} and isinstance(payload, dict):
        if lacks := made.required - payload.keys():
            text = f"an object of {kind} lacks {', '.join(sorted(lacks))}"
            return CompatVerdict.BREAKS, "field", text
        if more := payload.keys() - made.fields if made.fields is not None else ():
            names = ", ".join(map(level.stored, sorted(map(str, more))))
            text = f"an object has {names}, which {kind} has not"
            is_dropped = made.kind == "pydantic"
            return CompatVerdict.CHANGES if is_dropped else CompatVerdict.BREAKS, "field", text
    return None


_MOST_OBJECTS = 10_000


def _objects(value: Value) -> Iterator[tuple[str, Value]]:
    """Yield the class and the fields of objects in a value, the outer first."""
    ahead, left = [value], _MOST_OBJECTS
    while ahead and left:
        left -= 1
        one = ahead.pop()
        if isinstance(one, Tagged):
            yield one.type, one.payload
            one = one.payload
        if isinstance(one, dict):
            ahead += one.values()
        elif isinstance(one, list):
            ahead += one


def _is_a(value: Value, container: type) -> bool:
    if isinstance(value, Tagged) and value.type.startswith("langgraph"):
        return True
    if container is list:
        return items_of(value) is not None
    return isinstance(value, container)


_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


_BOOLEANS: Mapping[str | float, bool] = {
    **dict.fromkeys((1, "1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys((0, "0", "false", "f", "no", "n", "off"), False),
}
"""https://docs.pydantic.dev/latest/api/standard_library_types/#booleans"""

_LIMITS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
    "minLength": lambda value, limit: len(value) >= limit,
    "maxLength": lambda value, limit: len(value) <= limit,
    "minItems": lambda value, limit: len(value) >= limit,
    "maxItems": lambda value, limit: len(value) <= limit,
}


def _fits(value: Value, schema: Any, *, converts: bool = False) -> bool:
    """Return whether a plain value may be of a JSON Schema; True for all that is not plain.

    If it `converts`, also what pydantic makes a value of that type, unless a model is strict.
    """
    if not isinstance(schema, dict) or isinstance(value, Tagged | Opaque | Cut):
        return True
    if any_of := _list(schema.get("anyOf")):
        return any(_fits(value, one, converts=converts) for one in any_of)
    for one in (_list(schema.get("enum")), [schema["const"]] if "const" in schema else []):
        if one and value not in one:
            return False
    named = schema.get("type")
    if not isinstance(named, str) or named not in _JSON_TYPES:
        return True
    if converts:
        value = _converted(value, named)
    if isinstance(value, bool) and named != "boolean":
        return False
    if named == "array":
        items = items_of(value)
        return items is not None and _is_within(items, schema)
    return isinstance(value, _JSON_TYPES[named]) and _is_within(value, schema)


def _converted(value: Value, named: str) -> Value:
    """Return what pydantic makes of a value for a type of JSON; the value if it makes nothing."""
    if named == "boolean":
        text = value.lower() if isinstance(value, str) else value
        return _BOOLEANS.get(text, value) if isinstance(text, str | int | float) else value
    if named not in ("integer", "number") or not isinstance(value, str | bool | float):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if named == "integer" and number.is_integer() else number


def _is_within(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a value keeps the limits of a JSON Schema; a pattern is not looked at."""
    for name, holds in _LIMITS.items():
        limit = schema.get(name)
        if isinstance(limit, int | float) and not isinstance(limit, bool):
            try:
                if not holds(value, limit):
                    return False
            except TypeError:  # the limit of another type
                continue
    return True
