"""Replay a thread: rebuild each checkpoint from its parent and the writes stored there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound
from ckpt_cli.core.channels import state_values
from ckpt_cli.core.doctor.numbered_versions import NumberedVersions
from ckpt_cli.core.replay.elimination import (
    Check,
    ReducerTally,
)
from ckpt_cli.core.replay.reducers import ABSENT, NOT_STORED, Held, is_empty
from ckpt_cli.core.replay.report import Replayed, Transition
from ckpt_cli.core.replay.transition import (
    WriteOrder,
    possible_orders,
    recorded_orders,
    sort_writes,
    written_channels,
)
from ckpt_cli.core.state import Version, read_metadata, source_from
from ckpt_cli.core.tasks.task_ids import UPDATE_PATH
from ckpt_cli.core.tasks.triggers import START
from ckpt_cli.core.tasks.writes import task_writes
from ckpt_cli.queries.replay_checks import (
    ChannelChecker,
    KeptCheckpoint,
    Look,
    Looked,
    Lost,
    is_kept,
)
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.thread import ThreadReader

_AT_ONCE = 200
_BYTES = 8 << 20
"""Maximum number of checkpoints, and approximate number of bytes, that one query fetches."""
_NO_PARENT = "its parent is not stored"
_NO_BODY = "the checkpoint cannot be read"
_FIRST = {
    "input": "an input's writes to other channels are not stored",
    "update": "the writes of update_state are not stored",
}
"""Why the values of a first checkpoint cannot be verified, by source."""
Watch = Callable[[KeptCheckpoint, KeptCheckpoint | None], None]
"""Is called with each checkpoint, and with its parent if that was read before."""


def watched_replay(reader: ThreadReader, watch: Watch) -> Replayed:
    """Replay a thread and show each checkpoint, with its state and writes, to `watch`.

    The checkpoints of a namespace come oldest first. The caller makes the cache of decoded values.
    """
    found = Replayed(reader.thread_id)
    for ns in reader.namespaces:
        found.transitions.extend(_Namespace(reader, ns, found.tallies, None, watch=watch))
    return found


def replay_with_lost(reader: ThreadReader) -> tuple[Replayed, list[Lost]]:
    """Replay a thread; also return the values that are missing in it, oldest first."""
    found = Replayed(reader.thread_id)
    lost: list[Lost] = []
    with remembering():
        for ns in reader.namespaces:
            namespace = _Namespace(reader, ns, found.tallies, None, lost=lost)
            found.transitions.extend(namespace)
    return found, lost


def look_at(
    reader: ThreadReader, checkpoint_ns: str, child: str, watch: Watch | None = None
) -> tuple[Replayed, Look]:
    """Replay a thread; also return all about the transition to `child` in a namespace.

    All of it is read, so that the step is judged as `replay_thread` judges it. Raises `NotFound` if
    there is no such checkpoint.
    """
    found = Replayed(reader.thread_id)
    looked: Look | None = None
    with remembering():
        for ns in _namespaces(reader, checkpoint_ns):
            look = child if ns == checkpoint_ns else None
            namespace = _Namespace(reader, ns, found.tallies, None, look, watch=watch)
            found.transitions.extend(namespace)
            looked = looked or namespace.looked
    if looked is None:
        raise NotFound(f"no checkpoint '{child}' in thread '{reader.thread_id}'")
    return found, looked


def _namespaces(reader: ThreadReader, checkpoint_ns: str) -> Sequence[str]:
    """Return the namespaces of a thread; also one that is named, but has no checkpoints."""
    known = reader.namespaces
    return known if checkpoint_ns in known else [*known, checkpoint_ns]


def look_again(
    reader: ThreadReader,
    checkpoint_ns: str,
    child: str,
    tallies: dict[tuple[str, str], ReducerTally],
    carried: dict[str, dict[int, Held]],
) -> Look | None:
    """Return all about the transition to `child`, reading only it, its parent and its siblings.

    `tallies` and `carried` are those of the replay before: of the namespace, and of the parent.
    Returns None if there is no such checkpoint.
    """
    stored = {one.key.checkpoint_id: one for one in reader.index(checkpoint_ns)}
    if (found := stored.get(child)) is None:
        return None
    parent = found.parent_checkpoint_id
    alike = {one for one, other in stored.items() if other.parent_checkpoint_id == parent}
    ids = {child} if parent is None else {parent, child, *alike}
    namespace = _Namespace(reader, checkpoint_ns, tallies, ids, child, carried=carried)
    with remembering():
        list(namespace)
    return namespace.looked


def replay_thread(
    reader: ThreadReader, checkpoint_ns: str | None = None, upto: str | None = None
) -> Replayed:
    """Replay all transitions of a thread, of one namespace, or up to one checkpoint of it.

    The reducers are known from all of the thread, whichever part is returned.
    """
    found = Replayed(reader.thread_id)
    with remembering():
        for ns in reader.namespaces:
            found.transitions.extend(_Namespace(reader, ns, found.tallies, None))
    if checkpoint_ns is None:
        return found
    ids = None if upto is None else set(reader.ancestry(checkpoint_ns, upto))
    return found.part(checkpoint_ns, ids)


class _Namespace:
    """The transitions of a namespace, oldest first; each checkpoint is read once."""

    def __init__(
        self,
        reader: ThreadReader,
        checkpoint_ns: str,
        tallies: dict[tuple[str, str], ReducerTally],
        ids: Collection[str] | None,
        look: str | None = None,
        lost: list[Lost] | None = None,
        watch: Watch | None = None,
        carried: dict[str, dict[int, Held]] | None = None,
    ) -> None:
        chosen = [
            one
            for one in reader.index(checkpoint_ns)
            if ids is None or one.key.checkpoint_id in ids
        ]
        self._reader = reader
        self._ns = checkpoint_ns
        self._look = look
        self._watch = watch
        self._carried = carried
        self._checker = ChannelChecker(reader, checkpoint_ns, tallies, lost)
        self._order = [one.key.checkpoint_id for one in reversed(chosen)]
        self._children = Counter(one.parent_checkpoint_id for one in chosen)
        self._numbered = NumberedVersions()
        self._suspects: list[tuple[Check, Version]] = []
        """Steps that are not explained, with the version that the channel has there."""
        self._kept: dict[str, KeptCheckpoint] = {}
        self._siblings: dict[
            str | None, list[tuple[Mapping[str, Version], Mapping[str, Value]]]
        ] = {}

    @property
    def looked(self) -> Look | None:
        """The requested transition, after it was reached."""
        return self._checker.looked

    def __iter__(self) -> Iterator[Transition]:
        for moment in self._moments():
            placed = task_writes(moment.writes, moment.step)
            writes = sort_writes(moment.key.checkpoint_id, placed, moment.step, moment.body)
            here = KeptCheckpoint(moment, state_values(moment.body), writes)
            # Before it is kept itself: a subgraph of LangGraph 0.2 may be its own parent.
            yield self._transition(moment, here)
            self._keep(here)
            self._let_go(moment, here)
        for check, version in self._suspects:
            check.shared = self._other_giver(check, version)

    def _other_giver(self, check: Check, version: Version) -> str | None:
        """Return a checkpoint of another branch that gave the channel the same version."""
        child, ancestry = check.child, self._reader.ancestry
        for one in self._numbered.givers(check.channel, version):
            if one not in ancestry(self._ns, child) and child not in ancestry(self._ns, one):
                return one
        return None

    def _moments(self) -> Iterator[Moment]:
        """Yield checkpoints with state and writes, oldest first, read a few megabytes at a time."""
        ids, largest = iter(self._order), _BYTES
        while chunk := list(islice(ids, max(1, min(_AT_ONCE, _BYTES // (largest + 1))))):
            found = list(self._reader.moments(self._ns, chunk, values=True, state=True))
            largest = max(map(_size, found), default=0)
            yield from reversed(found)

    def _keep(self, here: KeptCheckpoint) -> None:
        key = here.moment.key
        if self._carried is not None and key.checkpoint_id != self._look:
            here.carried = self._carried
        if self._children[key.checkpoint_id]:
            self._kept[key.checkpoint_id] = here
        if self._children[key.checkpoint_id] > 1:
            here.sources = self._sources(self._reader.children(key))

    def _sources(self, ids: Collection[str]) -> Counter[str | None]:
        found = self._reader.store.checkpoints(
            self._reader.thread_id, checkpoint_ns=self._ns, checkpoint_ids=ids, metadata=True
        )
        return Counter(source_from(read_metadata(one)) for one in found)

    def _transition(self, moment: Moment, here: KeptCheckpoint) -> Transition:
        parent_id = moment.checkpoint.parent_checkpoint_id
        # A parent that is only assumed proves nothing.
        is_told = parent_id is not None and not moment.checkpoint.begins_run
        parent = self._kept.get(parent_id or "") if is_told else None
        if self._watch is not None:
            self._watch(here, parent)
        # The copy that a fork is has the versions of what it copied.
        if moment.checkpoint.blobs is not None and moment.source != "fork":
            before = {} if parent is None else parent.moment.body.versions
            new = dict(moment.body.versions.items() - before.items())
            self._numbered.add(moment.key.checkpoint_id, new, new)
        if moment.key.checkpoint_id == self._look:
            self._checker.looked = Look(moment)
            if parent is not None:
                self._checker.looked.parent, self._checker.looked.writes = (
                    parent.moment,
                    parent.writes,
                )
                self._checker.looked.values = parent.decoded
        if self._reader.is_values_only:
            checks = self._of_its_own(moment, here, parent)
        elif moment.body.problem is not None:
            checks = [_unproven("", moment, _NO_BODY)]
        elif parent is None:
            checks = self._without_parent(moment, here)
        else:
            checks = self._with_parent(moment, here, parent)
        if (look := self._checker.looked) is not None and look.child is moment:
            for check in checks:
                value = here.values.get(check.channel, NOT_STORED)
                unproven = Looked(NOT_STORED, (WriteOrder(()),), value, check)
                look.channels.setdefault(check.channel, unproven)
        kept, self._checker.kept = self._checker.kept, []
        for check in checks:
            self._checker.tally(check.channel).add(check)
            if (
                moment.checkpoint.blobs is not None
                and not check.mask & self._checker.tally(check.channel).leaders
            ):
                self._suspects.append((check, moment.body.versions.get(check.channel, "?")))
        return Transition(
            self._ns,
            parent_id,
            moment.key.checkpoint_id,
            moment.number,
            moment.source,
            checks,
            kept,
        )

    def _of_its_own(
        self, moment: Moment, here: KeptCheckpoint, parent: KeptCheckpoint | None
    ) -> list[Check]:
        """Check a checkpoint in a layout that stores its own writes with it.

        It may have a parent or not. A part of either state that is not stored is unknown, not
        empty.
        """
        is_first = moment.checkpoint.parent_checkpoint_id is None
        before = parent or KeptCheckpoint(moment, {}, here.writes)
        made = recorded_orders(here.writes)
        names = {*here.values, *written_channels(made)}
        after = here
        if moment.body.problem is not None:
            after = replace(here, values=dict.fromkeys(names, NOT_STORED))
        if before.moment.body.problem is not None or (parent is None and not is_first):
            before = replace(before, values=dict.fromkeys(names, NOT_STORED), carried={})
        if self._checker.looked is not None and self._checker.looked.child is moment:
            self._checker.looked.writes, self._checker.looked.values = here.writes, before.decoded
        return list(self._checker.check_all(moment, after, before, made))

    def _without_parent(self, moment: Moment, here: KeptCheckpoint) -> list[Check]:
        copied = self._copied_from(moment)
        if copied is not None:
            return list(self._compared(moment, here, copied))
        is_first = moment.checkpoint.parent_checkpoint_id is None
        reason = _FIRST.get(moment.source or "", _NO_PARENT) if is_first else _NO_PARENT
        unproven = set(here.values)
        if is_first and moment.source == "input":
            # LangGraph.js stores the initial values of channels.
            unproven = {name for name, value in here.values.items() if not is_empty(value)}
        checks = {name: _unproven(name, moment, reason) for name in unproven}
        for name in moment.body.versions.keys() - here.values.keys():
            if self._checker.is_delta(name, moment):
                lacking = reason if self._reader.has_history else "its value is not stored"
                checks[name] = _unproven(name, moment, lacking)
        return [checks[name] for name in sorted(checks)]

    def _with_parent(
        self, moment: Moment, here: KeptCheckpoint, parent: KeptCheckpoint
    ) -> list[Check]:
        copied = None
        if moment.source == "fork" and moment.body.versions != parent.moment.body.versions:
            copied = self._copied_from(moment)
        if parent.moment.body.problem is not None:
            if copied is not None:
                return list(self._compared(moment, here, copied))
            return [_unproven(name, moment, "its parent cannot be read") for name in here.values]
        made = possible_orders(
            moment.source,
            parent.writes,
            parent.moment.step,
            parent.moment.body,
            moment.body,
            again=parent.sources[moment.source] > 1,
            skipped=_is_skipped(moment, parent.moment),
            takes_input=START in moment.body.values,
        )
        if copied is not None:
            # It is compared with what it copies; its DeltaChannels go on from the parent.
            self._checker.carry(moment, here, parent, made)
            return list(self._compared(moment, here, copied))
        checks = list(self._checker.check_all(moment, here, parent, made))
        if parent.sources["update"] and not _has_own_updates(parent.moment):
            for check in checks:
                check.replaced = True
        return checks

    def _copied_from(self, moment: Moment) -> Mapping[str, Value] | None:
        """Return the values of the checkpoint that a fork copied, if it is a stored sibling."""
        if moment.source != "fork":
            return None
        for versions, values in self._siblings.get(moment.checkpoint.parent_checkpoint_id, []):
            if versions == moment.body.versions:
                return values
        return None

    def _compared(
        self, moment: Moment, here: KeptCheckpoint, copied: Mapping[str, Value]
    ) -> Iterator[Check]:
        for name in sorted({*here.values, *copied}):
            if is_kept(copied.get(name, ABSENT), here.values.get(name, ABSENT)):
                self._checker.keep(name, bumps=False)
            else:
                yield Check(name, moment.key.checkpoint_id, 0, 0, 0)

    def _let_go(self, moment: Moment, here: KeptCheckpoint) -> None:
        """Drop a checkpoint when all of its children were seen."""
        parent = moment.checkpoint.parent_checkpoint_id
        self._children[parent] -= 1
        if self._children[parent]:
            self._siblings.setdefault(parent, []).append((moment.body.versions, here.values))
            return
        self._siblings.pop(parent, None)
        if parent is not None:
            self._kept.pop(parent, None)


def _unproven(channel: str, moment: Moment, reason: str) -> Check:
    return Check(channel, moment.key.checkpoint_id, 0, 0, 0, lacking=reason)


def _has_own_updates(parent: Moment) -> bool:
    """Return whether the writes of `update_state` have rows of their own there."""
    return any(one.task_path.startswith(UPDATE_PATH) for one in parent.writes)


def _is_skipped(child: Moment, parent: Moment) -> bool:
    """Return whether steps between the two are not stored."""
    return (
        child.source == "loop"
        and child.number is not None
        and parent.number is not None
        and child.number > parent.number + 1
    )


def _size(moment: Moment) -> int:
    body, blobs = moment.checkpoint.body, moment.checkpoint.blobs
    read = sum([one.size for one in moment.writes])
    if body is not None:
        read += len(body.data)
    if blobs:
        read += sum([blob.size for blob in blobs.values() if blob.value is not None])
    return read
