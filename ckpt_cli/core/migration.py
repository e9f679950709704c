"""What is stored otherwise in a thread so that it resumes in another version of its graph.

LangGraph finds the results, answers and subgraphs of a task by its id, which is a hash of the
checkpoint, the node, and all channels that trigger the node; and values by the names of channels,
some of which hold the names of nodes. See `prepare_single_task` in `langgraph/pregel/_algo.py`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ckpt_backends import shell
from ckpt_backends.codec import from_json
from ckpt_backends.codec.values import Tagged, Value, items_of
from ckpt_backends.errors import Unsupported, UsageError
from ckpt_cli.core.compat import Graph, GraphFile, deferred_pair, join_members
from ckpt_cli.core.edit_state import BRANCH
from ckpt_cli.core.state import NOT_NODES, SENDS, START, Body, learn, named_node
from ckpt_cli.core.tasks import (
    UPDATE_PATH,
    Caller,
    Step,
    Task,
    TaskIdBase,
    call_ids,
    call_of,
    call_path,
    caller_of,
    handler_ids,
    handler_path,
    is_call,
    is_handler,
    pull_ids,
    pull_path,
    pulled_node,
    send_ids,
    sent_index,
    trigger_sets,
    update_ids,
)

_HANDLER = "__error_handler__"
"""Start of the name of the node that handles the errors of another one."""
_JOIN = "join:"
_UPDATES = 64
_GIVEN = frozenset({"arg", "args"})


class Migration(NamedTuple):
    """What is asked for."""

    nodes: Mapping[str, str] = {}
    """The new names of nodes."""
    keys: Mapping[str, str] = {}
    """The new names of keys of the state."""
    defaults: Mapping[str, Any] = {}
    """Values of keys that a thread has not, as plain JSON."""

    def check(self, file: GraphFile | None) -> None:
        """Raise `UsageError` for a name that does not fit the new graphs."""
        if file is None:
            return
        parts = file.parts
        for kind, names, known in (
            ("node", self.nodes, [one.nodes for one in parts]),
            ("key", self.keys, [one.channels for one in parts]),
        ):
            for old, new in names.items():
                # The name of a @task is not among the nodes.
                called = {call for one in parts for call in functions_of(one)}
                if not any(new in one for one in known) and new not in called:
                    shown = sorted(
                        {name for one in known for name in one if not _is_internal(name)}
                    )
                    raise UsageError(
                        f"the new graph has no {kind} '{new}', to which '{old}' is to be renamed",
                        hint=f"it has {', '.join(map(shell.word, shown)) or 'none'}",
                    )
        for key in self.defaults:
            if not any(key in one.channels for one in parts):
                raise UsageError(f"the new graph has no key '{key}'", hint="leave out its default")


def _is_internal(name: str) -> bool:
    return ":" in name or name.startswith("__")


def parse_pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Parse `OLD=NEW` of an option. Raises `UsageError`."""
    found: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise UsageError(f"'{text}' is not OLD=NEW", hint=f"such as {option} ask=review")
        if old in found or new in found.values():
            raise UsageError(f"{option} names '{old if old in found else new}' twice")
        found[old] = new
    return found


