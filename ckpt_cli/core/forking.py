"""Copies of a checkpoint that LangGraph resumes from as if it had made them.

What LangGraph itself writes on time travel: `_first` in `langgraph/pregel/_loop.py` (a child of
`source: fork`) and `update_state(None, as_node="__copy__")` in `pregel/main.py` (a sibling).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from ckpt_backends.codec import decode
from ckpt_backends.codec.splice import Edit, Put, splice
from ckpt_backends.encrypted import is_encrypted_type
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.ids import ticks_at, ticks_of, time_of
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes
from ckpt_cli.core.plan import Form
from ckpt_cli.core.state import Body

BY = "forked_by"
"""Metadata key that marks a checkpoint as one that `ckpt` added."""
FROM = "forked_from"
"""Metadata key: the id of the checkpoint that it is a copy of."""
WITH = "forked_with"
"""Metadata key of a copy in a subgraph's namespace: the root checkpoint that was added with it."""
WRITES = "forked_writes"
"""Metadata key: how many writes came with it."""
THREAD = "forked_from_thread"
"""Metadata key: the thread that the thread of this checkpoint was copied from."""
CHECKPOINTS = "forked_checkpoints"
"""Metadata key: how many checkpoints were copied with it."""
REASON = "reason"
NAME = "ckpt"

EMPTY_STEP = -2
"""Step of a checkpoint without any state, as LangGraph numbers the stub of `durability="exit"`."""
NEWEST_FORMAT = 4
_FAR = timedelta(days=1)
_LAST_TICK = 1 << 60


def first_tick(now: datetime, heads: Iterable[str], *, force: bool) -> int:
    """The time of a new id that is greater than all of these, in ticks of a UUIDv6.

    Raises `Refused` where one of them lies more than a day in the future, unless forced: what an
    agent adds later would stand behind the new id. Raises `Unsupported` for ids of another kind.
    """
    latest = 0
    for head in heads:
        ticks = ticks_of(head)
        if ticks is None:
            raise Unsupported(
                f"checkpoint '{head}' has an id of its own kind",
                hint="LangGraph takes the greatest id for the head, and none can be made after it",
            )
        latest = max(latest, ticks)
    if latest > ticks_at(now + _FAR) and not force:
        raise Refused(
            "the thread's newest checkpoint lies in the future, by its id",
            hint="what is added has to lie behind it, and an agent's next checkpoint would not be"
            " the head; --force does it all the same",
        )
    if latest + 1 >= _LAST_TICK:
        raise Refused("no id can be greater than that of the thread's newest checkpoint")
    return max(ticks_at(now), latest + 1)


def form_of(body: Body, delta_writes: Iterable[str], *, sibling: bool) -> tuple[Form, str]:
    """The form that behaves as LangGraph's own time travel, and why.

    `delta_writes` are the DeltaChannels that have writes stored on the checkpoint: a child would
    count them in. Before format 4 the Sends of a step are its parent's writes.
    """
    if names := sorted(delta_writes):
        channels = ", ".join(names)
        return "sibling", f"a child would take in what was written to the DeltaChannel {channels}"
    if body.v < NEWEST_FORMAT:
        return "sibling", f"in format {body.v} a child would take its Sends from the target"
    if sibling:
        return "sibling", "asked for"
    return "child", "as LangGraph's own time travel"


def check_body(key: CheckpointKey, body: Body) -> None:
    """Raise `Unsupported` for a body of which no copy can be made."""
    if body.problem is not None and is_encrypted_type(body.problem.type):
        raise Unsupported(
            f"cannot copy checkpoint '{key.checkpoint_id}': its body is encrypted",
            hint="its id stands inside; `ckpt fork --to NEW` copies a thread under the same ids",
        )
    if body.problem is not None:
        raise Unsupported(
            f"cannot copy checkpoint '{key.checkpoint_id}': {body.problem.reason}",
            hint=f"its body is of type '{body.problem.type}', which cannot be written here",
        )
    if not 1 <= body.v <= NEWEST_FORMAT:
        raise Unsupported(
            f"checkpoint '{key.checkpoint_id}' is of format {body.v}, which is not known here",
            hint=f"formats 1 to {NEWEST_FORMAT} are",
        )


