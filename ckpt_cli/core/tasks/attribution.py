"""Which node a task is, and which call a namespace belongs to."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, product
from operator import attrgetter

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Write
from ckpt_cli.core.state import ERROR, Body, step_from
from ckpt_cli.core.tasks import task_ids
from ckpt_cli.core.tasks.triggers import NOT_NODES, START, Readers, named_node
from ckpt_cli.core.values import fields_of

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


class Run:
    """A task and its writes, while writes are assigned to tasks."""

    __slots__ = ("fired", "index", "node", "path", "writes")

    def __init__(
        self,
        node: str | None,
        path: str,
        index: int | None = None,
        fired: frozenset[str] = frozenset(),
        writes: list[Write] | None = None,
    ) -> None:
        self.node = node
        self.path = path
        self.index = index
        """Index among the pending Sends; None for a task that is not a Send."""
        self.fired = fired
        """The channels that triggered the node."""
        self.writes = [] if writes is None else writes


def subgraph_calls(namespaces: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the subgraph calls of each namespace, as task id to node.

    A call has the namespace `node:task_id` below its parent's namespace.
    """
    calls: dict[str, dict[str, str]] = {}
    for namespace in namespaces:
        segments = namespace.split("|", _DEEPEST)[:_DEEPEST]
        for place, segment in enumerate(segments):
            node, _, task_id = segment.rpartition(":")
            if node:
                calls.setdefault("|".join(segments[:place]), {})[task_id] = node
    return calls


def function_names(
    namespaces: Iterable[str], metadata: Iterable[Mapping[str, Value]], bodies: Iterable[Body] = ()
) -> list[str]:
    """Return names in namespaces, metadata and bodies that may be `@task` functions.

    `versions_seen` names each task that ran. Metadata of LangGraph before 0.5 names each task that
    wrote. A function that called a subgraph has a namespace, and the metadata there has its name.
    """
    names: dict[str, None] = {}
    for body in bodies:
        names |= dict.fromkeys(name for name in body.seen if name not in NOT_NODES)
    for namespace in namespaces:
        for segment in namespace.split("|", _DEEPEST)[:_DEEPEST]:
            names[segment.rpartition(":")[0] or segment] = None
    for fields in metadata:
        wrote, node = fields.get("writes"), fields.get("langgraph_node")
        for name in [*(wrote if isinstance(wrote, dict) else ()), node]:
            if isinstance(name, str):
                names[name] = None
    return [name for name in names if 0 < len(name) <= _LONGEST]


