"""Copy a checkpoint so that LangGraph resumes from the copy as after its own time travel.

What LangGraph itself writes on time travel: `_first` in `langgraph/pregel/_loop.py` (a child with
`source: fork`) and `update_state(None, as_node="__copy__")` in `pregel/main.py` (a sibling).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from ckpt_backends.checkpoint_ids import ticks_at, ticks_of, time_of
from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import Edit, Put
from ckpt_backends.codec.set_keys import set_keys
from ckpt_backends.encryption import KEY_VARIABLE, is_encrypted_type
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes
from ckpt_backends.transfer.errors import CannotHold
from ckpt_cli.core.forking.marks import BY, CHECKPOINTS, FROM, NAME, REASON, THREAD, WITH, WRITES
from ckpt_cli.core.forking.plan import CopyForm
from ckpt_cli.core.state import Body

EMPTY_STEP = -2
"""Step number of a checkpoint without any state, as in LangGraph's stub for `durability="exit"`."""
NEWEST_FORMAT = 4
_FAR = timedelta(days=1)
_LAST_TICK = 1 << 60


def first_tick(now: datetime, heads: Iterable[str], *, force: bool) -> int:
    """Return the time of a new id that is greater than all of these, in ticks of a UUIDv6.

    Raises `Refused` if one of them is more than a day in the future, unless `force` is set: an
    agent's later checkpoints would sort before the new id. Raises `Unsupported` for ids that are
    not UUIDs with a time.
    """
    latest = 0
    for head in heads:
        ticks = ticks_of(head)
        if ticks is None:
            raise Unsupported(
                f"cannot add a checkpoint: the id '{head}' was not made by LangGraph",
                hint="LangGraph loads the greatest id; ckpt cannot make one that sorts after it",
            )
        latest = max(latest, ticks)
    if latest > ticks_at(now + _FAR) and not force:
        raise Refused(
            "the newest checkpoint of the thread is dated in the future",
            hint="new ids must sort later, so an agent's next checkpoint would not become the"
            " head; override with --force",
        )
    if latest + 1 >= _LAST_TICK:
        raise Refused("cannot add a checkpoint: the newest has the greatest possible id")
    return max(ticks_at(now), latest + 1)


def form_of(body: Body, delta_writes: Iterable[str], *, sibling: bool) -> tuple[CopyForm, str]:
    """Return the form that behaves as LangGraph's own time travel, and the reason for it.

    `delta_writes` are channels with writes stored on the checkpoint that are, or may be,
    DeltaChannels: a child would apply them. Before format 4, the Sends of a step are stored as
    writes of the parent checkpoint.
    """
    if names := sorted(delta_writes):
        which = "it is a DeltaChannel" if len(names) == 1 else "they are DeltaChannels"
        return "sibling", f"a child would repeat the writes to {', '.join(names)} if {which}"
    if body.v < NEWEST_FORMAT:
        return "sibling", f"a child would repeat the Sends of the target (format {body.v})"
    if sibling:
        return "sibling", "--sibling was given"
    return "child", "LangGraph's own time travel adds a child too"


def check_body(key: CheckpointKey, body: Body) -> None:
    """Raise `Unsupported` if a body is encrypted, unreadable, or of an unknown format."""
    if body.problem is not None and is_encrypted_type(body.problem.type):
        raise Unsupported(
            f"cannot copy checkpoint '{key.checkpoint_id}': its body is encrypted",
            hint=f"its id is encrypted too; set {KEY_VARIABLE} or add --aes-key-file FILE",
        )
    if body.problem is not None:
        raise Unsupported(
            f"cannot copy checkpoint '{key.checkpoint_id}': {body.problem.reason}",
            hint=f"its body is of type '{body.problem.type}', which ckpt cannot write",
        )
    if body.lacks:
        named = ", ".join(f"'{one}'" for one in body.lacks)
        raise Unsupported(
            f"cannot copy checkpoint '{key.checkpoint_id}': it has no valid {named}",
            hint="no saver could load the copy; name another checkpoint, such as its parent",
        )
    if not 1 <= body.v <= NEWEST_FORMAT:
        raise Unsupported(
            f"cannot copy checkpoint '{key.checkpoint_id}': format {body.v} is unknown",
            hint=f"ckpt knows formats 1 to {NEWEST_FORMAT}",
        )


