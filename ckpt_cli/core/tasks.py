"""The tasks of a step: which wrote what, what asks, what failed, and what runs next.

Task ids and task paths are computed as LangGraph does, to recognise stored ones. A task id is a
hash of checkpoint, namespace, step and node; the task path shows the kind of task. Sources:
`langgraph/pregel/_algo.py` (1.2.22, 0.6.11), `langgraph/pregel/algo.py` (0.2.70, 0.2.14),
`@langchain/langgraph/dist/pregel/algo.js` (1.7.3).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from hashlib import sha1
from itertools import combinations, islice, product
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID, uuid5

from ckpt_backends.codec import decode, decode_checkpoint
from ckpt_backends.codec.values import CHANNELS, Cut, Tagged, Value, items_of
from ckpt_backends.model import NULL_TASK_ID, Checkpoint, CheckpointKey, Status, Write
from ckpt_cli.core import state
from ckpt_cli.core.lineage import graph_of, levels, namespace_in
from ckpt_cli.core.redact import redact, redact_text, redact_write
from ckpt_cli.core.times import NEVER
from ckpt_cli.core.values import fields_of

PULL = "__pregel_pull"
PUSH = "__pregel_push"
UPDATE_PATH = "~__interrupt__"
"""Start of the task path of writes by `update_state`."""
SEARCHED = 8
"""Maximum number of uncertain channels of which all subsets are tried as triggers of a node."""
POSITIONS = 12
"""Number of positions in the task list that are tried; LangGraph 0.2.14 hashed the position too."""
_PLAUSIBLE = 64
"""Maximum number of triggers of a node; with more, no subsets are tried."""
_HANDLER = "node_error_handler"
_HANDLER_END = f", {_HANDLER}, 0000000000"
_CALL = re.compile(r"~__pregel_push, (~.+), (\d{10}), \d{10}", re.DOTALL)
_INT64 = 2**63


class TaskIdBase(NamedTuple):
    """What all task ids of one checkpoint are hashed from."""

    checkpoint_id: UUID
    checkpoint_ns: str
    step: int
    """The step of the tasks: the step of the checkpoint plus one."""
    v: int
    """Format of the checkpoint body, which decides the hash."""
    is_numeric: bool
    """Channel versions are numbers, so the ids may come from LangGraph.js."""


class Caller(NamedTuple):
    """A task that may have called `@task` functions."""

    path: str
    checkpoint_ns: str
    """Namespace of its calls: `NODE:TASK_ID` after the namespace of the checkpoint."""


def origin_of(
    checkpoint_id: str, checkpoint_ns: str, step: int, v: int, *, is_numeric: bool
) -> TaskIdBase | None:
    """Return the origin; None if no task id can be hashed from such a checkpoint."""
    try:
        identity = UUID(checkpoint_id)
    except ValueError:
        return None
    if not -_INT64 <= step < _INT64:
        return None
    return TaskIdBase(identity, checkpoint_ns, step, v, is_numeric)


def origin_at(key: CheckpointKey, body: state.Body, step: int) -> TaskIdBase | None:
    """Return the same for the tasks of this step at a checkpoint, or at a copy with this key."""
    is_numeric = not any(isinstance(one, str) for one in body.versions.values())
    return origin_of(key.checkpoint_id, key.checkpoint_ns, step, body.v, is_numeric=is_numeric)


def pull_ids(
    origin: TaskIdBase, node: str, triggers: Iterable[Collection[str]], position: int = 0
) -> Iterator[str]:
    """Yield the ids that a node's task may have, for each of the sets of trigger channels.

    `position` is the first position in the task list that the node can have.
    """
    for names in map(sorted, triggers):
        yield from _hashes(origin, node, PULL, *names)
        if origin.v <= 1:
            for k in range(position, position + POSITIONS):
                yield _oldest(origin, node, names, k)
        if origin.is_numeric:
            yield _javascript(origin, node, PULL, names)


def send_ids(origin: TaskIdBase, node: str, index: int) -> Iterator[str]:
    """Yield the ids that the task of the `index`-th pending Send may have."""
    yield from _hashes(origin, node, PUSH, str(index))
    if origin.v <= 1:
        yield _oldest(origin, node, ["__pregel_tasks"], index)
    if origin.is_numeric:
        yield _javascript(origin, node, PUSH, str(index))


def call_ids(origin: TaskIdBase, name: str, caller: Caller, index: int) -> Iterator[str]:
    """Yield the possible ids of a `@task` function's task, the caller's `index`-th call."""
    inside = origin._replace(checkpoint_ns=caller.checkpoint_ns)
    yield from _hashes(inside, name, PUSH, caller.path, str(index))
    if origin.is_numeric:
        yield _javascript(inside, name, PUSH, _path_parts(caller.path), index)


def caller_of(origin: TaskIdBase, name: str, task_id: str, path: str) -> Caller:
    """Return a task as a caller of `@task` functions."""
    return Caller(path, namespace_in(origin.checkpoint_ns, name, task_id))


def handler_ids(
    origin: TaskIdBase, handler: str, failed_node: str, failed_id: str
) -> Iterator[str]:
    """Yield the possible ids of an error handler's task, in the failed task's namespace."""
    inside = origin._replace(
        checkpoint_ns=namespace_in(origin.checkpoint_ns, failed_node, failed_id)
    )
    yield from _hashes(inside, handler, PUSH, _HANDLER, failed_id)
    if origin.is_numeric:
        yield _javascript(inside, handler, PUSH, _HANDLER, failed_id)


def update_ids(origin: TaskIdBase, count: int) -> dict[str, str]:
    """Return id to path for writes that `update_state` stores if no task of the step fits the
    update.

    `count` is the maximum number of updates at once.
    """
    found = {str(uuid5(origin.checkpoint_id, "__input__")): ""}
    for i in range(count):
        name = f"__interrupt__:{i}" if i else "__interrupt__"
        found[str(uuid5(origin.checkpoint_id, name))] = f"{UPDATE_PATH}, {i:010d}"
    return found


def trigger_sets(known: Collection[str], fired: Collection[str]) -> Iterator[frozenset[str]]:
    """Yield the sets of channels that may be a node's triggers.

    Newer libraries hash all triggers, but the triggers of a node are not stored; older ones (body
    formats 1 and 2) and LangGraph.js hash those that fired. If more than `SEARCHED` channels are
    known, those that fired are taken as certain, and only the first of the others are tried.
    """
    sure = frozenset() if len(known) <= SEARCHED else frozenset(fired)
    unsure = sorted(set(known) - sure)
    if len(unsure) > SEARCHED:
        yield frozenset(known)
    tried = unsure[: SEARCHED if len(known) <= _PLAUSIBLE else 0]
    for size in range(len(tried) + 1):
        for some in combinations(tried, size):
            if sure or some:
                yield sure.union(some)


def _hashes(origin: TaskIdBase, node: str, *parts: str) -> Iterator[str]:
    """Yield XXH3 for format 4; for formats 2 and 3 XXH3 and SHA-1; for format 1 SHA-1."""
    text = "".join((namespace_in(origin.checkpoint_ns, node), str(origin.step), node, *parts))
    data = origin.checkpoint_id.bytes + _utf8(text)
    if origin.v > 1:
        yield _as_uuid(_xxh3(data))
    if origin.v < 4:
        yield _as_uuid(_sha1(data).hex())


def _oldest(origin: TaskIdBase, node: str, triggers: list[str], position: int) -> str:
    """Hash the id as LangGraph 0.2.14 does."""
    task = {
        "langgraph_step": origin.step,
        "langgraph_node": node,
        "langgraph_triggers": triggers,
        "langgraph_task_idx": position,
    }
    return str(
        uuid5(origin.checkpoint_id, json.dumps((namespace_in(origin.checkpoint_ns, node), task)))
    )


def _javascript(origin: TaskIdBase, node: str, *parts: str | int | Sequence[object]) -> str:
    hashed = [namespace_in(origin.checkpoint_ns, node), str(origin.step), node, *parts]
    text = json.dumps(hashed, separators=(",", ":"), ensure_ascii=False)
    data = _sha1(origin.checkpoint_id.bytes + _utf8(text))
    return str(UUID(bytes=data[:16], version=5))


def _path_parts(path: str) -> list[object]:
    """Return a task path in the form of LangGraph.js: nested lists."""
    if (call := call_of(path)) is not None:
        return [PUSH, _path_parts(call[0]), call[1], True]
    index = sent_index(path)
    return [PULL, pulled_node(path)] if index is None else [PUSH, index]


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _as_uuid(digest: str) -> str:
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def _sha1(data: bytes) -> bytes:
    return sha1(data, usedforsecurity=False).digest()


def _xxh3(data: bytes) -> str:
    from xxhash import xxh3_128_hexdigest

    return xxh3_128_hexdigest(data)


def interrupt_id(namespaces: Iterable[str]) -> str:
    """Return the id that the newest library uses to answer an Interrupt stored with its `ns`."""
    return _xxh3(_utf8("|".join(namespaces)))


def pull_path(node: str) -> str:
    """Return the path of a node's task, as stored in the column `task_path`."""
    return f"~{PULL}, {node}"


