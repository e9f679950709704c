"""Read a thread and one of its checkpoints as a whole, for `show`."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ckpt_backends import shell
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound, Unreadable, Unsupported
from ckpt_backends.model import CheckpointKey, Status, ThreadSize
from ckpt_cli.core.redact import redact
from ckpt_cli.core.state import Join, given_input, is_state
from ckpt_cli.core.tasks import TaskWrite, new_input, task_writes
from ckpt_cli.core.values import Path, Selected, parse_path, select
from ckpt_cli.queries.heads import ListedThread, details_of, with_users
from ckpt_cli.reading.states import LostValues, State, read_state
from ckpt_cli.reading.store import is_redacted, refuse_raw, shown
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import Moment, ThreadReader, resume_of, unloaded_head

if TYPE_CHECKING:
    from ckpt_cli.core.resume import Resume
    from ckpt_cli.queries.operations import ListedOperation
    from ckpt_cli.queries.thread_operations import ThreadOperations


_SAME = timedelta(seconds=2)
"""Savers set the expiry of rows that belong together one after the other, so small gaps are
ignored.
"""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a checkpoint expires, and what expires before it."""

    at: datetime | None
    """None if the checkpoint does not expire."""
    writes_at: datetime | None = None
    """When its writes expire, if that is earlier."""
    ancestor: str | None = None
    """The ancestor that expires first, if that is earlier."""
    ancestor_at: datetime | None = None

    @property
    def remarks(self) -> Sequence[str]:
        """The consequences, as sentences for the user."""
        found = []
        if self.writes_at is not None:
            found.append(
                "its writes expire first: what its tasks had done is then done again on a resume"
            )
        if self.ancestor is not None:
            found.append(
                f"its ancestor {self.ancestor} expires first: then there is no way back to it,"
                " and what is rebuilt from its writes is gone"
            )
        return found


def lifetime(reader: ThreadReader, key: CheckpointKey) -> Lifetime | None:
    """Return how long a checkpoint remains usable; None if nothing of it expires."""
    if not reader.store.keys_expire:
        return None
    ancestors = reader.ancestry(key.checkpoint_ns, key.checkpoint_id)[1:]
    found = reader.store.expiries(key.thread_id, key.checkpoint_ns, [key.checkpoint_id, *ancestors])
    known = {one.key.checkpoint_id: one for one in found}
    own = known.get(key.checkpoint_id)
    if own is None or all(one.at is None and one.writes_at is None for one in known.values()):
        return None
    times = [
        (at, name)
        for name in ancestors
        if name in known and (at := known[name].at) is not None and _is_before(at, own.at)
    ]
    first_at, first = min(times, default=(None, None))
    writes_at = own.writes_at if _is_before(own.writes_at, own.at) else None
    return Lifetime(own.at, writes_at, first, first_at)


