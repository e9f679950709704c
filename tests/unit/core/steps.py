"""Bodies and writes that are made by hand, and the step that follows from them."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import ormsgpack

from ckpt_backends.codec.values import Cut, Value
from ckpt_backends.model import CheckpointKey, TypedBytes, Write
from ckpt_cli.core import tasks
from ckpt_cli.core.state import Body, Readers, Version
from ckpt_cli.core.tasks import Lookups, Step, plan_step, subgraph_calls

ID = "1f1e5fb1-d49f-650c-8000-82528a6163b8"
KEY = CheckpointKey("t", "", ID)
OLD, NEW = "00000001.0.5", "00000002.0.5"
T = TypeVar("T")


def body(
    values: Mapping[str, Any] | None = None,
    versions: Mapping[str, Version] | None = None,
    seen: Mapping[str, Mapping[str, Version]] | None = None,
    *,
    v: int = 4,
    sends: Any = (),
    ts: str | None = None,
) -> Body:
    """A body; the versions of stored channels default to a new one."""
    stored: Mapping[str, Any] = values or {}
    known = {**dict.fromkeys(stored, NEW), **(versions or {})}
    inline: Any = sends if sends is None or isinstance(sends, Cut) else list(sends)
    return Body(v=v, ts=ts, values=stored, versions=known, seen=seen or {}, pending_sends=inline)


def write(
    task_id: str, channel: str = "items", value: Any = 1, path: str = "", idx: int = 0
) -> Write:
    data = json.dumps(value).encode()
    return Write(KEY, task_id, path, idx, channel, len(data), TypedBytes("json", data))


def packed(task_id: str, channel: str, data: bytes, path: str = "") -> Write:
    return Write(KEY, task_id, path, 0, channel, len(data), TypedBytes("msgpack", data))


def interrupts(*fields: dict[str, Any]) -> bytes:
    found = [ormsgpack.packb(["langgraph.types", "Interrupt", one]) for one in fields]
    return ormsgpack.packb([ormsgpack.Ext(2, data) for data in found])


def pull(node: str) -> str:
    return tasks.pull_path(node)


def origin_at(ns: str = "", *, v: int = 4, step: int = 1) -> tasks.TaskIdBase:
    """What the ids of the tasks of a step are made of."""
    origin = tasks.origin_of(ID, ns, step, v, is_numeric=False)
    assert origin is not None
    return origin


def hashed(node: str, *triggers: str, ns: str = "", v: int = 4, step: int = 1) -> str:
    return next(iter(tasks.pull_ids(origin_at(ns, v=v, step=step), node, [triggers])))


@dataclass
class Sources:
    """What the callables give, and how often they were asked."""

    parent: Sequence[Write] = ()
    own: Sequence[Write] = ()
    thread: Readers = field(default_factory=dict)
    store: Readers = field(default_factory=dict)
    namespaces: Collection[str] = ()
    asked: Counter[str] = field(default_factory=Counter)

    def give(self, name: str, value: T) -> Callable[[], T]:
        def answer() -> T:
            self.asked[name] += 1
            return value

        return answer


def plan(
    body: Body,
    writes: Sequence[Write] = (),
    sources: Sources | None = None,
    *,
    key: CheckpointKey = KEY,
    metadata: Mapping[str, Value] | None = None,
    delta: Collection[str] = (),
    followers: Mapping[str, Collection[str]] | None = None,
) -> Step:
    given = sources or Sources()
    return plan_step(
        key,
        body,
        {"source": "loop", "step": 0} if metadata is None else metadata,
        writes,
        Lookups(
            parent_sends=given.give("parent", given.parent),
            own_sends=given.give("own", given.own),
            learned_thread=given.give("thread", given.thread),
            learned_store=given.give("store", given.store),
            calls=given.give(
                "namespaces", subgraph_calls(given.namespaces).get(key.checkpoint_ns, {})
            ),
            followers=(followers or {}).get,
        ),
        delta_channels=delta,
    )