class Attribution:
    """The planned tasks of one checkpoint, and the writes that are not assigned to a task yet."""

    def __init__(
        self,
        key: CheckpointKey,
        body: Body,
        metadata: Mapping[str, Value],
        writes: Iterable[Write],
        own: Readers,
        *,
        learned_thread: Callable[[], Readers],
        learned_store: Callable[[], Readers],
        calls: Callable[[], Mapping[str, str]],
        functions: Callable[[], Iterable[str]] = tuple,
        functions_elsewhere: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.sends: list[Run] = []
        self.nodes: dict[str, Run] = {}
        self.own = own
        """The nodes that read each channel, as the body itself tells."""
        self._body = body
        self._learned_thread = learned_thread
        self._learned_store = learned_store
        self._ask_calls = calls
        self._functions = functions
        self._functions_elsewhere = functions_elsewhere
        self._key = key
        self._step = step_from(metadata)
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
    def _origin(self) -> task_ids.TaskIdBase | None:
        """What ids are hashed from; only needed if paths do not tell enough."""
        return task_ids.origin_of(
            self._key.checkpoint_id,
            self._key.checkpoint_ns,
            0 if self._step is None else self._step + 1,
            self._body.v,
            is_numeric=not any(isinstance(one, str) for one in self._body.versions.values()),
        )

    def plan_sends(self, nodes: Sequence[str | None]) -> None:
        """Plan the tasks of the pending Sends and assign their writes to them."""
        if not nodes:
            return
        self.sends = [
            Run(node, task_ids.send_path(index, self._body.v), index)
            for index, node in enumerate(nodes)
            if node is not None
        ]
        places = {run.index: run for run in self.sends}
        for task_id, writes in list(self._unclaimed.items()):
            if (index := task_ids.sent_index(path_of(writes))) in places:
                self._claim(places[index], task_id)
        if self.sends and self._homeless():
            for run in self.sends:
                self._claim_any(run, self._send_ids(run))

    def plan_nodes(self, nodes: Nodes) -> None:
        """Plan the tasks of these nodes and assign their writes to them."""
        runs = {
            node: Run(node, task_ids.pull_path(node), fired=frozenset(fired))
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
        self._match_hashes(runs, self._learned_thread)

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
            yield Run(writes[0].node or node or task_ids.pulled_node(path), path, writes=writes)

    def _readers_of(self, channel: str) -> Nodes:
        paths = map(path_of, self._unclaimed.values())
        ran = {node for path in paths if (node := task_ids.running_node(path)) is not None}
        ran -= {named_node(name) for name in self._chosen}  # the caller named these nodes
        if channel == START:
            ran = ran or set(self._proven(channel, {START}, {}))
        else:
            # Some of the nodes that it triggers may not have run yet.
            ran = set(self._learned_thread().get(channel, ())) or ran
        ran = ran or set(self._learned_thread().get(channel, ())) or self._called(channel)
        if ran:
            return {node: {channel} for node in ran}
        if not self._homeless():
            return {}
        return self._proven(channel, self._learned_store().get(channel, ()), self._store_channels)

    @cached_property
    def _store_channels(self) -> Nodes:
        return _inverted(self._learned_store())

    def _match_hashes(self, runs: Mapping[str, Run], learned: Callable[[], Readers]) -> None:
        lacking = [run for run in runs.values() if not run.writes]
        if lacking and self._homeless():
            channels = _inverted(learned())
            for run in lacking:
                self._claim_any(run, self._node_ids(run, channels))

    def _send_ids(self, run: Run) -> Iterator[str]:
        if self._origin is not None and run.node is not None and run.index is not None:
            yield from task_ids.send_ids(self._origin, run.node, run.index)

    def _node_ids(self, run: Run, channels: Nodes) -> Iterator[str]:
        if self._origin is None or run.node is None or len(run.node) > _LONGEST:
            return
        if self._budget > 0:
            # Every node of a StateGraph has this trigger, even if nothing was ever written to it.
            is_named = self._body.v > 1 or self._body.is_javascript
            named = {f"branch:to:{run.node}"} if is_named else set()
            known = {*channels.get(run.node, ()), *run.fired, *named}
            triggers = task_ids.trigger_sets(known, run.fired)
            # Cost is counted in bytes, because names can have any length.
            names = (self._origin.checkpoint_ns, run.node, run.node, *known)
            cost = _OVERHEAD + sum(map(len, names))
            for found in task_ids.pull_ids(self._origin, run.node, triggers, len(self.sends)):
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
            if (not (path := path_of(writes)) or path.startswith(task_ids.UPDATE_PATH))
            and task_id not in self._updates
        }

    @cached_property
    def _updates(self) -> dict[str, str]:
        """Ids that only tasks of `update_state` can have; hashed only if tasks are left."""
        if self._origin is None or not self._tasks:
            return {}
        return task_ids.update_ids(self._origin, min(self._tasks, _UPDATES))

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
        return self._ask_calls()

    def _handlers(self) -> dict[str, tuple[str, str]]:
        """Return task id to (node, path) for the error handlers of failed tasks.

        The names of handlers come from `StateGraph.add_node(error_handler=...)` and
        `StateGraph.set_node_defaults`.
        """
        found: dict[str, tuple[str, str]] = {}
        for run in (*self.sends, *self.nodes.values()) if self._unclaimed else ():
            failed = {write.task_id for write in run.writes if write.channel == ERROR_SOURCE}
            path = task_ids.handler_path(run.path)
            for name in (f"__error_handler__{run.node}", "__default_error_handler__"):
                for task_id in failed:
                    found |= dict.fromkeys(self._handler_ids(run, name, task_id), (name, path))
        return found

    def _handler_ids(self, failed: Run, handler: str, task_id: str) -> Iterator[str]:
        if self._origin is not None and failed.node is not None:
            yield from task_ids.handler_ids(self._origin, handler, failed.node, task_id)

    def _named_calls(self, traced: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return task id to (name, path) for `@task` functions whose name hashes to the id.

        Names come from the thread and from what errors say, then from other threads of the store.
        """
        paths = {task_id: path_of(writes) for task_id, writes in self._unclaimed.items()}
        calls = {one: call for one, path in paths.items() if (call := task_ids.call_of(path))}
        unknown = {*calls, *(self._homeless() - set(traced))}
        if self._origin is None or not unknown:
            return {}
        names = dict.fromkeys([*self._functions(), *self.nodes, *self._words_of_errors(unknown)])
        found = self._hashed_calls(self._origin, names, unknown, calls)
        if unknown - found.keys() and (more := set(self._functions_elsewhere()) - names.keys()):
            # All names: a call that is found now may have made calls of known functions.
            names |= dict.fromkeys(sorted(more)[:_ELSEWHERE])
            found |= self._hashed_calls(self._origin, names, unknown, calls)
        return found

    def _hashed_calls(
        self,
        origin: task_ids.TaskIdBase,
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
                for task_id in task_ids.call_ids(origin, name, caller, index):
                    if task_id in unknown and task_id not in found:
                        path = task_ids.call_path(caller.path, index)
                        found[task_id] = (name, path)
                        inside = origin._replace(checkpoint_ns=caller.checkpoint_ns)
                        callers.append(task_ids.caller_of(inside, name, task_id, path))
        return found

    def _words_of_errors(self, unknown: Iterable[str]) -> Iterator[str]:
        """Yield words of the errors of some tasks: an error may name the function that failed."""
        words = (
            found[0]
            for task_id in sorted(unknown)
            for write in self._unclaimed[task_id]
            if write.channel == ERROR and write.value is not None
            for text in _texts(decode(write.value))
            for found in _WORD.finditer(text)
        )
        yield from islice(words, _WORDS)

    def _callers(self) -> Iterator[task_ids.Caller]:
        """Yield the planned tasks; one without writes is yielded under each possible id."""
        for run in (*self.sends, *self.nodes.values()):
            ids: Iterable[str] = [run.writes[0].task_id] if run.writes else self._send_ids(run)
            if not run.writes and run.index is None:
                ids = islice(self._node_ids(run, _inverted(self.own)), _UNFINISHED)
            if self._origin is not None and run.node is not None:
                for task_id in ids:
                    yield task_ids.caller_of(self._origin, run.node, task_id, run.path)

    def _unplanned(self) -> dict[str, tuple[str, str]]:
        """Return task id to (node, path) for nodes that ran although the state did not schedule
        them.

        This happens if the caller chose the node with `Command(goto=...)`.
        """
        found = {}
        chosen = {node: {name} for name in self._chosen if (node := named_node(name)) is not None}
        channels = _inverted(self.own) | chosen
        for node in channels.keys() - self.nodes.keys():
            for task_id in self._node_ids(Run(node, ""), channels):
                if task_id in self._unclaimed:
                    found[task_id] = (node, task_ids.pull_path(node))
        return found


def _texts(error: Value) -> Iterator[str]:
    """Yield the texts in a stored error: a `repr` from Python, name and message elsewhere."""
    parts = [error] if isinstance(error, str) else fields_of(error).values()
    return (text for text in parts if isinstance(text, str))


def path_of(writes: Sequence[Write]) -> str:
    """Return the path of a task. If several saver versions wrote it, some writes have none."""
    return max(map(_TASK_PATH, writes), default="")


def _inverted(readers: Readers) -> dict[str, set[str]]:
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