def send_path(index: int, v: int) -> str:
    """Return the path of the `index`-th Send's task; since format 4 it says "not a call"."""
    return f"~{PUSH}, {index:010d}, 0000000000" if v >= 4 else f"~{PUSH}, {index:010d}"


def handler_path(failed_path: str) -> str:
    """Return the path of the error handler's task for a failed task."""
    return failed_path + _HANDLER_END


def pulled_node(path: str) -> str | None:
    """Return the node of a node task's path; accepts the step that `durability="exit"` adds."""
    if path.startswith("~~") and path[2:12].isdigit():
        path = path[12:]
    is_pull = path.startswith(f"~{PULL}, ") and not is_handler(path)
    return path.removeprefix(f"~{PULL}, ") if is_pull else None


def running_node(path: str) -> str | None:
    """Return the node with this task path, or the node that called the `@task` function with it."""
    if (call := call_of(path)) is not None:
        return running_node(call[0])
    node = pulled_node(path)
    return node if node is not None and path == pull_path(node) else None


def sent_index(path: str) -> int | None:
    """Return the index of the Send in a Send task's path; None for other paths."""
    parts = path.split(", ")
    is_send = parts[0] == f"~{PUSH}" and parts[2:] in ([], ["0000000000"])
    digits = parts[1] if is_send and len(parts) > 1 else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def is_handler(path: str) -> bool:
    """Return whether the path belongs to an error handler."""
    return path.endswith(_HANDLER_END)


def call_path(caller: str, index: int) -> str:
    """Return the path of a `@task` function's task."""
    return f"~{PUSH}, {caller}, {index:010d}, 0000000001"


def call_of(path: str) -> tuple[str, int] | None:
    """Return the caller's path and the number of the call, for a `@task` function's path."""
    found = _CALL.fullmatch(path)
    return None if found is None else (found[1], int(found[2]))


def is_call(path: str) -> bool:
    """Return whether the path belongs to a `@task` function called by another task."""
    return path.startswith(f"~{PUSH}, ~")


ERROR_SOURCE = "__error_source_node__"
"""Channel of the write that a failed task stores if it has an error handler (LangGraph 1.2)."""
_UPDATES = 64
"""Number of consecutive updates that are recognised."""
_BUDGET = 20_000_000
"""Bytes hashed at most to find the nodes of one checkpoint; a real checkpoint needs about 100,000.
"""
_OVERHEAD = 300
"""Fixed cost of hashing one id, counted as bytes, however short its names are."""
_LONGEST = 1000
"""Node names that are longer than this are ignored."""
_DEEPEST = 50
"""Number of namespace segments that are examined."""

_UNFINISHED = 8
"""Number of calls of one task that may exist without stored writes."""

_WORD = re.compile(r"[^\W\d]\w{0,99}")
_WORDS = 200
"""Words of errors that may be the name of a function."""
_ELSEWHERE = 1000
"""Names from other threads that are tried."""

_TASK_PATH = attrgetter("task_path")

Nodes = Mapping[str, Collection[str]]
"""Maps a node to the channels that triggered it."""


@dataclass(slots=True)
class Run:
    """A task and its writes, while writes are assigned to tasks."""

    node: str | None
    path: str
    index: int | None = None
    """Index among the pending Sends; None for a task that is not a Send."""
    fired: frozenset[str] = frozenset()
    """The channels that triggered the node."""
    writes: list[Write] = field(default_factory=list)


