"""Copies of a checkpoint under a new id, and the change that adds them."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from string import digits
from typing import Any, Literal
from uuid import UUID

from ckpt_backends import encryption
from ckpt_backends.changes import Change, CopyOfCheckpoint
from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import Edit, Put, set_keys
from ckpt_backends.codec.lossless import Ext, decode_lossless, encode_lossless
from ckpt_backends.codec.values import REDIS_JSON, Value
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.model import (
    BlobKey,
    Checkpoint,
    CheckpointKey,
    Record,
    TypedBytes,
    ticks_at,
    ticks_of,
    time_of,
)
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.transfer.sealing import place_of, sealed_together
from ckpt_cli.core.diff import ChannelChange
from ckpt_cli.core.redact import redact, redact_change
from ckpt_cli.core.resume import UserMetadata
from ckpt_cli.core.state import (
    BY,
    CHECKPOINTS,
    FROM,
    NAME,
    REASON,
    THREAD,
    WITH,
    WRITES,
    Body,
    Version,
    version_number,
)
from ckpt_cli.core.tasks import Question, Step

CopyForm = Literal["child", "sibling", "empty", "clone", "removal"]
"""How a checkpoint is added: as a child of the checkpoint it copies, as its sibling, without state,
or in another thread under the same id. `removal`: it is removed.
"""


@dataclass(frozen=True, slots=True)
class ShownCheckpoint:
    """How a checkpoint is shown to the user."""

    ref: str
    """The shortest end of its id that is unique in the thread."""
    step: int | None


@dataclass(frozen=True, slots=True)
class TouchedCheckpoint:
    """A checkpoint that is added or removed."""

    key: CheckpointKey
    parent_checkpoint_id: str | None
    form: CopyForm
    forked_from: str | None
    """The checkpoint that it copies."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """A change of one thread, and its consequences for the user.

    It can be applied once: afterwards the thread differs from what `change` expects.
    """

    action: Literal["rollback", "fork", "copy", "undo", "redo", "repair", "migrate"]
    main: TouchedCheckpoint
    """The checkpoint in the root namespace."""
    before: CheckpointKey
    """The head before the change; for a copy to a new thread, the head of the source thread."""
    head: CheckpointKey | None
    """The head after the change; None if the whole thread is removed."""
    why: str
    """The reason for the form."""
    next: tuple[str, ...] | None
    """The nodes that a resume runs; None if the stored data does not tell."""
    change: Change
    saved: tuple[str, ...] = ()
    """The nodes whose results the new head keeps: a resume uses them without running the nodes."""
    again: tuple[str, ...] = ()
    """The nodes and error handlers that ran before and will run again: side effects repeat."""
    asked: tuple[Question, ...] = ()
    """The questions that will be asked again; the value is None if another may come first."""
    changes: Mapping[str, ChannelChange] = field(default_factory=dict)
    """Changes from the state of the old head to the state of the new head."""
    also: tuple[TouchedCheckpoint, ...] = ()
    """The checkpoints in other namespaces."""
    configurable: Mapping[str, str] | None = None
    """The config to resume with."""
    metadata: UserMetadata = field(default_factory=dict)
    """The metadata to resume with: what the new head has from the config of its run."""
    notes: tuple[str, ...] = ()
    """Limits and warnings."""
    is_undoable: bool = True
    """Whether `ckpt undo` can undo it."""
    names: Mapping[str, ShownCheckpoint] = field(default_factory=dict)
    """The checkpoints of the root namespace that the plan mentions, by id."""
    now: Step | None = None
    """The tasks of the old head: failures and open questions."""
    abandoned: int = 0
    """Number of checkpoints that only the abandoned branch contains."""
    later: tuple[str, ...] = ()
    """Nodes that ran on the abandoned branch after the step that is next."""
    waits: tuple[str | None, ...] | None = None
    """The questions that the new head waits for, by interrupt id; None if there are none.

    An id is None if the LangGraph release that wrote the thread accepts an answer without one.
    """
    is_javascript: bool = False
    """Whether LangGraph.js wrote the thread."""
    mends: tuple[str, ...] = ()
    """What a repair or a migration changes, one phrase each, without values of the store."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to resume: only a new input makes the thread go on."""
        return self.next == () and not self.saved

    def redacted(self) -> CheckpointPlan:
        """Return it with types and sizes in place of values, questions and errors."""
        changes = {name: redact_change(change) for name, change in self.changes.items()}
        now = None if self.now is None else self.now.redacted()
        asked = tuple(
            one if one.value is None else one._replace(value=redact(one.value))
            for one in self.asked
        )
        return replace(self, changes=changes, now=now, asked=asked)


