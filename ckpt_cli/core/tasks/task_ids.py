"""Compute task ids and task paths as LangGraph does, to recognise stored ones.

A task id is a hash of checkpoint, namespace, step and node; the task path shows the kind of task.
Sources: `langgraph/pregel/_algo.py` (1.2.22, 0.6.11), `langgraph/pregel/algo.py` (0.2.70, 0.2.14),
`@langchain/langgraph/dist/pregel/algo.js` (1.7.3).
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple
from uuid import UUID, uuid5

from ckpt_cli.core.lineage import namespace_in

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
    from hashlib import sha1

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