def _is_before(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and (other is None or one < other - _SAME)


class NamespaceSummary(NamedTuple):
    """One namespace of a thread."""

    checkpoint_ns: str
    checkpoints: int
    tips: int
    forks: int
    head: str | None


class WholeThread(NamedTuple):
    """A thread as a whole: what its head and the index say, and more if it was asked for."""

    row: ListedThread
    can_roll_back: bool
    """Whether a task of the head failed, and `ckpt rollback` works on the layout."""
    size: ThreadSize | None = None
    in_namespaces: tuple[NamespaceSummary, ...] | None = None
    operations: Sequence["ListedOperation"] = ()
    """The newest recorded operations of `ckpt` on the thread, newest first."""


class CheckpointView(NamedTuple):
    """A checkpoint; with its state and its writes, if they were read."""

    moment: Moment
    children: Sequence[str]
    is_head: bool
    state: State = State({}, {})
    writes: Sequence[TaskWrite] = ()
    lifetime: Lifetime | None = None
    """When it expires; None if nothing of it does."""
    plaintext: bool = False
    """It is stored unencrypted, in a thread with encrypted checkpoints."""
    resume: "Resume | None" = None
    """What a resume does, if it is the head of the root graph."""
    joins: Sequence[Join] = ()
    """The nodes that wait for several others, of which some have finished."""
    dropped: bool = False
    """A new input came before its step was over: what its tasks had stored was not applied."""
    unstored: Sequence[str] = ()
    """Channels that were written but have no stored value.

    These are values that are lost, DeltaChannels of a shallow saver, and, in layouts that store
    writes with the checkpoint they produced, channels without a value there.
    """
    unloaded: str = ""
    """What the saver does instead of loading this head, in words; `''` if it loads it."""
    given: Value = None
    """The input that waits there for the next step; None if none does."""
    thread: WholeThread | None = None
    """The thread as a whole, at the head of the root graph, if it was asked for."""
    memories: Sequence[Mapping[str, Any]] | None = None
    """The records of what was made from the thread in long-term memory, if that was read."""

    def redacted(self) -> "CheckpointView":
        """Return it without values; `thread` is without already."""
        return self._replace(
            moment=self.moment.redacted(),
            state=self.state.redacted(),
            writes=[one.redacted() for one in self.writes],
            given=None if self.given is None else redact(self.given),
        )


class Summary(NamedTuple):
    """One thread as a whole, with its head."""

    thread: WholeThread
    head: CheckpointView | None
    """Without state and writes; None if there is no head."""


def view(
    target: Target,
    channels: Collection[str] | None,
    *,
    writes: bool,
    facts: Callable[[ThreadReader, Moment], WholeThread] | None = None,
) -> CheckpointView:
    """Return a checkpoint; `channels` limits the values; `writes` reads the values of writes.

    `facts` returns the thread as a whole; it is called at the head of the root graph.

    Raises `NotFound`; with `channels` also `Unreadable`.
    """
    reader = target.reader
    moment = reader.moment(
        target.checkpoint_ns,
        target.checkpoint_id,
        values=writes,
        state=True if channels is None else channels,
    )
    state = read_state(reader, moment, channels)
    lost = sorted(LostValues(reader).at(moment)) if channels is None else ()
    if channels is not None:
        moment.check_readable()
        _check_stored(reader, moment, channels)
        state = State(_chosen(moment, state, channels), state.rebuilt)
    found = _standing(reader, moment)
    is_root = found.is_head and not target.checkpoint_ns
    found = found._replace(
        state=state,
        writes=task_writes(moment.writes, moment.step),
        dropped=writes and _is_dropped(reader, moment),
        unstored=(
            _unstored(moment, state)
            if reader.is_values_only and channels is None
            else [*state.unstored, *lost]
        ),
        given=given_input(moment.body, moment.metadata) if channels is None else None,
        thread=facts(reader, moment) if is_root and facts is not None else None,
    )
    return shown(reader.store, found)


def _standing(reader: ThreadReader, moment: Moment) -> CheckpointView:
    """Return what holds for a checkpoint apart from its state and its writes."""
    ns = moment.key.checkpoint_ns
    is_head = moment.key.checkpoint_id == reader.head(ns)
    is_root = is_head and not ns
    return CheckpointView(
        moment,
        reader.children(moment.key),
        is_head,
        lifetime=lifetime(reader, moment.key),
        plaintext=reader.is_plaintext(moment),
        resume=resume_of(reader, moment) if is_root else None,
        joins=reader.joins(moment, live=is_head),
        unloaded=unloaded_head(reader) if is_root else "",
    )


def _is_dropped(reader: ThreadReader, moment: Moment) -> bool:
    step = moment.step
    if all(run.finished for run in step.tasks) or not any(run.finished for run in step.tasks):
        return False
    children = reader.children(moment.key)
    return bool(children) and all(
        child.source == "input" or new_input(step, moment.body.seen, child.body.seen) is not None
        for child in reader.decoded(moment.key.checkpoint_ns, children)
    )


def summarize(reader: ThreadReader, operations: "ThreadOperations", now: datetime) -> Summary:
    """Return everything that the index and the head show about a thread."""
    head = None if reader.thread.head is None else reader.moment("", reader.thread.head)
    thread = whole_thread(
        reader, head, now, operations=operations, size=True, namespaces=True, title=True
    )
    return Summary(thread, None if head is None else shown(reader.store, _standing(reader, head)))


def whole_thread(
    reader: ThreadReader,
    head: Moment | None,
    now: datetime,
    *,
    operations: "ThreadOperations | None" = None,
    size: bool = False,
    namespaces: bool = False,
    title: bool = False,
) -> WholeThread:
    """Return a thread as a whole from its head.

    `operations` adds what `ckpt` changed, from its log; `size` and `namespaces` ask the store.
    """
    stored = reader.store.size(reader.thread_id) if size else None
    details = details_of(reader, head, now, title=title)
    if stored is not None:
        details = details._replace(bytes=stored.bytes)
    can_roll_back = False
    if Status.ERROR in details.conditions:
        from ckpt_cli.core.support_matrix import limit  # late: few threads failed

        can_roll_back = limit("rollback", reader.capabilities) is None
    return WholeThread(
        shown(reader.store, next(with_users(reader.store, [ListedThread(reader.thread, details)]))),
        can_roll_back=can_roll_back,
        size=stored,
        in_namespaces=tuple(_namespace(reader, ns) for ns in reader.namespaces)
        if namespaces
        else None,
        operations=() if operations is None else operations.newest,
    )


def _namespace(reader: ThreadReader, checkpoint_ns: str) -> NamespaceSummary:
    known = reader.parentage(checkpoint_ns)
    return NamespaceSummary(
        checkpoint_ns,
        checkpoints=len(reader.index(checkpoint_ns)),
        tips=len(known.tips),
        forks=len(known.forks),
        head=reader.head(checkpoint_ns),
    )


def views(reader: ThreadReader) -> Iterator[CheckpointView]:
    """Yield all checkpoints of a thread with state and writes: by namespace, oldest first."""
    for ns in reader.namespaces:
        for one in reversed(reader.index(ns)):
            yield view(Target(reader, ns, one.key.checkpoint_id, chosen=False), None, writes=True)


def _unstored(moment: Moment, state: State) -> list[str]:
    if moment.body.problem is not None:
        return []
    written = {one.channel for one in moment.writes if is_state(one.channel, moment.body)}
    return sorted(written - state.values.keys())


def picked(target: Target, path: str) -> list[Selected]:
    """Return the parts of the state that a path such as `messages[-1].content` selects.

    Raises `NotFound` with the existing keys, `Unreadable`, or `UsageError`.
    """
    parsed = parse_path(path)
    reader = target.reader
    name = parsed[0] if parsed else None
    channels = [name] if isinstance(name, str) else None
    moment = reader.moment(
        target.checkpoint_ns, target.checkpoint_id, state=True if channels is None else channels
    )
    moment.check_readable()
    if isinstance(name, str):
        _check_stored(reader, moment, [name])
    values = cast("dict[Value, Value]", dict(read_state(reader, moment, channels).values))
    if isinstance(name, str) and name not in values and name in moment.body.values:
        values[name] = moment.body.values[name]
    if not is_redacted(reader.store):
        return select(values, parsed)
    try:
        return [_hidden(one, parsed) for one in select(values, parsed)]
    except NotFound:
        # The usual error message would reveal the keys of the state.
        raise NotFound(f"nothing at '{path}' in this state") from None


def _hidden(found: Selected, asked: Path) -> Selected:
    """Return a place with type and size in place of its value; keys that were not asked for are
    hidden.
    """
    path = tuple(
        step if n == 0 or isinstance(step, int) or step in asked else "*"
        for n, step in enumerate(found.path)
    )
    return found._replace(path=path, value=redact(found.value))


def raw_bytes(target: Target) -> bytes:
    """Return the checkpoint body as stored.

    Raises `NotFound`, `Unreadable`, `Unsupported` if the layout stores no body, or `UsageError` if
    redaction is on.
    """
    refuse_raw(target.reader.store)
    if target.reader.is_values_only:
        raise Unsupported(
            "cannot print the stored bytes: this layout stores no checkpoint body",
            hint="`ckpt show --where` prints queries for the rows it stores",
        )
    stored = target.reader.checkpoints(target.checkpoint_ns, [target.checkpoint_id], body=True)
    for found in stored:
        if found.body is not None and found.body.whole is not None:
            raise Unreadable(
                f"the body of checkpoint '{target.checkpoint_id}' is {found.body.problem}",
                hint="`ckpt show --where` prints a query for it",
            )
        if found.body is not None:
            return found.body.data
    raise NotFound(f"no checkpoint '{target.checkpoint_id}'")


def _check_stored(reader: ThreadReader, moment: Moment, channels: Collection[str]) -> None:
    """Raise `Unreadable` if one of these channels had a value that is not stored any more."""
    if channels and all(name in moment.body.values for name in channels):
        return
    for name in LostValues(reader).at(moment):
        if name in channels:
            version = moment.body.versions[name]
            raise Unreadable(
                f"the value of channel '{name}' is missing: version {version} is not stored",
                hint="`ckpt doctor THREAD` lists what is missing in a thread",
            )


def _chosen(moment: Moment, state: State, channels: Collection[str]) -> dict[str, Value]:
    """Return the requested values; includes LangGraph's internal channels if they are named."""
    known = {**moment.body.values, **state.values}
    for name in channels:
        if name not in known:
            there = ", ".join(map(shell.word, state.values)) or "none"
            raise NotFound(f"no channel '{name}' at this checkpoint", hint=f"its channels: {there}")
    return {name: known[name] for name in channels}