def copy_checkpoint(
    original: Checkpoint,
    body: Body,
    new_id: str,
    form: Form,
    step: int,
    marks: Mapping[str, str | int],
    edits: Mapping[str, Edit],
) -> Checkpoint:
    """A checkpoint under a new id, byte for byte the original but for `id`, `ts` and `edits`."""
    if original.body is None or original.metadata is None:
        raise ValueError("a checkpoint is copied with its body and metadata")
    key = replace(original.key, checkpoint_id=new_id)
    parent = original.parent_checkpoint_id
    return Checkpoint(
        key,
        original.key.checkpoint_id if form == "child" else parent,
        splice(original.body, {**edits, "id": Put(new_id), "ts": Put(_ts(new_id, body))}),
        copy_metadata(original.metadata, {"source": "fork", "step": step + 1, **marks}),
    )


def copy_metadata(metadata: TypedBytes, marks: Mapping[str, str | int]) -> TypedBytes:
    """The metadata with marks of its own, without what belongs to one run."""
    fields = decode(metadata)
    if not isinstance(fields, dict):
        metadata, fields = TypedBytes("json", b"{}"), {}
    names = ["run_id", "writes", FROM, WITH, WRITES, THREAD, CHECKPOINTS]
    if fields.get(BY) == NAME:  # Else it is the application's own.
        names.append(REASON)
    gone: dict[str, Edit] = dict.fromkeys(names)
    edits = {**gone, BY: Put(NAME), **{name: Put(value) for name, value in marks.items()}}
    return splice(metadata, edits)


def mark_clone(
    metadata: TypedBytes | None,
    thread_id: str,
    checkpoints: int,
    writes: int,
    reason: str | None,
) -> TypedBytes:
    """The metadata of a checkpoint in its own thread, otherwise as it was."""
    if metadata is None or not isinstance(decode(metadata), dict):
        metadata = TypedBytes("json", b"{}")
    edits = {
        BY: Put(NAME),
        THREAD: Put(thread_id),
        CHECKPOINTS: Put(checkpoints),
        WRITES: Put(writes),
    }
    return splice(metadata, edits if reason is None else {**edits, REASON: Put(reason)})


def empty_checkpoint(
    key: CheckpointKey, like: Checkpoint, body: Body, marks: Mapping[str, str | int]
) -> Checkpoint:
    """A checkpoint of a namespace that had none yet, in the format of another one's body."""
    if like.body is None:
        raise ValueError("the form is taken from a checkpoint with its body")
    fields: dict[str, Edit] = {
        "v": Put(body.v),
        "ts": Put(_ts(key.checkpoint_id, body)),
        "id": Put(key.checkpoint_id),
        "channel_values": Put({}),
        "channel_versions": Put({}),
        "versions_seen": Put({}),
    }
    if body.v < NEWEST_FORMAT:
        # LangGraph reads it from each checkpoint of these formats, without a default.
        fields["pending_sends"] = Put([])
    nothing = b"\x80" if like.body.type == "msgpack" else b"{}"
    metadata: dict[str, Edit] = {
        "source": Put("fork"),
        "step": Put(EMPTY_STEP),
        "parents": Put({}),
        BY: Put(NAME),
        **{name: Put(value) for name, value in marks.items()},
    }
    return Checkpoint(
        key,
        None,
        splice(TypedBytes(like.body.type, nothing), fields),
        splice(TypedBytes("json", b"{}"), metadata),
    )


def _ts(new_id: str, body: Body) -> str:
    """The time in a new id as its library writes it: Python's `isoformat`, JavaScript's own."""
    at = time_of(new_id)
    if at is None:
        raise ValueError(f"'{new_id}' holds no time")
    if body.is_javascript:
        return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
    return at.isoformat()