def parse_defaults(texts: Iterable[str]) -> dict[str, Any]:
    """Parse `KEY=JSON`. Raises `UsageError`."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, form = text.partition("=")
        try:
            if not (key and equals):
                raise ValueError("it has no '='")
            found[key] = from_json(json.loads(form))
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"'{text}' is not KEY=JSON: {str(error).lower()}",
                hint="strings are JSON: --default 'plan=\"none\"'",
            ) from None
    return found


class Names(NamedTuple):
    """The new names in one namespace of a thread."""

    nodes: Mapping[str, str]
    keys: Mapping[str, str]
    joins: Mapping[str, str]
    """The channels of joins whose members are in another order in the new graph."""

    def node(self, name: str) -> str:
        """Return the new name of a node."""
        if name.startswith(_HANDLER):
            return _HANDLER + self.node(name.removeprefix(_HANDLER))
        return self.nodes.get(name, name)

    def channel(self, name: str) -> str:
        """Return the new name of a channel."""
        if name.startswith(BRANCH):
            return BRANCH + self.node(name.removeprefix(BRANCH))
        if name.startswith(_JOIN):
            return self.joins.get(name) or self._join(name)
        return self.keys.get(name, name)

    def _join(self, name: str) -> str:
        members, _, node = name.removeprefix(_JOIN).rpartition(":")
        return f"{_JOIN}{'+'.join(map(self.node, members.split('+')))}:{self.node(node)}"

    def renames_in(self, channel: str) -> bool:
        """Return whether what tasks write to a channel may hold a name that is another one."""
        return bool(
            (channel == SENDS and (self.nodes or self.keys))
            or (channel.startswith(_JOIN) and self.nodes)
        )

    def path(self, path: str) -> str:
        """Return the path of a task with the new names."""
        if is_handler(path):
            failed = path.removesuffix(handler_path(""))
            return handler_path(self.path(failed))
        if (call := call_of(path)) is not None:
            return call_path(self.path(call[0]), call[1])
        node = pulled_node(path)
        return path if node is None or path != pull_path(node) else pull_path(self.node(node))


def names_in(asked: Migration, graph: Graph | None, channels: Collection[str]) -> Names:
    """Return the new names in a namespace with some channels.

    A name is another one only where the new graph knows the new name and not the old one. Without a
    graph, each name is another one.
    """
    nodes, keys = dict(asked.nodes), dict(asked.keys)
    if graph is not None:
        calls = functions_of(graph)
        nodes = {
            old: new
            for old, new in nodes.items()
            if (new in graph.nodes and old not in graph.nodes)
            or (new in calls and old not in calls)
        }
        keys = {
            old: new
            for old, new in keys.items()
            if new in graph.channels and old not in graph.channels
        }
    names = Names(nodes, keys, {})
    if graph is None:
        return names
    joins = {
        name: found
        for name in channels
        if name.startswith(_JOIN) and (found := _reordered(graph, names.channel(name))) is not None
    }
    return names._replace(joins=joins)


def functions_of(graph: Graph) -> set[str]:
    """Return the names of the `@task` functions that a graph may call."""
    return {call for one in graph.nodes.values() for call in one.calls}


def _reordered(graph: Graph, name: str) -> str | None:
    """Return the join of the same node with the same members in another order, if it is one."""
    if name in graph.channels:
        return None
    node, members = named_node(name), name.removeprefix(_JOIN).rpartition(":")[0]
    parts = sorted(members.split("+"))
    alike = [
        one
        for one in graph.joins
        if named_node(one) == node
        and sorted(one.removeprefix(_JOIN).rpartition(":")[0].split("+")) == parts
    ]
    return alike[0] if len(alike) == 1 else None


# Values that name nodes or keys, or whose form follows from the kind of their channel.


def migrated(channel: str, value: Value, names: Names, graph: Graph | None) -> Value:
    """Return the value of a channel, which is given by its old name, for the new graph.

    Raises `Unsupported` for the value of a node that waits for its turn and is not deferred any
    more.
    """
    if channel == SENDS:
        items = items_of(value)
        return value if items is None else [sent(one, names) for one in items]
    if channel == START:
        return _with_keys(value, names.keys)
    if not channel.startswith((BRANCH, _JOIN)):
        return value
    if channel.startswith(_JOIN) and names.nodes:
        value = _with_members(value, names)
    return _as_deferred(names.channel(channel), value, graph)


def sent(value: Value, names: Names) -> Value:
    """Return a Send, or any other value, with the new names."""
    if not isinstance(value, Tagged):
        return value
    payload = value.payload
    made: Value = None
    if isinstance(payload, list) and len(payload) > 1 and isinstance(payload[0], str):
        node, given, *more = payload
        made = [names.node(str(node)), _with_keys(given, names.keys), *more]
    elif isinstance(payload, dict) and isinstance(payload.get("node"), str):
        made = {
            name: _with_keys(one, names.keys) if name in _GIVEN else one
            for name, one in payload.items()
        }
        made["node"] = names.node(str(payload["node"]))
    if made is None or made == payload:
        return value
    return Tagged(value.type, made)


def _with_keys(value: Value, keys: Mapping[str, str]) -> Value:
    if not isinstance(value, dict) or value.keys().isdisjoint(keys):
        return value
    return {
        keys.get(name, name) if isinstance(name, str) else name: one for name, one in value.items()
    }


def _with_members(value: Value, names: Names) -> Value:
    """Return the value of a join with the new names of those that arrived."""
    if isinstance(value, Tagged):
        return Tagged(value.type, _with_members(value.payload, names))
    if isinstance(value, list):
        return [_with_members(one, names) for one in value]
    return names.node(value) if isinstance(value, str) else value


def _as_deferred(channel: str, value: Value, graph: Graph | None) -> Value:
    """Return the value of an edge in the form that its channel has in the new graph."""
    known = None if graph is None else graph.channels.get(channel)
    if known is None:
        return value
    pair = deferred_pair(value)
    if known.kind.endswith("AfterFinish") and pair is None:
        return [value, known.members <= join_members(value)]
    if pair is None or known.kind.endswith("AfterFinish"):
        return value
    stored, is_finished = pair
    if not is_finished and (not known.members or known.members <= join_members(stored)):
        raise Unsupported(
            f"node '{named_node(channel)}' waits for its turn, and is not deferred any more:"
            " LangGraph would not run it",
            hint="keep it deferred until this thread is done",
        )
    return stored


# The ids of tasks.


class Filed(NamedTuple):
    """A task under its old and its new id."""

    node: str
    """Its new name."""
    old: str | None
    """None if it has stored nothing."""
    new: str


class Unknown(Unsupported):
    """The id of a task in the new graph cannot be computed."""

    def __init__(self, node: str | None) -> None:
        named = f"a task of node '{node}'" if node is not None else "a task whose node is not known"
        super().__init__(f"the id that {named} has in the new graph cannot be computed")


def refiled(
    step: Step,
    body: Body,
    origins: tuple[TaskIdBase, TaskIdBase],
    names: Names,
    graph: Graph | None,
    called: Mapping[str, str],
) -> list[Filed]:
    """Return the tasks of a step with their ids at a checkpoint, and at its copy.

    `origins` are what ids are hashed from there; `called` are the subgraph calls, task id to node.
    Without a graph, nodes keep their triggers. Raises `Unknown`.
    """
    found: list[Filed] = []
    callers: dict[str, tuple[Caller, Caller]] = {}
    """By the old path, a task that may have called others: there, and in the copy."""
    ids: dict[str, Filed] = {}
    for task in step.tasks:
        if task.node is None:
            raise Unknown(None)
        one = _filed(task, task.node, body, origins, names, graph, called)
        found.append(one)
        ids[task.path] = one
        callers[task.path] = (
            caller_of(origins[0], task.node, one.old or "", task.path),
            caller_of(origins[1], one.node, one.new, names.path(task.path)),
        )
    moved: dict[str, str] = {}
    if any(not is_call(one.path) for one in step.others):
        updates = [update_ids(one, _UPDATES) for one in origins]
        moved |= zip(*updates, strict=True)
    for task in sorted(step.others, key=lambda one: len(one.path)):
        if task.id is None:
            continue
        if task.id in moved or task.path.startswith(UPDATE_PATH):
            new = moved.get(task.id)
        elif task.path.startswith("~~"):  # what an earlier step wrote, for a DeltaChannel
            new = task.id
        elif is_handler(task.path):
            new = _handler(task, ids, origins[1], names)
        else:
            known = {*names.nodes, *(functions_of(graph) if graph is not None else ())}
            new = _call(task, callers, origins, names, known)
        if new is None:
            raise Unknown(task.node)
        found.append(Filed(names.node(task.node or ""), task.id, new))
    return found


def _filed(
    task: Task,
    node: str,
    body: Body,
    origins: tuple[TaskIdBase, TaskIdBase],
    names: Names,
    graph: Graph | None,
    called: Mapping[str, str],
) -> Filed:
    here, there = origins
    known = {task.id} if task.id is not None else {one for one in called if called[one] == node}
    index, new_node = sent_index(task.path), names.node(node)
    if index is not None:
        old = next((one for one in send_ids(here, node, index) if one in known), task.id)
        return Filed(new_node, old, next(send_ids(there, new_node, index)))
    read = {channel for channel, nodes in learn([body]).items() if node in nodes}
    triggers, new = None, None
    for some in trigger_sets({*read, f"{BRANCH}{node}", START}, ()):
        if known.intersection(pull_ids(here, node, [some])):
            triggers = some
            break
    if graph is not None and new_node in graph.nodes:
        new = next(pull_ids(there, new_node, [graph.nodes[new_node].triggers]))
    elif graph is not None:
        new = task.id or ""  # the new graph has no such task: the judge says what that means
    elif triggers is not None:
        new = next(pull_ids(there, new_node, [set(map(names.channel, triggers))]))
    elif not known:
        new = ""  # it stored nothing
    if new is None:
        raise Unknown(node)
    old = task.id
    if old is None and triggers is not None:
        old = next(one for one in pull_ids(here, node, [triggers]) if one in known)
    return Filed(new_node, old, new)


def _handler(task: Task, ids: Mapping[str, Filed], there: TaskIdBase, names: Names) -> str | None:
    failed = ids.get(task.path.removesuffix(handler_path("")))
    if failed is None or task.node is None:
        return None
    return next(handler_ids(there, names.node(task.node), failed.node, failed.new), None)


def _call(
    task: Task,
    callers: dict[str, tuple[Caller, Caller]],
    origins: tuple[TaskIdBase, TaskIdBase],
    names: Names,
    known: Collection[str],
) -> str | None:
    """Return the new id of a call of a `@task` function, which may have made others.

    `known` are names of such functions, old and new.
    """
    call = call_of(task.path)
    if call is None or call[0] not in callers or task.id is None:
        return None
    old, new = callers[call[0]]
    named = [task.node] if task.node is not None else sorted(known)
    name = next((one for one in named if task.id in call_ids(origins[0], one, old, call[1])), None)
    name = name or task.node
    if name is None:
        return None
    found = next(call_ids(origins[1], names.node(name), new, call[1]))
    inside = [
        one._replace(checkpoint_ns=each.checkpoint_ns)
        for one, each in zip(origins, callers[call[0]], strict=True)
    ]
    callers[task.path] = (
        caller_of(inside[0], name, task.id, task.path),
        caller_of(inside[1], names.node(name), found, call_path(new.path, call[1])),
    )
    return found


def written(channel: str, value: Value, names: Names) -> Value:
    """Return what a task wrote to a channel, which is given by its old name, for the new graph."""
    if channel == SENDS:
        return sent(value, names)
    return names.node(value) if channel.startswith(_JOIN) and isinstance(value, str) else value


def seen_in(body: Body, names: Names) -> dict[str, Any]:
    """Return `versions_seen` with the new names."""
    return {
        node if node in NOT_NODES else names.node(node): {
            names.channel(channel): version for channel, version in seen.items()
        }
        for node, seen in body.seen.items()
    }


def with_ids(data: bytes, ids: Mapping[str, str]) -> bytes:
    """Return a stored value with other ids of questions.

    An id is a hash of 32 hex digits, in each serializer: nothing else is equal to it.
    """
    for old, new in ids.items():
        data = data.replace(old.encode(), new.encode())
    return data