def copy_checkpoint(
    original: Checkpoint,
    body: Body,
    new_id: str,
    form: CopyForm,
    step: int,
    marks: Mapping[str, str | int],
    edits: Mapping[str, Edit],
) -> Checkpoint:
    """Return a checkpoint under a new id: the original's bytes except `id`, `ts` and `edits`."""
    if original.body is None or original.metadata is None:
        raise ValueError("a checkpoint is copied with its body and metadata")
    key = original.key._replace(checkpoint_id=new_id)
    parent = original.parent_checkpoint_id
    return Checkpoint(
        key,
        original.key.checkpoint_id if form == "child" else parent,
        set_keys(original.body, {**edits, "id": Put(new_id), "ts": Put(_ts(new_id, body))}),
        copy_metadata(original.metadata, {"source": "fork", "step": step + 1, **marks}),
    )


def copy_metadata(metadata: TypedBytes, marks: Mapping[str, str | int]) -> TypedBytes:
    """Return the metadata with `marks` added and without keys that belong to one run.

    A pickle becomes msgpack of plain data: `langgraph dev` stores one where the metadata holds an
    object, and reads nothing from it once the class has moved.
    """
    if metadata.type == "pickle":
        metadata = _unpickled(metadata)
    fields = decode(metadata)
    if not isinstance(fields, dict):
        metadata, fields = TypedBytes("json", b"{}"), {}
    names = ["run_id", "writes", FROM, WITH, WRITES, THREAD, CHECKPOINTS]
    if fields.get(BY) == NAME:  # otherwise it belongs to the application
        names.append(REASON)
    gone: dict[str, Edit] = dict.fromkeys(names)
    edits = {**gone, BY: Put(NAME), **{name: Put(value) for name, value in marks.items()}}
    return set_keys(metadata, edits)


def _unpickled(metadata: TypedBytes) -> TypedBytes:
    from ckpt_backends.transfer.metadata import without_objects  # late: it is rare

    try:
        return without_objects(metadata)
    except CannotHold:
        return metadata


def mark_clone(
    metadata: TypedBytes | None,
    thread_id: str,
    checkpoints: int,
    writes: int,
    reason: str | None,
) -> TypedBytes:
    """Return the metadata for a checkpoint that is copied to a new thread."""
    if metadata is None or not isinstance(decode(metadata), dict):
        metadata = TypedBytes("json", b"{}")
    edits = {
        BY: Put(NAME),
        THREAD: Put(thread_id),
        CHECKPOINTS: Put(checkpoints),
        WRITES: Put(writes),
    }
    return set_keys(metadata, edits if reason is None else {**edits, REASON: Put(reason)})


def empty_checkpoint(
    key: CheckpointKey, like: Checkpoint, body: Body, marks: Mapping[str, str | int]
) -> Checkpoint:
    """Return an empty checkpoint for a namespace that has none, in the format of another body."""
    if like.body is None:
        raise ValueError("the format is taken from a checkpoint with its body")
    fields: dict[str, Edit] = {
        "v": Put(body.v),
        "ts": Put(_ts(key.checkpoint_id, body)),
        "id": Put(key.checkpoint_id),
        "channel_values": Put({}),
        "channel_versions": Put({}),
        "versions_seen": Put({}),
    }
    if body.v < NEWEST_FORMAT:
        # LangGraph reads this key of these formats without a default.
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
        set_keys(like.body._replace(data=nothing), fields),
        set_keys(TypedBytes("json", b"{}"), metadata),
    )


def _ts(new_id: str, body: Body) -> str:
    """Return the time of an id in the format of Python's `isoformat`, or JavaScript's."""
    at = time_of(new_id)
    if at is None:
        raise ValueError(f"'{new_id}' holds no time")
    if body.is_javascript:
        return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
    return at.isoformat()
