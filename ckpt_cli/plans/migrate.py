"""Plans a migration: a copy of a thread's head with which it resumes in another graph."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from ckpt_backends import shell
from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import Edit, Put, Take, set_keys
from ckpt_backends.codec.lossless import encode_lossless
from ckpt_backends.codec.values import Value, items_of
from ckpt_backends.errors import Refused, Unsupported, UsageError
from ckpt_backends.model import (
    NULL_TASK_ID,
    Blob,
    Checkpoint,
    CheckpointKey,
    Record,
    TypedBytes,
    Write,
    make_id,
)
from ckpt_backends.protocol import Store
from ckpt_cli.core import forking
from ckpt_cli.core.compat import (
    CompatVerdict,
    Graph,
    GraphFile,
    Incompatibility,
    Judging,
    StoredHead,
    findings_of,
    is_meant,
)
from ckpt_cli.core.edit_state import SEEN, VALUES, VERSIONS, StoredObjects, holds_values, value_type
from ckpt_cli.core.lineage import graph_of, innermost, is_in_call, namespace_in, namespace_kind
from ckpt_cli.core.migration import (
    Filed,
    Migration,
    Names,
    migrated,
    names_in,
    refiled,
    seen_in,
    with_ids,
    written,
)
from ckpt_cli.core.state import (
    FROM,
    INTERRUPT,
    REASON,
    RESUME,
    WITH,
    WRITES,
    Body,
    Version,
    delta_channels,
    is_state,
)
from ckpt_cli.core.tasks import Task, interrupt_id, origin_at
from ckpt_cli.plans.fork import (
    NewRows,
    check_store,
    copy_plan,
    delta_writes,
    finished_nodes,
    head_notes,
    notes_of,
    open_questions,
)
from ckpt_cli.plans.proposal import Proposal
from ckpt_cli.plans.repair import stored_list
from ckpt_cli.queries.compat import FINGERPRINT, graph_of_thread, head_of, old_graph_of, stored_head
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.store import carried_metadata, is_redacted
from ckpt_cli.reading.thread import Moment, ThreadReader, TriggerInference

_HARM = frozenset(CompatVerdict) - {
    CompatVerdict.OK,
    CompatVerdict.OTHER_GRAPH,
    CompatVerdict.CANNOT_TELL,
}
_COUNTERS = "counters_since_delta_snapshot"


class AskedMigration(NamedTuple):
    """A migration, and what it is proven with."""

    migration: Migration
    file: GraphFile | None = None
    """The new graphs; None if they are not given."""
    old: GraphFile | None = None
    """The graphs that wrote the threads."""
    accepted: Collection[str] = ()
    """Differences that are meant, as `CODE:WHERE`."""
    reason: str | None = None
    force: bool = False
    """Proceed even if the newest checkpoint is in the future."""

    def check(self) -> None:
        """Raise `UsageError` if nothing is asked for, or for a name that the new graph lacks."""
        if self.file is None and not any(self.migration):
            raise UsageError(
                "nothing to migrate to",
                hint="give --to NEW.json, --rename-node OLD=NEW, --rename-channel OLD=NEW or"
                " --default KEY=JSON",
            )
        self.migration.check(self.file)


@dataclass(slots=True)
class _Level:
    """The head of a namespace, and its copy."""

    moment: Moment
    """The head with all values, as stored."""
    key: CheckpointKey
    """That of the copy."""
    judging: Judging | None
    """The new graph; None if it is not given, or does not show this subgraph."""
    names: Names
    values: Mapping[str, Value]
    """By their old names, the channels whose value is another one."""
    defaults: Mapping[str, Value]
    filed: Sequence[Filed]
    inner: list[_Level] = field(default_factory=list)
    is_changed: bool = False
    """Whether the head alone does not do in the new graph what its copy does."""

    @property
    def body(self) -> Body:
        """The body of the head."""
        return self.moment.body

    @property
    def original(self) -> Checkpoint:
        """The head as stored."""
        return self.moment.checkpoint

    @property
    def is_moved(self) -> bool:
        """Whether the copy is in another namespace."""
        return self.key.checkpoint_ns != self.moment.key.checkpoint_ns

    @property
    def is_needed(self) -> bool:
        """Whether it, or a subgraph in it, is changed."""
        return self.is_changed or any(one.is_needed for one in self.inner)

    def all(self) -> Iterator[_Level]:
        """Yield it and all levels inside of it."""
        yield self
        for one in self.inner:
            yield from one.all()


class Migrations:
    """Plans how threads are migrated."""

    def __init__(self, rows: Store, now: datetime, asked: AskedMigration) -> None:
        """`rows` is the store as it is stored, decrypted. Raises `Unsupported` if checkpoints
        cannot be added in its layout.
        """
        check_store(rows)
        self._rows, self._now, self._asked = rows, now, asked
        self._inference = TriggerInference(rows)

    def plan(self, reader: ThreadReader) -> Proposal:
        """Plan to add a copy of the head that resumes in the new graph as the head did before.

        A thread that needs none, or that belongs to another graph, is `unneeded`. Raises `Refused`
        if something would be harmed even so, and `Unsupported` if the thread does not allow it.
        """
        if reader.is_values_only:
            raise Unsupported(
                "cannot migrate: this layout does not store what runs next",
                hint="the application decides what runs next",
            )
        stored = ThreadReader(self._rows, reader.thread, self._inference)
        asked, heads = self._asked, {ns: one[0].key for ns, one in stored.indexes().items()}
        stored.check_root()
        moment = _head(stored, "")
        level, judging = head_of(stored, moment), None
        if asked.file is not None:
            judging = _judging(level, asked, asked.file)
            if judging is None:
                return _unneeded(reader, "it belongs to another graph")
        ids = {ns: one.checkpoint_id for ns, one in heads.items()}
        tick = forking.first_tick(self._now, ids.values(), force=asked.force)
        made = _Making(stored, asked.migration, tick + len(heads))
        root = made.level(moment, "", judging)
        proof = _Proof(stored, asked, level, hides=is_redacted(reader.store))
        if root.is_needed:
            return Proposal.of(_plan(reader, stored, root, proof, ids, self._now))
        if judging is None:
            return _unneeded(reader, "its head has nothing under these names, and lacks no default")
        list(proof.of(level, judging))
        return _unneeded(reader, "it resumes in the new graph as it is")


def _unneeded(reader: ThreadReader, why: str) -> Proposal:
    return Proposal(reader.thread_id, state="unneeded", remark=why)


def _judging(level: StoredHead, asked: AskedMigration, file: GraphFile) -> Judging | None:
    """Return the new graph of a thread; None if it belongs to another one."""
    nodes, keys = asked.migration.nodes, asked.migration.keys
    seen = {nodes.get(name, name): one for name, one in level.body.seen.items()}
    versions = {keys.get(name, name): one for name, one in level.body.versions.items()}
    tasks = tuple(
        one._replace(node=nodes.get(one.node or "", one.node)) for one in level.step.tasks
    )
    renamed = level._replace(
        body=level.body._replace(seen=seen, versions=versions),
        step=level.step._replace(tasks=tasks),
    )
    name = graph_of_thread(renamed, file, asked.old)
    return None if name is None else Judging(file, file.parts[file.graphs[name]])


def _head(reader: ThreadReader, ns: str) -> Moment:
    """Return the head of a namespace, as stored. Raises `Unsupported` if it has no recipe."""
    moment = reader.moment(ns, reader.head(ns) or "", values=True, state=True)
    forking.check_body(moment.key, moment.body)
    if moment.body.is_javascript:
        raise Unsupported("cannot migrate a thread of LangGraph.js")
    if moment.body.v < forking.NEWEST_FORMAT:
        raise Unsupported(
            f"cannot migrate a thread of format {moment.body.v}, before LangGraph 0.5",
            hint="resume it once with the old graph and a newer release",
        )
    if moment.step.next is None:
        raise Unsupported("cannot migrate: what runs next cannot be told from what is stored")
    return moment


class _Making:
    """Reads the heads of a thread, and gives their copies ids."""

    def __init__(self, reader: ThreadReader, migration: Migration, tick: int) -> None:
        """`tick` is the time of the root's copy; those of subgraphs are older: see `_memories` of
        a rollback.
        """
        self._reader, self._migration, self._tick = reader, migration, tick

    def level(
        self, moment: Moment, new_ns: str, judging: Judging | None, *, is_call: bool = False
    ) -> _Level:
        """Return the head of a namespace with its copy in another, or the same.

        That of a call is always another one, since it has the id of the task that called.
        """
        reader, ns, body = self._reader, moment.key.checkpoint_ns, moment.body
        graph = None if judging is None else judging.graph
        written = {*body.values, *(one.channel for one in moment.writes)}
        channels = {*body.versions, *written}
        names = names_in(self._migration, graph, channels)
        _check_free(body, names)
        number = moment.number or 0
        key = CheckpointKey(
            reader.thread_id, new_ns, make_id(self._tick, number + 1, forking.random_bits(48))
        )
        self._tick -= 1
        called = {
            one.task_id: one.node
            for each in reader.namespaces
            if (one := innermost(each)).task_id is not None and one.outer == ns
        }
        here, there = origin_at(moment.key, body, number + 1), origin_at(key, body, number + 2)
        if here is None or there is None:
            raise Unsupported(
                f"cannot migrate: the id '{moment.key.checkpoint_id}' was not made by LangGraph"
            )
        tell = (moment.step, body)
        made = _Level(
            moment,
            key,
            judging,
            names,
            dict(_other_values(body, names, graph)),
            _defaults(self._migration, body, graph, is_root=not ns),
            refiled(*tell, (here, there), names, graph, called),
        )
        same = refiled(*tell, (here, here), names, graph, called)
        made.is_changed = (
            (made.is_moved and not is_call)
            or bool(made.values or made.defaults)
            or any(one.old not in (None, one.new) for one in same)
            or any(_is_renamed(one, names, body) for one in written)
            or any(names.channel(one) != one for one in body.versions if is_state(one, body))
        )
        made.inner += self._inner(made, called)
        return made

    def _inner(self, level: _Level, called: Mapping[str, str]) -> Iterator[_Level]:
        """Yield the heads of the subgraphs that unfinished tasks called, and of those that keep
        their state.
        """
        ns, new_ns = level.moment.key.checkpoint_ns, level.key.checkpoint_ns
        done = {one.id for one in level.moment.step.tasks if one.finished}
        for one in level.filed:
            if one.old is None or one.old in done or one.old not in called:
                continue
            stored = namespace_in(ns, called[one.old], one.old)
            new = namespace_in(new_ns, one.node, one.new)
            inside = self._inside(level, one.node)
            for each in self._reader.namespaces:
                further = each.removeprefix(f"{stored}|")
                if each == stored or (each != further and further.isdecimal()):
                    inner = new + each.removeprefix(stored)
                    yield self.level(_head(self._reader, each), inner, inside, is_call=True)
        outer = graph_of(ns)
        for each in self._reader.namespaces:
            if each and not is_in_call(each) and graph_of(each)[:-1] == outer:
                node = level.names.node(graph_of(each)[-1])
                new = namespace_in(namespace_kind(new_ns), node)
                there = self._reader.head(new) if new != each else None
                if there is not None and self._is_copy(new, there, each):
                    continue
                head = _head(self._reader, each)
                found = self.level(head, new, self._inside(level, node))
                if there is not None:
                    raise Refused(
                        f"cannot migrate thread '{self._reader.thread_id}': a subgraph '{new}' has"
                        " run in it already",
                        hint="roll it back to before that, and migrate it then",
                    )
                if found.is_needed:
                    yield found

    def _is_copy(self, ns: str, head: str, origin: str) -> bool:
        """Return whether a head was copied from that of another namespace."""
        copy = self._reader.stored(ns, head)
        return copy.metadata.get(FROM) == self._reader.head(origin)

    def _inside(self, level: _Level, node: str) -> Judging | None:
        return None if level.judging is None else level.judging.inside(node)


def _is_renamed(channel: str, names: Names, body: Body) -> bool:
    return names.channel(channel) != channel and (":" in channel or is_state(channel, body))


def _check_free(body: Body, names: Names) -> None:
    """Raise `Refused` if a thread has both names of something."""
    for old, new in names.keys.items():
        if old in body.versions and new in body.versions:
            raise Refused(
                f"cannot rename the key '{old}': the thread has a key '{new}', too",
                hint="it ran in the new graph already: roll it back, and migrate it then",
            )


def _other_values(body: Body, names: Names, graph: Graph | None) -> Iterator[tuple[str, Value]]:
    for channel, value in body.values.items():
        found = migrated(channel, value, names, graph)
        if found is not value and found != value:
            yield channel, found


def _defaults(
    asked: Migration, body: Body, graph: Graph | None, *, is_root: bool
) -> dict[str, Value]:
    """Return the defaults of the keys that a namespace lacks."""
    if graph is None and not is_root:
        return {}
    return {
        key: value
        for key, value in asked.defaults.items()
        if key not in body.values
        and key not in body.versions
        and (graph is None or key in graph.channels)
    }


# The rows.


@dataclass(slots=True)
class _Rows:
    """The copy of a level: the checkpoint with its values, and its writes."""

    checkpoint: Checkpoint
    record: Record
    form: forking.CopyForm
    why: str
    blobs: list[Record]
    writes: list[Write]


def _rows_of(
    reader: ThreadReader,
    level: _Level,
    ids: Mapping[str, str],
    heads: Mapping[CheckpointKey, CheckpointKey],
    marks: Mapping[str, str],
) -> _Rows:
    """Return the copy of a head.

    `ids` are the new ids of questions, `heads` the copies of all heads, and `marks` go into the
    metadata.
    """
    body, original, names = level.body, level.original, level.names
    form, why = forking.form_of(body, delta_writes(reader, level.moment), sibling=False)
    made = _Values(level)
    unstored = {
        name for name in _rebuilt_keys(level) if level.is_moved or names.channel(name) != name
    }
    for name in sorted(unstored):
        made.snapshot(name, stored_list(reader, level.moment, original, name))
    made.copy(unstored)
    for name, value in level.defaults.items():
        made.add(name, value)
    writes = list(_written(level, ids))
    all_marks: dict[str, str | int] = {**marks, FROM: level.moment.key.checkpoint_id}
    if writes:
        all_marks[WRITES] = len(writes)
    edits: dict[str, Edit] = {
        VALUES: made.inline,
        VERSIONS: Put(made.versions),
        SEEN: Put(seen_in(body, names)),
    }
    if not made.inline:
        del edits[VALUES]
    if body.updated:
        edits["updated_channels"] = Put(sorted(map(names.channel, body.updated)))
    record = forking.copy_checkpoint(
        original, body, level.key.checkpoint_id, form, level.moment.number or 0, all_marks, edits
    )
    metadata = set_keys(record.metadata, _metadata(level, heads, unstored))
    parent = None if level.is_moved else record.parent
    record = record._replace(key=level.key, parent=parent, metadata=metadata)
    checkpoint = Checkpoint(level.key, parent, record.value, metadata, made.blobs_of_copy())
    return _Rows(checkpoint, record, form, why, made.blobs, writes)


def _rebuilt_keys(level: _Level) -> set[str]:
    """Return the DeltaChannels of a head whose value is rebuilt from earlier checkpoints."""
    body = level.body
    found = delta_channels(level.moment.metadata)
    return {one for one in found if one in body.versions and one not in body.values}


def _metadata(
    level: _Level, heads: Mapping[CheckpointKey, CheckpointKey], unstored: Collection[str]
) -> dict[str, Edit]:
    """Return what else is stored otherwise in the metadata of a copy."""
    edits: dict[str, Edit] = {}
    if unstored:
        edits[_COUNTERS] = None
    if FINGERPRINT in level.moment.metadata and (mark := _fingerprint(level.judging)):
        edits[FINGERPRINT] = Put(mark)
    parents = level.moment.metadata.get("parents")
    if isinstance(parents, dict) and parents:
        copies = {
            (old.checkpoint_ns, old.checkpoint_id): (new.checkpoint_ns, new.checkpoint_id)
            for old, new in heads.items()
        }
        edits["parents"] = Put(
            dict(copies.get((str(ns), str(one)), (ns, one)) for ns, one in parents.items())
        )
    return edits


def _fingerprint(judging: Judging | None) -> str | None:
    """Return the fingerprint of the new graph; None for a subgraph, or if none is given."""
    if judging is None:
        return None
    parts, marks = judging.file.parts, judging.file.fingerprints
    named = (one for one, at in judging.file.graphs.items() if parts[at] is judging.graph)
    return next((marks[one] for one in named if marks.get(one)), None)


class _Values:
    """The values of a copy: those in its body, and those that are stored apart."""

    def __init__(self, level: _Level) -> None:
        self._level = level
        self._next = forking.next_version(level.body)
        self._tag = value_type(level.original, level.body)
        self._stored = dict(level.original.blobs or {})
        self._copy = dict(self._stored)
        found = decode(level.original.body) if level.original.body is not None else None
        inside = found.get(VALUES) if isinstance(found, dict) else None
        self._inside = set(map(str, inside)) if isinstance(inside, dict) else set[str]()
        self.versions: dict[str, Version] = {
            level.names.channel(name): version for name, version in level.body.versions.items()
        }
        self.inline: dict[str, Edit] = {}
        self.blobs: list[Record] = []

    @property
    def _is_apart(self) -> bool:
        return self._level.original.blobs is not None

    def blobs_of_copy(self) -> dict[str, Blob] | None:
        """Return the values of the copy that are stored apart."""
        return self._copy if self._is_apart else None

    def copy(self, without: Collection[str]) -> None:
        """Take over all values but those of some channels."""
        level = self._level
        for name in {*level.body.versions, *level.body.values} - {*without}:
            new = level.names.channel(name)
            if name in level.values:
                self._other(name, new, level.values[name])
            elif new != name or level.is_moved:
                self._same(name, new)

    def _same(self, name: str, new: str) -> None:
        """Store the bytes of a value under another name, or in another namespace."""
        blob = self._stored.get(name)
        if new != name:
            self._copy.pop(name, None)
            if name in self._inside:
                self.inline |= {name: None, new: Take(name)}
        if blob is not None and blob.value is not None:
            self._apart(new, blob.value)
        elif self._has_mark(name):
            self._apart(new, TypedBytes("empty", b""))

    def _has_mark(self, name: str) -> bool:
        """Return whether it is stored that a channel has no value."""
        is_known = name in self._level.body.versions and name not in self._level.original.missing
        return self._is_apart and is_known and name not in self._inside

    def _other(self, name: str, new: str, value: Value) -> None:
        """Store another value."""
        blob = self._stored.get(name)
        original = blob.value if blob is not None else self._level.original.body
        assert original is not None  # noqa: S101 - all values were read
        stored = StoredObjects(self._tag_of(original), [original]).encodable(value)
        if not self._is_apart:
            if new != name:
                self.inline[name] = None
            self.inline[new] = Put(stored)
            return
        if new == name and not self._level.is_moved:
            self.versions[new] = self._next
        self._copy.pop(name, None)
        if name in self._inside:
            self.inline[name] = None
        data = encode_lossless(self._tag, stored)
        self._apart(new, TypedBytes(self._tag, data, encrypted=original.encrypted))

    def _tag_of(self, original: TypedBytes) -> str:
        return original.type if original.type != "bson" else self._tag

    def add(self, name: str, value: Value) -> None:
        """Store the value of a key that the thread has not."""
        channel = self._level.judging and self._level.judging.graph.channels.get(name)
        self.versions[name] = self._next
        stored = TypedBytes(self._tag, encode_lossless(self._tag, value))
        if channel and channel.kind == "DeltaChannel":
            self.snapshot(name, stored)
        elif self._is_apart:
            self._apart(name, stored._replace(encrypted=self._encrypted))
        else:
            self.inline[name] = Put(value)

    @property
    def _encrypted(self) -> bool:
        return any(one.value is not None and one.value.encrypted for one in self._stored.values())

    def snapshot(self, name: str, stored: TypedBytes) -> None:
        """Store the value of a DeltaChannel, which is else rebuilt from earlier writes."""
        new = self._level.names.channel(name)
        snapshot = forking.as_snapshot(stored)
        if not self._is_apart:
            self.inline[new] = Put(snapshot)
            return
        data = encode_lossless(stored.type, snapshot)
        self._apart(new, TypedBytes(stored.type, data, encrypted=self._encrypted))
        if holds_values(self._level.original):
            # PostgreSQL's saver marks a snapshot with this value.
            self.inline[new] = Put(True)

    def _apart(self, name: str, value: TypedBytes) -> None:
        key, version = self._level.key, str(self.versions.get(name, self._next))
        self.blobs.append(Record.apart(key.thread_id, key.checkpoint_ns, name, version, value))
        if value.type != "empty":
            self._copy[name] = Blob(value.type, len(value.data), value)


def _written(level: _Level, ids: Mapping[str, str]) -> Iterator[Write]:
    """Yield the writes of a head as they are stored with its copy."""
    tasks = {one.old: one.new for one in level.filed if one.old is not None}
    names = level.names
    for one in level.moment.writes:
        value, channel = one.value, one.channel
        if value is None:
            raise ValueError("the value of a write was not read")
        if channel == INTERRUPT:
            value = value._replace(data=with_ids(value.data, ids))
        elif names.renames_in(channel):
            before = decode(value)
            after = written(channel, before, names)
            if after != before:
                stored = StoredObjects(value.type, [value]).encodable(after)
                value = value._replace(data=encode_lossless(value.type, stored))
        task_id = one.task_id if one.task_id == NULL_TASK_ID else tasks[one.task_id]
        path = names.path(one.task_path)
        key, name = level.key, names.channel(channel)
        yield Write(key, task_id, path, one.idx, name, len(value.data), value)


# The plan.


def _plan(
    reader: ThreadReader,
    stored: ThreadReader,
    root: _Level,
    proof: _Proof,
    heads: Mapping[str, str],
    now: datetime,
) -> forking.CheckpointPlan:
    asked, levels = proof.asked, list(root.all())
    ids = {old: new for one in levels for old, new in _question_ids(one)}
    made = NewRows(stored.store)
    marks = {} if asked.reason is None else {REASON: asked.reason}
    copied, why = _copies(stored, made, levels, ids, marks)
    after = copied[""][1]
    repeated = set(head_notes(root.moment))
    notes = [one for one in notes_of(reader, root.moment, root.moment, now) if one not in repeated]
    if root.judging is None:
        notes.append("nothing proves that the new graph resumes it: give --to NEW.json")
    else:
        notes += proof.of(_judged_head(stored, copied, ""), root.judging)
    if ids:
        notes.append("its questions have other ids: clients must read them again")
    state = dict(read_state(stored, root.moment).values)
    renamed = {root.names.channel(name): value for name, value in state.items()}
    number = (root.moment.number or 0) + 1
    change = made.change(reader.thread_id, heads)
    target, main = root.moment, made.added[-1]
    plan = copy_plan(stored, target, target, main, change, {**renamed, **root.defaults}, number)
    at = dict(plan.configurable or {})
    # With an id, LangGraph travels in time and runs the tasks again.
    at.pop("checkpoint_id", None)
    return replace(
        plan,
        action="migrate",
        configurable=at,
        metadata=carried_metadata(reader.store, target.metadata),
        why=why,
        next=after.step.waiting,
        saved=finished_nodes(after),
        also=tuple(made.added[:-1]),
        waits=open_questions(after),
        notes=tuple(dict.fromkeys(notes)),
        mends=tuple(_mends(levels)),
    )


def _copies(
    reader: ThreadReader,
    made: NewRows,
    levels: Sequence[_Level],
    ids: Mapping[str, str],
    marks: Mapping[str, str],
) -> tuple[dict[str, tuple[_Level, Moment]], str]:
    """Add the copies of all levels, that of the root last.

    Returns them by their namespaces, and the reason for the form of the root's copy.
    """
    root, why = levels[0], ""
    heads = {one.moment.key: one.key for one in levels}
    copied: dict[str, tuple[_Level, Moment]] = {}
    for level in reversed(levels):
        with_root = marks if level is root else {**marks, WITH: root.key.checkpoint_id}
        found = _rows_of(reader, level, ids, heads, with_root)
        made.checkpoints.append(found.record)
        made.blobs += found.blobs
        made.writes += [one.record() for one in found.writes]
        made.relied_on.append(level.moment.key)
        form = "sibling" if level.is_moved else found.form
        origin = level.moment.key.checkpoint_id
        made.added.append(forking.TouchedCheckpoint(level.key, found.record.parent, form, origin))
        copy = _located(level, reader.with_step(found.checkpoint, found.writes))
        copied[level.key.checkpoint_ns], why = (level, copy), found.why
    return copied, why


def _located(level: _Level, copy: Moment) -> Moment:
    """Return a copy whose questions name the node in a subgraph, as those of its head do."""
    olds = {one.new: one.old for one in level.filed}
    before = {one.id: one for one in level.moment.step.runs if one.id is not None}

    def located(task: Task) -> Task:
        known = before.get(olds.get(task.id or "") or "")
        if known is None or len(known.questions) != len(task.questions):
            return task
        pairs = zip(task.questions, known.questions, strict=True)
        named = (new._replace(path=tuple(map(level.names.node, old.path))) for new, old in pairs)
        return task._replace(questions=tuple(named))

    tasks, others = (tuple(map(located, some)) for some in (copy.step.tasks, copy.step.others))
    return replace(copy, step=copy.step._replace(tasks=tasks, others=others))


def _question_ids(level: _Level) -> Iterator[tuple[str, str]]:
    """Yield the old and new ids of questions of tasks.

    One is a hash of the namespace of its task and, since LangGraph 1.2.24, of the number of answers
    that the task has (`_interrupt_id` in `langgraph/types.py`).
    """
    ns, new_ns = level.moment.key.checkpoint_ns, level.key.checkpoint_ns
    nodes = {one.id: one.node for one in level.moment.step.runs if one.id and one.node}
    answers = {
        one.task_id: len(items_of(decode(one.value)) or ())
        for one in level.moment.writes
        if one.channel == RESUME and one.value is not None
    }
    for one in level.filed:
        if one.old is None or one.old not in nodes:
            continue
        old = namespace_in(ns, nodes[one.old], one.old)
        new = namespace_in(new_ns, one.node, one.new)
        yield interrupt_id([old]), interrupt_id([new])
        for number in map(str, range(1, answers.get(one.old, 0) + 1)):
            yield interrupt_id([old, number]), interrupt_id([new, number])


class _Proof(NamedTuple):
    """Looks whether a thread goes on in the new graph."""

    reader: ThreadReader
    asked: AskedMigration
    before: StoredHead
    """The head of the thread."""
    hides: bool
    """Whether nothing from a value may be told."""

    def of(self, head: StoredHead, judging: Judging) -> Iterator[str]:
        """Yield what cannot be told of a head in the new graph. Raises `Refused` if it is harmed.

        What the old graph does to the thread as well is left out, if it is given.
        """
        known = set(self._found_before())
        left = [
            one
            for one in findings_of(head._replace(is_redacted=self.hides), judging)
            if not is_meant(one, self.asked.accepted) and (one.code, one.where) not in known
        ]
        harm = [one for one in left if one.verdict in _HARM]
        if harm:
            raise _no_recipe(self.reader.thread_id, harm, has_old=self.asked.old is not None)
        yield from (f"cannot tell of {one.where}: {one.reason}" for one in left)

    def _found_before(self) -> Iterator[tuple[str, str]]:
        """Yield what the old graph would do to the thread itself, as code and new place."""
        old, migration = self.asked.old, self.asked.migration
        name = None if old is None else graph_of_thread(self.before, old, None)
        graph = None if name is None else old_graph_of(name, self.before, old)
        if old is None or graph is None:
            return
        names = {**migration.nodes, **migration.keys}
        for one in findings_of(self.before, Judging(old, graph)):
            yield one.code, " > ".join(names.get(part, part) for part in one.where.split(" > "))


def _no_recipe(thread_id: str, harm: Sequence[Incompatibility], *, has_old: bool) -> Refused:
    first = harm[0]
    more_hint = "" if has_old else "; --from OLD.json leaves out what the old graph does as well"
    more = f" (and {len(harm) - 1} more)" if len(harm) > 1 else ""
    return Refused(
        f"cannot migrate thread '{thread_id}': after it, the new graph {first.verdict}"
        f" {first.where} ({first.code}): {first.reason}{more}",
        hint=f"{first.remedy}; if it is meant, add"
        f" --accept {shell.word(f'{first.code}:{first.where}')}{more_hint}",
    )


def _judged_head(
    reader: ThreadReader, copied: Mapping[str, tuple[_Level, Moment]], ns: str
) -> StoredHead:
    """Return the copy in a namespace as a head to judge."""
    level, moment = copied[ns]
    before = head_of(reader, level.moment)
    names = level.names

    def inner(ns: str) -> StoredHead | None:
        return _judged_head(reader, copied, ns) if ns in copied else stored_head(reader, ns)

    return before._replace(
        nodes=graph_of(ns),
        key=level.key,
        body=moment.body,
        metadata=moment.metadata,
        step=moment.step,
        number=(level.moment.number or 0) + 1,
        calls={one.new: one.node for one in level.filed if one.old in before.calls},
        stateful=frozenset(map(names.node, before.stateful)),
        inner=inner,
        deltas=frozenset(map(names.channel, before.deltas)),
    )


def _mends(levels: Sequence[_Level]) -> Iterator[str]:
    """Yield what is stored otherwise, one phrase each."""
    nodes = {pair for one in levels for pair in one.names.nodes.items()}
    keys = {
        (old, new)
        for one in levels
        for old, new in one.names.keys.items()
        if old in one.body.versions
    }
    yield from (f"renames node {old} to {new}" for old, new in sorted(nodes))
    yield from (f"renames key {old} to {new}" for old, new in sorted(keys))
    defaults = {name for one in levels for name in one.defaults}
    yield from (f"gives key {name} its default" for name in sorted(defaults))
    results = sum(1 for one in levels for task in one.moment.step.tasks if task.finished)
    asked = sum(len(one.moment.step.open_questions) for one in levels[:1])
    if results:
        yield f"files {results} result{'s' * (results != 1)} under new ids"
    if asked:
        yield f"keeps {asked} question{'s' * (asked != 1)} open"