def subgraph_calls(namespaces: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the subgraph calls of each namespace, as task id to node.

    A call has the namespace `node:task_id` below its parent's namespace.
    """
    calls: dict[str, dict[str, str]] = {}
    for namespace in namespaces:
        for outer, node, task_id, _ in levels(namespace):
            if node and task_id is not None:
                calls.setdefault(outer, {})[task_id] = node
    return calls


def function_names(
    namespaces: Iterable[str],
    metadata: Iterable[Mapping[str, Value]],
    bodies: Iterable[state.Body] = (),
) -> list[str]:
    """Return names in namespaces, metadata and bodies that may be `@task` functions.

    `versions_seen` names each task that ran. Metadata of LangGraph before 0.5 names each task that
    wrote. A function that called a subgraph has a namespace, and the metadata there has its name.
    """
    names: dict[str, None] = {}
    for body in bodies:
        names |= dict.fromkeys(name for name in body.seen if name not in state.NOT_NODES)
    for namespace in namespaces:
        names |= dict.fromkeys(one.node for one in levels(namespace))
    for fields in metadata:
        wrote, node = fields.get("writes"), fields.get("langgraph_node")
        for name in [*(wrote if isinstance(wrote, dict) else ()), node]:
            if isinstance(name, str):
                names[name] = None
    return [name for name in names if 0 < len(name) <= _LONGEST]


class Lookups(NamedTuple):
    """What tells more about a step than its checkpoint and the writes on it.

    These read from the store, so they are called only if the result depends on them.
    """

    parent_sends: Callable[[], Sequence[Write]]
    """Returns the parent's writes on `__pregel_tasks`, with their values."""
    own_sends: Callable[[], Sequence[Write]]
    """The same of the checkpoint itself."""
    learned_thread: Callable[[], state.Readers]
    """Returns the result of `learn` for the thread."""
    learned_store: Callable[[], state.Readers]
    calls: Callable[[], Mapping[str, str]]
    """Returns the result of `subgraph_calls` for the namespace."""
    functions: Callable[[], Iterable[str]] = tuple
    """Returns names of the thread that may be `@task` functions."""
    functions_elsewhere: Callable[[], Iterable[str]] = tuple
    followers: Callable[[str], Collection[str] | None] = lambda _: None
    """Returns the result of `followers_of` for a node."""


class Attribution:
    """The planned tasks of one checkpoint, and the writes that are not assigned to a task yet."""

    def __init__(
        self,
        key: CheckpointKey,
        body: state.Body,
        metadata: Mapping[str, Value],
        writes: Iterable[Write],
        own: state.Readers,
        around: Lookups,
    ) -> None:
        self.sends: list[Run] = []
        self.nodes: dict[str, Run] = {}
        self.own = own
        """The nodes that read each channel, as the body itself tells."""
        self._body = body
        self._around = around
        self._key = key
        self._step = state.step_from(metadata)
        self._unclaimed: dict[str, list[Write]] = {}
        self._chosen: set[str] = set()
        for write in writes:
            if write.task_id == NULL_TASK_ID:
                self._chosen.add(write.channel)
            else:
                self._unclaimed.setdefault(write.task_id, []).append(write)
        self._tasks = len(self._unclaimed)
        self._budget = _BUDGET

    @cached_property
    def _origin(self) -> TaskIdBase | None:
        """What ids are hashed from; only needed if paths do not tell enough."""
        return origin_at(self._key, self._body, 0 if self._step is None else self._step + 1)

    def plan_sends(self, nodes: Sequence[str | None]) -> None:
        """Plan the tasks of the pending Sends and assign their writes to them."""
        if not nodes:
            return
        self.sends = [
            Run(node, send_path(index, self._body.v), index)
            for index, node in enumerate(nodes)
            if node is not None
        ]
        places = {run.index: run for run in self.sends}
        for task_id, writes in list(self._unclaimed.items()):
            if (index := sent_index(path_of(writes))) in places:
                self._claim(places[index], task_id)
        if self.sends and self._homeless():
            for run in self.sends:
                self._claim_any(run, self._send_ids(run))

    def plan_nodes(self, nodes: Nodes) -> None:
        """Plan the tasks of these nodes and assign their writes to them."""
        runs = {
            node: Run(node, pull_path(node), fired=frozenset(fired))
            for node, fired in nodes.items()
            if node not in self.nodes
        }
        self.nodes |= runs
        paths = {run.path: run for run in runs.values()}
        for task_id, writes in list(self._unclaimed.items()):
            if (path := path_of(writes)) in paths:
                self._claim(paths[path], task_id)
        self._match_hashes(runs, lambda: self.own)
        if self._homeless() and any(not run.writes for run in runs.values()):
            for task_id, node in self._called_here().items():
                if node in runs:
                    self._claim(runs[node], task_id)
        self._match_hashes(runs, self._around.learned_thread)

    def plan_readers(self, channel: str) -> bool:
        """Plan the nodes that a channel triggers, if the body does not name them.

        They are found in other bodies of the thread or by traces of a run: a task path, the
        namespace of a subgraph call, or an id that fits a node known from elsewhere in the store.
        Returns False if no node was found.
        """
        nodes = self._readers_of(channel)
        self.plan_nodes(nodes)
        return bool(nodes)

    def has_strangers(self) -> bool:
        """Return whether a task that is not planned has stored writes."""
        return any(task_id not in self._updates for task_id in self._unclaimed)

    def others(self) -> Iterator[Run]:
        """Yield the tasks that are not planned, as far as their writes identify them."""
        if not self._unclaimed:
            return
        traced = self._handlers()
        if self._homeless() - traced.keys():
            traced |= {task_id: (node, "") for task_id, node in self._called_here().items()}
            traced |= self._unplanned()
        traced |= self._named_calls(traced)
        for task_id, writes in self._unclaimed.items():
            node, path = traced.get(task_id, (None, ""))
            path = path_of(writes) or path or self._updates.get(task_id, "")
            yield Run(writes[0].node or node or pulled_node(path), path, writes=writes)

    def _readers_of(self, channel: str) -> Nodes:
        paths = map(path_of, self._unclaimed.values())
        ran = {node for path in paths if (node := running_node(path)) is not None}
        ran -= {state.named_node(name) for name in self._chosen}  # the caller named these nodes
        if channel == state.START:
            ran = ran or set(self._proven(channel, {state.START}, {}))
        else:
            # Some of the nodes that it triggers may not have run yet.
            ran = set(self._around.learned_thread().get(channel, ())) or ran
        ran = ran or set(self._around.learned_thread().get(channel, ())) or self._called(channel)
        if ran:
            return {node: {channel} for node in ran}
        if not self._homeless():
            return {}
        return self._proven(
            channel, self._around.learned_store().get(channel, ()), self._store_channels
        )

    @cached_property
    def _store_channels(self) -> Nodes:
        return _inverted(self._around.learned_store())

    def _match_hashes(self, runs: Mapping[str, Run], learned: Callable[[], state.Readers]) -> None:
        lacking = [run for run in runs.values() if not run.writes]
        if lacking and self._homeless():
            channels = _inverted(learned())
            for run in lacking:
                self._claim_any(run, self._node_ids(run, channels))

    def _send_ids(self, run: Run) -> Iterator[str]:
        if self._origin is not None and run.node is not None and run.index is not None:
            yield from send_ids(self._origin, run.node, run.index)

    def _node_ids(self, run: Run, channels: Nodes) -> Iterator[str]:
        if self._origin is None or run.node is None or len(run.node) > _LONGEST:
            return
        if self._budget > 0:
            # Every node of a StateGraph has this trigger, even if nothing was ever written to it.
            is_named = self._body.v > 1 or self._body.is_javascript
            named = {f"branch:to:{run.node}"} if is_named else set()
            known = {*channels.get(run.node, ()), *run.fired, *named}
            triggers = trigger_sets(known, run.fired)
            # Cost is counted in bytes, because names can have any length.
            names = (self._origin.checkpoint_ns, run.node, run.node, *known)
            cost = _OVERHEAD + sum(map(len, names))
            for found in pull_ids(self._origin, run.node, triggers, len(self.sends)):
                self._budget -= cost
                yield found
                if self._budget <= 0:
                    return

    def _claim_any(self, run: Run, candidates: Iterable[str]) -> None:
        if self._unclaimed:
            for task_id in candidates:
                if task_id in self._unclaimed:
                    self._claim(run, task_id)

    def _claim(self, run: Run, task_id: str) -> None:
        run.writes += self._unclaimed.pop(task_id)

    def _homeless(self) -> set[str]:
        """Return the task ids that no path identifies, without those of `update_state`."""
        return {
            task_id
            for task_id, writes in self._unclaimed.items()
            if (not (path := path_of(writes)) or path.startswith(UPDATE_PATH))
            and task_id not in self._updates
        }

    @cached_property
    def _updates(self) -> dict[str, str]:
        """Ids that only tasks of `update_state` can have; hashed only if tasks are left."""
        if self._origin is None or not self._tasks:
            return {}
        return update_ids(self._origin, min(self._tasks, _UPDATES))

    def _proven(self, channel: str, readers: Iterable[str], channels: Nodes) -> Nodes:
        """Return those of a channel's readers that have a task id in this checkpoint."""
        found = {}
        for node in readers:
            run = Run(node, "", fired=frozenset({channel}))
            if any(task_id in self._unclaimed for task_id in self._node_ids(run, channels)):
                found[node] = {channel, *channels.get(node, ())}
        return found

    def _called(self, channel: str) -> set[str]:
        """Return the nodes that called a subgraph in this step and that `channel` may trigger."""
        calls = self._calls
        called = set(self._called_here().values())
        for node in set(calls.values()) - called:
            ids = self._node_ids(Run(node, "", fired=frozenset({channel})), {})
            if any(calls.get(task_id) == node for task_id in ids):
                called.add(node)
        return called

    def _called_here(self) -> dict[str, str]:
        """Return task id to node for subgraph calls whose writes are not assigned yet."""
        # Iterate over the unassigned tasks: a namespace may have made thousands of calls.
        return {
            task_id: self._calls[task_id] for task_id in self._unclaimed if task_id in self._calls
        }

    @cached_property
    def _calls(self) -> Mapping[str, str]:
        return self._around.calls()

    def _handlers(self) -> dict[str, tuple[str, str]]:
        """Return task id to (node, path) for the error handlers of failed tasks.

        The names of handlers come from `StateGraph.add_node(error_handler=...)` and
        `StateGraph.set_node_defaults`.
        """
        found: dict[str, tuple[str, str]] = {}
        for run in (*self.sends, *self.nodes.values()) if self._unclaimed else ():
            failed = {write.task_id for write in run.writes if write.channel == ERROR_SOURCE}
            path = handler_path(run.path)
            for name in (f"__error_handler__{run.node}", "__default_error_handler__"):
                for task_id in failed:
                    found |= dict.fromkeys(self._handler_ids(run, name, task_id), (name, path))
        return found

    def _handler_ids(self, failed: Run, handler: str, task_id: str) -> Iterator[str]:
        if self._origin is not None and failed.node is not None:
            yield from handler_ids(self._origin, handler, failed.node, task_id)

    def _named_calls(self, traced: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return task id to (name, path) for `@task` functions whose name hashes to the id.

        Names come from the thread and from what errors say, then from other threads of the store.
        """
        paths = {task_id: path_of(writes) for task_id, writes in self._unclaimed.items()}
        calls = {one: call for one, path in paths.items() if (call := call_of(path))}
        unknown = {*calls, *(self._homeless() - set(traced))}
        if self._origin is None or not unknown:
            return {}
        names = dict.fromkeys(
            [*self._around.functions(), *self.nodes, *self._words_of_errors(unknown)]
        )
        found = self._hashed_calls(self._origin, names, unknown, calls)
        if unknown - found.keys() and (
            more := set(self._around.functions_elsewhere()) - names.keys()
        ):
            # All names: a call that is found now may have made calls of known functions.
            names |= dict.fromkeys(sorted(more)[:_ELSEWHERE])
            found |= self._hashed_calls(self._origin, names, unknown, calls)
        return found

    def _hashed_calls(
        self,
        origin: TaskIdBase,
        names: Collection[str],
        unknown: Collection[str],
        calls: Mapping[str, tuple[str, int]],
    ) -> dict[str, tuple[str, str]]:
        """Return task id to (name, path) for those unknown tasks that one of the names fits."""
        found: dict[str, tuple[str, str]] = {}
        places = set(calls.values())
        # If paths are not stored, any task may have made calls, and any number of them.
        most = 0 if len(calls) == len(unknown) else len(unknown) + _UNFINISHED
        callers = list(self._callers())
        for caller in callers:
            known = {index for path, index in places if path == caller.path}
            for index, name in product(sorted(known | set(range(most))), names):
                self._budget -= _OVERHEAD + 2 * (len(name) + len(caller.checkpoint_ns))
                if self._budget <= 0:
                    return found
                for task_id in call_ids(origin, name, caller, index):
                    if task_id in unknown and task_id not in found:
                        path = call_path(caller.path, index)
                        found[task_id] = (name, path)
                        inside = origin._replace(checkpoint_ns=caller.checkpoint_ns)
                        callers.append(caller_of(inside, name, task_id, path))
        return found

    def _words_of_errors(self, unknown: Iterable[str]) -> Iterator[str]:
        """Yield words of the errors of some tasks: an error may name the function that failed."""
        words = (
            found[0]
            for task_id in sorted(unknown)
            for write in self._unclaimed[task_id]
            if write.channel == state.ERROR and write.value is not None
            for text in _texts(decode(write.value))
            for found in _WORD.finditer(text)
        )
        yield from islice(words, _WORDS)

    def _callers(self) -> Iterator[Caller]:
        """Yield the planned tasks; one without writes is yielded under each possible id."""
        for run in (*self.sends, *self.nodes.values()):
            ids: Iterable[str] = [run.writes[0].task_id] if run.writes else self._send_ids(run)
            if not run.writes and run.index is None:
                ids = islice(self._node_ids(run, _inverted(self.own)), _UNFINISHED)
            if self._origin is not None and run.node is not None:
                for task_id in ids:
                    yield caller_of(self._origin, run.node, task_id, run.path)

    def _unplanned(self) -> dict[str, tuple[str, str]]:
        """Return task id to (node, path) for nodes that ran although the state did not schedule
        them.

        This happens if the caller chose the node with `Command(goto=...)`.
        """
        found = {}
        chosen = {
            node: {name} for name in self._chosen if (node := state.named_node(name)) is not None
        }
        channels = _inverted(self.own) | chosen
        for node in channels.keys() - self.nodes.keys():
            for task_id in self._node_ids(Run(node, ""), channels):
                if task_id in self._unclaimed:
                    found[task_id] = (node, pull_path(node))
        return found


def _texts(error: Value) -> Iterator[str]:
    """Yield the texts in a stored error: a `repr` from Python, name and message elsewhere."""
    parts = [error] if isinstance(error, str) else fields_of(error).values()
    return (text for text in parts if isinstance(text, str))


def path_of(writes: Sequence[Write]) -> str:
    """Return the path of a task. If several saver versions wrote it, some writes have none."""
    return max(map(_TASK_PATH, writes), default="")


def _inverted(readers: state.Readers) -> dict[str, set[str]]:
    channels: dict[str, set[str]] = {}
    for channel, nodes in readers.items():
        for node in nodes:
            channels.setdefault(node, set()).add(channel)
    return channels


_LINE_END = re.compile(r"\n|(?<!\\)\\n")
_MOST = 200
"""Maximum length of a kind."""
_BLANK = "…"
_END = "⏎"
_MOST_LINES = 20
_SHORT = 40
"""A first line with fewer characters does not tell what happened: the next ones are shown, too."""
_VARYING = r"""
    0x[0-9a-f]+ |                                     # addresses of objects
    [0-9a-f]{8}-[0-9a-f-]{4,32} |                     # UUIDs
    \b(?=[a-f]*\d)[0-9a-f]{8,}\b |                    # hashes and hex ids
    \d+(?:[.:,/-]\d+)*                                # numbers, times and addresses
"""
"""Compiled when it is used: most commands print errors as they are."""


def first_line(text: str) -> str:
    """Return the first line of an error, which may be a `repr` with escaped line ends."""
    stripped = text.strip()
    first = _LINE_END.split(stripped, maxsplit=1)[0]
    return first if first == stripped else f"{first} {_BLANK}"


def error_start(text: str) -> str:
    """Return an error on one line: its first line, with those after it while that is short.

    The end of each of these lines is shown as `⏎`.
    """
    lines = [one.strip() for one in _LINE_END.split(text.strip(), maxsplit=_MOST_LINES)]
    shown = lines[0]
    for number, one in enumerate(lines[1:], 1):
        if len(shown) >= _SHORT:
            return f"{shown} {_BLANK}" if any(lines[number:]) else shown
        shown = f"{shown} {_END} {one}" if one else shown
    return shown


def error_kind(text: str) -> str:
    """Return the first line of an error without what differs between errors of one kind.

    `TimeoutError('no answer after 31 s')` becomes `TimeoutError('no answer after … s')`.
    """
    line = first_line(text[: _MOST * 10])
    kind = re.sub(_VARYING, _BLANK, line, flags=re.VERBOSE | re.IGNORECASE)
    return kind if len(kind) <= _MOST else kind[: _MOST - 1] + _BLANK


CONTROL = frozenset({state.INTERRUPT, state.RESUME, state.ERROR, ERROR_SOURCE, "__scheduled__"})
"""Channels that record what happened to a task; a write on any other channel is its output."""
_UNREAD = 100
"""Maximum number of channels without a known reader that are examined; a real body has a few."""


class Question(NamedTuple):
    """One Interrupt that a task raised."""

    interrupt_id: str | None
    """None if neither the id nor the namespace that it is hashed from is stored."""
    task_id: str
    node: str | None
    value: Value
    answered: bool
    """True if the task finished, which is the rule of LangGraph 1.2 (`pregel/_task_status.py`)."""
    path: tuple[str, ...] = ()
    """The path to the node that asked, if it is in a subgraph; the last entry is `node`."""
    failed_answer: bool = False
    """An answer is stored, and the task failed with it: LangGraph gives it this answer again."""
    response_schema: Value = None
    """The JSON Schema of the answer, if the graph gave one; None otherwise. Stored by LangGraph
    1.2.24 and later (`Interrupt` in `langgraph/types.py`)."""

    @property
    def is_open(self) -> bool:
        """Whether the question waits for an answer."""
        return not self.answered and not self.failed_answer


class Task(NamedTuple):
    """One task of the superstep that starts from a checkpoint."""

    id: str | None
    """None if the task has stored nothing."""
    node: str | None
    path: str
    """For example `~__pregel_pull, NODE`, rebuilt if not stored; `''` if not known."""
    finished: bool
    error: str | None
    handled: bool
    """An error handler took the error: it has finished, or asks."""
    questions: tuple[Question, ...]
    writes: tuple[Write, ...]
    failed_in: tuple[str, ...] = ()
    """The path to the node that failed, if it is in a subgraph."""


def _redacted(task: Task) -> Task:
    def hidden(one: Question) -> Question:
        schema = None if one.response_schema is None else redact(one.response_schema)
        return one._replace(value=redact(one.value), response_schema=schema)

    error = None if task.error is None else redact_text(task.error)
    return task._replace(error=error, questions=tuple(map(hidden, task.questions)), writes=())


class Step(NamedTuple):
    """The superstep that comes after a checkpoint."""

    tasks: tuple[Task, ...]
    """Sends in their order, then nodes by name: the graph's order is not stored."""
    others: tuple[Task, ...]
    """Other writers: error handlers, `@task` calls, `update_state`, and unknown tasks."""
    next: tuple[str, ...] | None
    """The nodes of all tasks, as `get_state_history` returns them; None if unknown."""
    waiting: tuple[str, ...] | None
    """The nodes of tasks without output, as `get_state` of LangGraph 1.2 returns them."""
    assumed: bool
    """The answer is likely, but nothing stored proves it."""

    def redacted(self) -> Step:
        """Return it without the texts of questions and errors."""
        tasks, others = (tuple(map(_redacted, some)) for some in (self.tasks, self.others))
        return self._replace(tasks=tasks, others=others)

    @property
    def runs(self) -> tuple[Task, ...]:
        """All tasks."""
        return (*self.tasks, *self.others)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions of all tasks, with those that have an answer."""
        return tuple(question for run in self.runs for question in run.questions)

    @property
    def open_questions(self) -> tuple[Question, ...]:
        """Those that wait for an answer."""
        return tuple(question for question in self.questions if question.is_open)


def failed_answers(task: Task) -> list[Question]:
    """Return the questions of a task whose stored answers made it fail."""
    return [one for one in task.questions if one.failed_answer]


def plan_step(
    key: CheckpointKey,
    body: state.Body,
    metadata: Mapping[str, Value],
    writes: Sequence[Write],
    around: Lookups,
    delta_channels: Collection[str] = (),
) -> Step:
    """Return the step after a checkpoint, given the writes stored on the checkpoint.

    Nothing is looked up for a StateGraph's checkpoint of format 4 with matching paths or hashes.
    """
    by_caller = state.written_by_caller(body, writes)
    sends = state.sent_nodes(
        body, around.parent_sends, around.own_sends if state.SENDS in by_caller else None
    )
    own, source = state.learn([body]), state.source_from(metadata)
    ready = state.Ready({}, [])
    is_known = body.v >= 1 and sends is not None
    if is_known:
        ready = state.find_ready(body, own, around.learned_thread, delta_channels, by_caller)
        if not ready.unread and (ready.fired or sends or source != "input"):
            told = _told_by_paths(body, sends or (), ready.fired, writes)
            if told is not None:
                return told
    runs = Attribution(key, body, metadata, writes, own, around)
    if not is_known:
        return _step(runs, is_known=False)
    runs.plan_sends(sends or ())
    runs.plan_nodes(ready.fired)
    is_known, is_assumed = _plan_unread(runs, body, ready.unread, source, around)
    if source == "input" and body.versions and not (runs.sends or runs.nodes):
        # An input always makes a node run; here the graph is not known.
        is_known = False
    return _step(runs, is_known=is_known, is_assumed=is_assumed)


def _plan_unread(
    runs: Attribution, body: state.Body, unread: Sequence[str], source: str | None, around: Lookups
) -> tuple[bool, bool]:
    """Plan the nodes of channels without a known reader.

    Returns whether what runs next is known, and whether a part of that is assumed.
    """
    is_known, is_assumed, is_open = len(unread) <= _UNREAD, False, False
    for channel in [name for name in unread[:_UNREAD] if not runs.plan_readers(name)]:
        planned = [*runs.sends, *runs.nodes.values()]
        if runs.has_strangers():
            is_known = False
        elif channel == state.START:
            # The input of a StateGraph, and nothing else is stored.
            runs.plan_nodes({state.START: {state.START}})
            is_assumed = True
        elif planned and all(map(_is_finished, planned)):
            is_assumed = True
        elif state.is_output(body, channel):
            nodes = around.followers(channel)
            runs.plan_nodes({node: {channel} for node in nodes or ()})
            is_assumed |= nodes is None or bool(nodes)
            is_open |= nodes is None
        elif (
            source != "update" or channel in around.learned_thread()
        ) and not around.learned_store().get(channel):
            # Probably the output of a graph of bare Pregel nodes, which none of them reads.
            is_assumed = True
        else:
            is_known = False
    # A thread that waits at a breakpoint looks like one after a last node.
    return is_known and not (is_open and not (runs.sends or runs.nodes)), is_assumed


def _told_by_paths(
    body: state.Body, sends: Sequence[str | None], fired: Iterable[str], writes: Iterable[Write]
) -> Step | None:
    """Return the step of these Sends and nodes if the paths of all writes name them; else None.

    None also if a task asked or failed. Almost all steps are told by their paths; the others take
    an `Attribution`, which gives the same for these.
    """
    planned = [(node, send_path(index, body.v)) for index, node in enumerate(sends)]
    planned += [(node, pull_path(node)) for node in sorted(fired)]
    stored: dict[str, list[Write]] = {path: [] for _, path in planned}
    paths: dict[str, str] = {}
    for write in writes:
        path = write.task_path
        if write.task_id == NULL_TASK_ID:
            continue
        if path not in stored or write.channel in CONTROL:
            return None
        if paths.setdefault(write.task_id, path) != path:
            return None
        stored[path].append(write)
    tasks, nodes, waiting = [], [], []
    for node, path in planned:
        if node is None:
            return None
        nodes.append(node)
        done = stored[path]
        if not done:
            waiting.append(node)
        identity = done[0].task_id if done else None
        tasks.append(Task(identity, node, path, bool(done), None, False, (), tuple(done)))
    if len(paths) != len(set(paths.values())):
        return None
    return Step(tuple(tasks), (), tuple(nodes), tuple(waiting), False)


def questions_by_path(writes: Iterable[Write]) -> tuple[Question, ...] | None:
    """Return the questions of a step, given only the writes stored on its checkpoint; None if they
    do not tell enough.

    They do if the path of each task names a node and only one task asks: then `plan_step` finds
    the same questions, whatever else the checkpoint holds.
    """
    tasks: dict[str, list[Write]] = {}
    for write in writes:
        if write.task_id != NULL_TASK_ID:
            tasks.setdefault(write.task_id, []).append(write)
    paths: set[str] = set()
    asking: list[Run] = []
    for own in tasks.values():
        path = path_of(own)
        node = pulled_node(path)
        if node is None or path != pull_path(node) or path in paths:
            return None
        if any(write.node is not None or write.channel == ERROR_SOURCE for write in own):
            return None
        paths.add(path)
        if any(write.channel == state.INTERRUPT for write in own):
            asking.append(Run(node, path, writes=own))
    if len(asking) > 1:
        return None
    return tuple(question for run in asking for question in _task(run).questions)


def _step(runs: Attribution, *, is_known: bool, is_assumed: bool = False) -> Step:
    nodes = [run for _, run in sorted(runs.nodes.items())]
    planned = [_task(run) for run in (*runs.sends, *nodes)]
    found = [_task(run) for run in runs.others()]
    tasks, others = _asked_once(_handled(planned, found), found)
    return Step(
        tasks=tasks,
        others=others,
        next=_names(tasks) if is_known else None,
        waiting=_names(task for task in tasks if not task.finished) if is_known else None,
        assumed=is_known and is_assumed,
    )


def _handled(tasks: list[Task], others: list[Task]) -> list[Task]:
    """Return the tasks, each told whether its error handler has finished, or asks."""
    took = {
        run.path
        for run in others
        if is_handler(run.path) and (run.finished or any(one.is_open for one in run.questions))
    }
    if not took:
        return tasks
    return [
        task._replace(handled=task.error is not None and handler_path(task.path) in took)
        for task in tasks
    ]


def _asked_once(tasks: list[Task], others: list[Task]) -> tuple[tuple[Task, ...], ...]:
    """The runs, with each question of a `@task` call only at the node that made the call.

    LangGraph stores such a question for both, under one id.
    """
    if not others or not any(run.questions for run in tasks):
        return tuple(tasks), tuple(others)
    ids = {one.interrupt_id for task in tasks for one in task.questions} - {None}
    if not ids:
        return tuple(tasks), tuple(others)
    nodes = {run.path: run.node for run in (*tasks, *others) if run.path}
    asking: dict[str | None, tuple[str, ...]] = {}
    failed: set[str | None] = set()
    for run in others:
        path = _call_names(run.path, nodes)
        failed |= {one.interrupt_id for one in run.questions if one.failed_answer}
        for one in run.questions:
            if one.interrupt_id in ids and len(path) > len(asking.get(one.interrupt_id, ())):
                asking[one.interrupt_id] = path

    def at_caller(task: Task) -> Task:
        found = (
            one._replace(
                path=asking.get(one.interrupt_id, ()),
                failed_answer=one.failed_answer or one.interrupt_id in failed,
            )
            for one in task.questions
        )
        return task._replace(questions=tuple(found))

    def without(run: Task) -> Task:
        left = tuple(one for one in run.questions if one.interrupt_id not in ids)
        return run._replace(questions=left)

    return tuple(map(at_caller, tasks)), tuple(map(without, others))


def _call_names(path: str, nodes: Mapping[str, str | None]) -> tuple[str, ...]:
    """The names down to a `@task` call; none if one of them is unknown or it is no call."""
    names = [nodes.get(path)]
    while (call := call_of(path)) is not None:
        path = call[0]
        names.append(nodes.get(path))
    known = [name for name in reversed(names) if name is not None]
    return tuple(known) if 1 < len(known) == len(names) else ()


def _is_finished(run: Run) -> bool:
    # A write that is stored with the checkpoint it produced names its node.
    return any(write.channel not in CONTROL or write.node is not None for write in run.writes)


def _names(tasks: Iterable[Task]) -> tuple[str, ...]:
    return tuple(task.node for task in tasks if task.node is not None)


def _task(run: Run) -> Task:
    is_finished = _is_finished(run)
    identity = run.writes[0].task_id if run.writes else None
    found = Task(identity, run.node, run.path, is_finished, None, False, (), tuple(run.writes))
    channels = {write.channel for write in run.writes}
    if CONTROL.isdisjoint(channels):
        return found  # Almost all tasks neither asked nor failed.
    errors = [write for write in run.writes if write.channel == state.ERROR]
    # LangGraph replaces a question by the next one, but keeps it beside an error.
    failed_answer = not is_finished and {state.ERROR, state.RESUME} <= channels
    questions = (
        question
        for write in run.writes
        if write.channel == state.INTERRUPT
        for question in _questions(write, found, failed_answer=failed_answer)
    )
    error = _error_text(_value(errors[-1])) if errors else None
    return found._replace(error=error, questions=tuple(questions))


def _questions(write: Write, task: Task, *, failed_answer: bool) -> Iterator[Question]:
    """Yield the Interrupts of a write: a list of them, or a single one in LangGraph 0.2."""
    value = _value(write)
    cut = value if isinstance(value, Cut) else None
    raised = value if cut is None else cut.kept
    items = items_of(raised)
    for item in [raised] if items is None else items:
        fields = fields_of(item)
        asked = fields.get("value", item)
        yield Question(
            interrupt_id=_interrupt_id(fields),
            task_id=write.task_id,
            node=task.node,
            value=asked if cut is None else cut.with_kept(asked),
            answered=task.finished,
            failed_answer=failed_answer,
            response_schema=fields.get("response_schema"),
        )


def _interrupt_id(fields: Mapping[Value, Value]) -> str | None:
    """Return the id of an Interrupt. LangGraph before 0.6 stored `ns`, which is hashed to it."""
    identity = fields.get("id", fields.get("interrupt_id"))
    if isinstance(identity, str) and identity != "placeholder-id":
        return identity
    namespaces = fields.get("ns")
    names = namespaces if isinstance(namespaces, list) else []
    texts = [name for name in names if isinstance(name, str)]
    return interrupt_id(texts) if texts and len(texts) == len(names) else None


def _error_text(value: Value) -> str:
    """Return an error as text: its `repr` from Python, name and message from LangGraph.js."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        # A copy from RedisSaver, which gives exceptions back as the dicts that it made of them.
        from ckpt_backends.codec.json import revive

        value = revive(value)
    fields = fields_of(value)
    texts = [text for key in ("name", "message") if isinstance(text := fields.get(key), str)]
    return ": ".join(texts) or (value.type if isinstance(value, Tagged) else "unreadable")


def _value(write: Write) -> Value:
    return None if write.value is None else decode(write.value)


_MAPS = (CHANNELS, "channel_versions", "versions_seen")
_VERSIONS = frozenset((str, int, float))


def conditions_of(step: Step | None) -> tuple[Status, ...]:
    """Return all conditions of a thread, given the step after its root head, the worst first.

    `step` is None if there is no head. There is at least one condition. Only `error` and
    `interrupted` occur together, from two tasks of one step.
    """
    if step is None:
        return (Status.EMPTY,)
    found = []
    # Most steps have neither, and a list asks this of each.
    if any(run.error is not None or run.questions for run in step.runs):
        if blocking_failures(step):
            found.append(Status.ERROR)
        if step.open_questions:
            found.append(Status.INTERRUPTED)
    if found:
        return tuple(found)
    if step.next is None:
        return (Status.UNKNOWN,)
    return (Status.PENDING if step.next else Status.DONE,)


def status_of(step: Step | None) -> Status:
    """Return the worst condition of a thread, given the step after its root head."""
    return conditions_of(step)[0]


def is_uncommitted(step: Step) -> bool:
    """Return whether all tasks of a step finished, of which the next checkpoint would tell."""
    return (
        bool(step.next)
        and not step.assumed
        and all(task.finished for task in step.tasks)
        and all(run.finished for run in step.others if run.questions or run.error is not None)
    )


def is_surely_done(checkpoint: Checkpoint) -> bool:
    """Return whether nothing runs after a checkpoint on which no writes are stored.

    Its body and metadata must have been read. True only for a graph whose edges are channels, if
    no node reads a channel that has a value. `plan_step` then finds no task either. False if only
    `plan_step` can tell.
    """
    # `read_body` would copy all of it to check each part, of every head of a store.
    body = None if checkpoint.body is None else decode_checkpoint(checkpoint.body)
    if not isinstance(body, dict) or _may_be_input(checkpoint):
        return False
    if not isinstance(v := body.get("v"), int) or v < 4:
        return False
    values, versions, seen = (body.get(name, {}) for name in _MAPS)
    if not (isinstance(values, dict) and isinstance(versions, dict) and isinstance(seen, dict)):
        return False
    if checkpoint.blobs:
        values = {**values, **dict.fromkeys(checkpoint.blobs)}
    if values.get(state.SENDS, []) != [] or state.START in values:
        return False
    if not _VERSIONS.issuperset(map(type, versions.values())):
        return False
    # All threads of a graph have the same channels: `named_node` remembers them.
    named = [one for one in versions if isinstance(one, str) and state.named_node(one) is not None]
    if not named and state.START not in versions:
        return False
    if any(one in values for one in named):
        return False
    return all(
        isinstance(channels, dict) and values.keys().isdisjoint(channels)
        for node, channels in seen.items()
        if node not in state.NOT_NODES
    )


def _may_be_input(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint has the source `input`, or metadata of which one cannot tell."""
    metadata = checkpoint.metadata
    if metadata is None:
        return False
    if metadata.type == "json" and b'"input"' not in metadata.data and b"\\" not in metadata.data:
        # Without an escape, the text would contain it.
        return False
    found = decode(metadata)
    return not isinstance(found, dict) or found.get("source") == "input"


def blocking_failures(step: Step) -> list[Task]:
    """Return the tasks for whose retry a step waits: their errors give it the status error."""
    runs = (*step.tasks, *(run for run in step.others if _is_part(run, step)))
    return list(filter(has_failed, runs))


def blocking_error(step: Step) -> str | None:
    """Return the first of these errors on one line, with its node; None if there is none."""
    return next((f"{run.node or '?'}: {run.error}" for run in blocking_failures(step)), None)


def has_failed(run: Task) -> bool:
    """Return whether a task failed, and was neither retried nor handled."""
    return run.error is not None and not run.finished and not run.handled


def _is_part(run: Task, step: Step) -> bool:
    """Return whether the error of an unplanned task counts as an error of the step.

    The error of a `@task` call counts for its caller. A task without a path is treated as a call if
    all planned tasks have an id.
    """
    if is_handler(run.path) or is_call(run.path):
        return is_handler(run.path)
    return step.next is None or any(task.id is None for task in step.tasks)


class TaskWrite(NamedTuple):
    """A write with its node and task path."""

    write: Write
    node: str | None
    """None for the caller's writes, and if the task is not known."""
    path: str
    """The task path; computed if the layout stores none."""
    instead: Value = None
    """Value to show instead of the real one, for example when it is redacted."""

    @property
    def value(self) -> Value:
        """The decoded value, decoded again each time; None if it was not read."""
        if self.instead is not None or self.write.value is None:
            return self.instead
        return decode(self.write.value)

    def redacted(self) -> TaskWrite:
        """Return it with type and size in place of its value."""
        instead = None if self.write.value is None else redact(self.value)
        return self._replace(write=redact_write(self.write), instead=instead)


def task_writes(writes: Iterable[Write], step: Step) -> list[TaskWrite]:
    """Return the writes in the order in which LangGraph applies them, each with its task.

    Source: `writes_sort_key` in `langgraph/checkpoint/base`. If the layout stores no path, the path
    of the write's task is used. If it stores the time of each write, writes are sorted by that.
    """
    owned = tasks_by_id(step)
    found: list[TaskWrite] = []
    for write in writes:
        owner = owned.get(write.task_id)
        path = write.task_path or (owner.path if owner is not None else "")
        found.append(TaskWrite(write, owner.node if owner is not None else None, path))
    return sorted(found, key=_place)


def tasks_by_id(step: Step) -> dict[str, Task]:
    """Return task id to task for all writes, without the null task."""
    return {write.task_id: run for run in step.runs for write in run.writes}


def _place(one: TaskWrite) -> tuple[datetime, str, str, int]:
    write = one.write
    return write.at or NEVER, one.path, write.task_id, write.idx


RETRIED = "retried"
HANDLED = "handled"
_NO_RUN = {"input", "update", "fork"}

NodePath = tuple[str, ...]
"""The nodes that called each other's subgraphs, outermost first, then the node itself."""


def node_path(checkpoint_ns: str, nodes: Iterable[str]) -> NodePath:
    """Return nodes within a namespace as a path from the root graph."""
    return (*graph_of(checkpoint_ns), *nodes)


def path_text(path: NodePath) -> str:
    """Return a path in readable form: `research > ask`."""
    return " > ".join(path)


def asked_by(question: Question) -> NodePath:
    """Return the path of the node that asked, relative to the checkpoint's namespace."""
    return question.path or (question.node or "?",)


def failed_at(task: Task) -> NodePath:
    """Return the path of the node that failed, relative to the checkpoint's namespace."""
    return task.failed_in or (task.node or "?",)


def next_paths(step: Step) -> tuple[NodePath, ...] | None:
    """Return the nodes that run next; for a subgraph that asks, the path to the node that asked.

    Returns None if the next nodes are not known.
    """
    return None if step.next is None else _paths(step.tasks)


def waiting_paths(step: Step) -> tuple[NodePath, ...] | None:
    """Return the same for the tasks without a saved result, of which `get_state` of LangGraph 1.2
    gives the nodes as `next`.
    """
    waiting = [task for task in step.tasks if not task.finished]
    return None if step.waiting is None else _paths(waiting)


def _paths(tasks: Iterable[Task]) -> tuple[NodePath, ...]:
    found: list[NodePath] = []
    for task in tasks:
        asking = [asked_by(question) for question in task.questions if question.is_open]
        if task.node is not None:
            found += asking or [(task.node,)]
    return tuple(found)


def failures(step: Step) -> list[Task]:
    """Return the tasks that failed, including those that were retried with success or handled.

    Calls of `@task` functions are left out: their failure counts for the caller, or was caught
    there.
    """
    return [run for run in step.runs if run.error is not None and not is_call(run.path)]


def marks(step: Step, *, passed: bool) -> list[str]:
    """Return the marks of a checkpoint's step: its conditions, and whether failures were handled.

    `passed`: other checkpoints follow this one, so nothing is pending any more.
    """
    conditions = conditions_of(step)
    found: list[str] = []
    if not (passed and conditions == (Status.PENDING,)):
        found += [one.value for one in conditions]
    if failed := failures(step):
        if any(run.finished for run in failed):
            found.append(RETRIED)
        if any(run.handled and not run.finished for run in failed):
            found.append(HANDLED)
    return found


def ran_here(source: str | None) -> bool:
    """Return whether a run made the checkpoint: False for inputs, updates and forks."""
    return source not in _NO_RUN


def ran(
    before: Step,
    seen_before: Mapping[str, Mapping[str, state.Version]],
    seen: Mapping[str, Mapping[str, state.Version]],
) -> tuple[str, ...]:
    """Return the nodes that ran to make a checkpoint, one entry per task.

    These are the tasks of its parent with output, and nodes that have read newer channel versions
    than at the parent: such nodes ran even if none of their writes is stored. If a new input came
    in between, as `durability="exit"` stores it, what was next at the parent did not run.
    """
    started = new_input(before, seen_before, seen)
    found = () if started is not None else finished(before)
    read = {
        node
        for node, versions in seen.items()
        if node not in state.NOT_NODES
        and versions != seen_before.get(node)
        and (
            started is None
            or node == state.START
            or any(state.is_greater(version, started) for version in versions.values())
        )
    }
    called = {run.node for run in before.others if is_call(run.path)}
    return (*found, *sorted(read.difference(found, called)))


def new_input(
    before: Step,
    seen_before: Mapping[str, Mapping[str, state.Version]],
    seen: Mapping[str, Mapping[str, state.Version]],
) -> state.Version | None:
    """Return the version of a new input that a StateGraph read after the parent; None if none came.

    An input drops the tasks of its parent, and what they stored. It notes in `versions_seen` what
    they would have read. What runs after it reads newer versions than its own.
    """
    version = seen.get(state.START, {}).get(state.START)
    known = seen_before.get(state.START, {}).get(state.START)
    is_old = (
        version is None or version == known or any(one.node == state.START for one in before.tasks)
    )
    return None if is_old else version


def finished(step: Step) -> tuple[str, ...]:
    """Return the nodes with stored output, one entry per task."""
    others = (
        run for run in step.others if not is_call(run.path) and not run.path.startswith(UPDATE_PATH)
    )
    runs = (*step.tasks, *others)
    return tuple(run.node for run in runs if run.finished and run.node is not None)


def moved_id(task: Task, body: state.Body, origin: TaskIdBase, copy: TaskIdBase) -> str | None:
    """Return the id of a task at the copy; None if its id cannot be hashed.

    The hash that gives the stored id at `origin` is computed again for `copy`.
    """
    old, new = _ids(task, body, origin), _ids(task, body, copy)
    return next((there for here, there in zip(old, new, strict=True) if here == task.id), None)


def _ids(task: Task, body: state.Body, origin: TaskIdBase) -> Iterator[str]:
    """Yield the ids that a task may have, always in the same order."""
    if task.node is None:
        return
    index = sent_index(task.path)
    if index is not None:
        yield from send_ids(origin, task.node, index)
    elif pulled_node(task.path) == task.node:
        read = {channel for channel, nodes in state.learn([body]).items() if task.node in nodes}
        known = {*read, f"branch:to:{task.node}", state.START}
        yield from pull_ids(origin, task.node, trigger_sets(known, ()))