# Copy a checkpoint so that LangGraph resumes from the copy as after its own time travel.
#
# What LangGraph itself writes on time travel: `_first` in `langgraph/pregel/_loop.py` (a child
# with `source: fork`) and `update_state(None, as_node="__copy__")` in `pregel/main.py` (a
# sibling).


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
    if body.problem is not None and encryption.is_encrypted_type(body.problem.type):
        raise Unsupported(
            f"cannot copy checkpoint '{key.checkpoint_id}': its body is encrypted",
            hint=f"its id is encrypted too; set {encryption.KEY_VARIABLE} or add"
            " --aes-key-file FILE",
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
) -> Record:
    """Return a checkpoint under a new id: the original's bytes except `id`, `ts` and `edits`."""
    if original.body is None or original.metadata is None:
        raise ValueError("a checkpoint is copied with its body and metadata")
    key = original.key._replace(checkpoint_id=new_id)
    parent = original.parent_checkpoint_id
    return Record.checkpoint(
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
    from ckpt_backends.transfer.bodies import without_objects

    try:
        return without_objects(metadata)
    except CannotHold:
        return metadata


def mark_clone(
    metadata: TypedBytes | None, thread_id: str, checkpoints: int, writes: int, reason: str | None
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
) -> Record:
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
    return Record.checkpoint(
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


# Encrypt what a change adds to a thread with encrypted values, as the agent's saver would.
#
# Plans read decrypted values, whose copies have `TypedBytes.encrypted` set.


def sealed_change(change: Change, keys: encryption.Keys) -> Change:
    """Return a change with encrypted values; the same one if none of them is to be encrypted.

    The result is the same each time. Raises `Unsupported` without a key.
    """
    seal = _Seal(keys)
    return replace(
        change,
        checkpoints=tuple(map(seal.checkpoint, change.checkpoints)),
        writes=tuple(map(seal.apart, change.writes)),
        blobs=tuple(map(seal.apart, change.blobs)),
        copies=tuple(map(seal.copy, change.copies)),
    )


class _Seal:
    def __init__(self, keys: encryption.Keys) -> None:
        self._keys = keys

    def checkpoint(self, one: Record) -> Record:
        if one.value.part and not encryption.is_encrypted(one.value):
            return self._together(one)
        metadata = self._metadata(one.metadata, one.key)
        return one._replace(value=self.given(one.value, _place(one.key)), metadata=metadata)

    def _together(self, one: Record) -> Record:
        """Return a checkpoint whose body and metadata are encrypted as one value."""
        if not one.metadata.part:
            raise Unsupported("cannot add a checkpoint that is encrypted with its metadata")
        place = _place(one.key)
        body, metadata = sealed_together(
            one.value, one.metadata, lambda whole: self.given(whole._replace(encrypted=True), place)
        )
        return one._replace(value=body, metadata=metadata)

    def apart(self, one: Record) -> Record:
        return one._replace(value=self.given(one.value, place_of(one)))

    def copy(self, one: CopyOfCheckpoint) -> CopyOfCheckpoint:
        body = one.body and self.given(one.body, _place(one.source))
        metadata = one.metadata and self._metadata(one.metadata, one.source)
        return replace(one, body=body, metadata=metadata)

    def _metadata(self, value: TypedBytes, key: CheckpointKey) -> TypedBytes:
        if not value.encrypted:
            return value
        place = _place(key, "metadata")
        return encryption.sealed_metadata(
            value, lambda one: self.given(one._replace(encrypted=one.encrypted or True), place)
        )

    def given(self, value: TypedBytes, place: str) -> TypedBytes:
        """Return a value encrypted, if its original is and it is not yet."""
        if not value.encrypted or encryption.is_encrypted(value) or value.type == "empty":
            return value
        keys = self._keys()
        if not keys:
            raise Unsupported(f"cannot change values that are {encryption.NO_KEY}")
        return TypedBytes(
            f"{value.type}+aes", encryption.encrypted(value.data, keys[0], place, value.encrypted)
        )


def _place(key: CheckpointKey, *more: str) -> str:
    return "\0".join((key.thread_id, key.checkpoint_ns, key.checkpoint_id, *more))


def next_version(body: Body, above: int = 0) -> Version:
    """Return a version greater than all versions of a body and than `above`, as savers make it.

    Source: `get_next_version` of the savers: a text of a number and a random fraction; in
    LangGraph.js a number.
    """
    numbers = map(version_number, body.versions.values())
    number = max(above, *numbers, 0) + 1
    if body.versions and all(isinstance(one, int) for one in body.versions.values()):
        return number
    return f"{number:032}.{random_fraction():016}"


def raised_channel(body: Body) -> str:
    """Return the channel that `raise_version` changes: usually one that is already empty."""
    return "__start__" if "__start__" in body.versions else min(body.versions)


def greatest_version(bodies: Iterable[Body]) -> int:
    """Return the greatest version number in some bodies; 0 if there is none."""
    versions = chain.from_iterable(body.versions.values() for body in bodies)
    return max(map(version_number, versions), default=0)


def is_numbered(original: Checkpoint, body: Body) -> bool:
    """Return whether values are stored apart under plain numbers, as LangGraph.js does."""
    return (
        original.blobs is not None
        and bool(body.versions)
        and all(isinstance(one, int) for one in body.versions.values())
    )


_EXT = 7
_MARK = "__delta_snapshot__"


def as_snapshot(stored: TypedBytes) -> Any:
    """Return the snapshot with a stored value, for `encode_lossless`."""
    if stored.type == "msgpack":
        return Ext(_EXT, stored.data)
    if stored.type == REDIS_JSON:
        return {_MARK: True, "value": json.loads(stored.data)}
    raise Unsupported("cannot write the value of a DeltaChannel of LangGraph.js")


def inside_snapshot(stored: TypedBytes) -> TypedBytes:
    """Return the value in a snapshot, as stored; any other value unchanged."""
    found = decode_lossless(stored)
    if isinstance(found, Ext) and found.code == _EXT:
        return TypedBytes(stored.type, found.data)
    if isinstance(found, dict) and found.get(_MARK) is True:
        value = encode_lossless(stored.type, found["value"], like=stored.data)
        return TypedBytes(stored.type, value)
    return stored


_LONGEST = 18
"""Digits of a number; longer ones may be too long for Python to convert."""


def next_name(ids: Collection[str]) -> str | None:
    """Return the next of numbered ids such as `ckpt_007`; None if the ids are not numbered."""
    if any(ticks_of(one) is not None for one in ids):
        return None
    begins = {one.rstrip(digits) for one in ids}
    numbers = [one[len(one.rstrip(digits)) :] for one in ids]
    if len(begins) != 1 or not all(0 < len(one) <= _LONGEST for one in numbers):
        return None
    (begin,) = begins
    width = max(map(len, numbers)) if any(one.startswith("0") for one in numbers) else 0
    return f"{begin}{max(map(int, numbers)) + 1:0{width}}"


# What `ckpt repair values` restores, and what it cannot.


@dataclass(frozen=True, slots=True)
class DamagedValue:
    """The value of a channel at one version, and the first checkpoint that refers to it."""

    checkpoint_ns: str
    checkpoint_id: str
    step: int | None
    channel: str
    version: str

    @property
    def key(self) -> BlobKey:
        """Where the value is stored, if values are stored apart."""
        return BlobKey(self.checkpoint_ns, self.channel, self.version)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A value that the repair restores."""

    place: DamagedValue
    reducers: tuple[str, ...]
    """All reducers that explain the channel; they produce the same value."""
    evidence: int
    value: Value
    bytes: int
    replaces: bool
    """Whether an unreadable value is stored there now."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A value that is missing or unreadable and cannot be restored."""

    place: DamagedValue
    reason: str


@dataclass(frozen=True, slots=True)
class Repair:
    """The whole plan."""

    thread_id: str
    rebuilt: tuple[Rebuilt, ...]
    refused: tuple[Refusal, ...]
    change: Change
    plan: CheckpointPlan | None = None
    """The copy of the head that gets the values; None in layouts that store values apart."""


# The random numbers of plans: of new ids and versions.
#
# A saved plan has a seed, so that planning again gives the same ids.


_BITS_OF_ID = 128
_SYSTEM = random.SystemRandom()
_seed: ContextVar[str | None] = ContextVar("seed", default=None)
_numbers: ContextVar[random.Random] = ContextVar("numbers")


def random_bits(number: int) -> int:
    """Return an integer of at most this number of random bits."""
    return _numbers.get(_SYSTEM).getrandbits(number)


def random_fraction() -> float:
    """Return a number from 0 up to 1."""
    return _numbers.get(_SYSTEM).random()


def random_id() -> str:
    """Return a UUID of version 4."""
    return str(UUID(int=random_bits(_BITS_OF_ID), version=4))


def new_seed() -> str:
    """Return a seed that nobody can guess."""
    return os.urandom(16).hex()


@contextmanager
def seeded(seed: str) -> Iterator[None]:
    """Draw all random numbers from a seed: the same seed gives the same numbers."""
    numbers = _numbers.set(random.Random(seed))  # noqa: S311 - ids need not be secret
    named = _seed.set(seed)
    try:
        yield
    finally:
        _seed.reset(named)
        _numbers.reset(numbers)


@contextmanager
def seeded_for(name: str) -> Iterator[None]:
    """Draw them from a seed of this name, if there is a seed: whatever was drawn before."""
    seed = _seed.get()
    if seed is None:
        yield
        return
    with seeded(f"{seed}/{name}"):
        yield
