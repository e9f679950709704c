"""The tables of `ckpt sql`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from typing import Any, TypeAlias

from ckpt_backends.codec import channel_sizes, decode, to_json
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound, Unreadable
from ckpt_backends.memory import MemoryStore
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Thread, Write, in_chunks
from ckpt_backends.protocol import Store
from ckpt_cli.core.conversation import Message, Turn, as_message, content_text, message_list
from ckpt_cli.core.diff import json_size
from ckpt_cli.core.memory import ItemFilter
from ckpt_cli.core.redact import redact_metadata
from ckpt_cli.core.state import read_metadata, source_from
from ckpt_cli.core.tasks import TaskWrite, pulled_node, task_writes
from ckpt_cli.core.usage import PriceList
from ckpt_cli.queries.heads import sizes_of
from ckpt_cli.queries.history import namespace_entries
from ckpt_cli.queries.incidents import failures_of_threads, open_questions
from ckpt_cli.queries.memory import list_items
from ckpt_cli.queries.messages import Conversation, conversation
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.threads import described_threads
from ckpt_cli.queries.usage import thread_messages
from ckpt_cli.reading.states import State, read_state, state_channels
from ckpt_cli.reading.store import Opening, is_redacted
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import DecodedCheckpoint, ThreadReader, TriggerInference, number_of
from ckpt_cli.reading.users import user_key_of
from ckpt_cli.render.checkpoint import TASK, WRITE
from ckpt_cli.render.fields import Shape
from ckpt_cli.render.history import ENTRY
from ckpt_cli.render.incidents import FAILURE, WAITING
from ckpt_cli.render.memory import ITEM, READ_ITEM
from ckpt_cli.render.messages import MESSAGE, message_records
from ckpt_cli.render.table import optional_iso, values_record
from ckpt_cli.render.threads import LISTED
from ckpt_cli.sql.bounds import RowBounds

SqlRow: TypeAlias = Mapping[str, Any]
"""Column to a value that JSON can hold. Columns that were not asked for may be missing."""


class Need(StrEnum):
    """What is read from the store for a column, if a query names it."""

    INDEX = "index"
    """Keys and index rows."""
    SIZES = "sizes"
    """Stored lengths, which the engine adds up."""
    METADATA = "metadata"
    STEP = "step"
    """Checkpoint bodies and LangGraph's own writes, for tasks and status; no value of a channel."""
    STORED = "stored"
    """Values as stored, without decoding them."""
    VALUE = "value"
    """Decoded values."""


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """One column of a table."""

    name: str
    type: str
    """DuckDB's name of the type."""
    text: str
    """One line for the documentation."""
    needs: Need = Need.INDEX
    unit: str = ""


@dataclass(frozen=True, slots=True)
class TableReading:
    """What a table is read with, and which of its columns and rows are asked for."""

    store: Store
    opening: Opening
    columns: frozenset[str]
    needs: frozenset[Need]
    bounds: RowBounds
    """Rows outside of these may be left out; DuckDB applies all conditions again."""
    prices: PriceList
    now: datetime
    inference: TriggerInference

    def readers(self, threads: Iterable[Thread]) -> Iterator[ThreadReader]:
        """Yield a reader for each thread; all of them learn from each other."""
        return (ThreadReader(self.store, one, self.inference) for one in threads)

    def operations(self, thread_id: str) -> ThreadOperations:
        """Return the recorded operations on a thread."""
        return ThreadOperations(self.opening, thread_id)

    def namespaces(self, reader: ThreadReader) -> Iterator[tuple[str, set[str] | None]]:
        """Yield each namespace with checkpoints within the bounds, and their ids; None: all."""
        for ns in reader.namespaces:
            ids = self._checkpoint_ids(reader, ns)
            if ids is None or ids:
                yield ns, ids

    def _checkpoint_ids(self, reader: ThreadReader, checkpoint_ns: str) -> set[str] | None:
        bounds = self.bounds
        if bounds.heads_only:
            head = reader.head(checkpoint_ns)
            return set() if head is None else {head}
        if bounds.since is None and bounds.until is None:
            return None
        times = reader.times(checkpoint_ns)
        return {one for one, at in times.items() if at is not None and bounds.holds(at)}


def _no_rows(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:  # noqa: ARG001
    return iter(())


@dataclass(frozen=True)
class QueryTable:
    """A table: one row for each of what `text` says."""

    name: str
    text: str
    columns: tuple[SqlColumn, ...]
    rows: Callable[[TableReading, Sequence[Thread]], Iterator[SqlRow]] = _no_rows
    """Yields the rows of some threads, at least those within the bounds."""
    by_group: bool = False
    """Whether `rows` asks the store once for many threads; then all these rows are in memory."""
    items: Callable[[MemoryStore, TableReading], Iterator[SqlRow]] | None = None
    """Yields the rows of a table of long-term memory, which belong to no thread."""
    commands: str = ""
    """The commands whose JSON has the same answers."""
    by_column: Mapping[str, SqlColumn] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_column", {one.name: one for one in self.columns})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.by_column)

    def needs_of(self, columns: Iterable[str]) -> frozenset[Need]:
        """Return what must be read for these columns."""
        return frozenset(self.by_column[one].needs for one in columns)


def columns_of(shape: Shape, *keys: str, needs: Need) -> Iterator[SqlColumn]:
    """Yield a column for each of these keys of an answer; `NAME=KEY` gives it another name."""
    for one in keys:
        name, _, key = one.rpartition("=")
        field = shape.fields[key]
        yield SqlColumn(name or key, field.type.sql, field.text, needs, field.type.unit)


def keys_of(*more: SqlColumn) -> tuple[SqlColumn, ...]:
    """Return the columns that name a checkpoint, and then others."""
    keys = ("thread_id", "checkpoint_ns", "checkpoint_id")
    return (*columns_of(ENTRY, *keys, needs=Need.INDEX), *more)


def _rows(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    for reader in reading.readers(threads):
        sizes = _sizes(reading, reader)
        for ns, ids in reading.namespaces(reader):
            head = reader.head(ns)
            for record in _of_namespace(reading, reader, ns, ids):
                key = CheckpointKey(reader.thread_id, ns, record["checkpoint_id"])
                is_head = key.checkpoint_id == head
                yield {**record, "is_head": is_head, "bytes": sizes.get(key)}


def _of_namespace(
    reading: TableReading, reader: ThreadReader, ns: str, ids: set[str] | None
) -> Iterator[SqlRow]:
    if Need.STEP in reading.needs:
        operations = reading.operations(reader.thread_id)
        for entry in namespace_entries(reader, ns, operations, ids):
            yield ENTRY.record(entry)
        return
    index = reader.index(ns)
    depths = reader.parentage(ns).depths if "depth" in reading.columns else {}
    times = reader.times(ns) if "ts" in reading.columns else {}
    metadata = Need.METADATA in reading.needs
    hide = is_redacted(reader.store)
    stored = (
        reader.checkpoints(ns, ids, metadata=True)
        if metadata
        else (one for one in index if ids is None or one.key.checkpoint_id in ids)
    )
    for one in stored:
        checkpoint_id = one.key.checkpoint_id
        row: dict[str, Any] = {
            "thread_id": reader.thread_id,
            "checkpoint_ns": ns,
            "checkpoint_id": checkpoint_id,
            "parent_checkpoint_id": one.parent_checkpoint_id,
            "ts": optional_iso(times.get(checkpoint_id)),
            "depth": depths.get(checkpoint_id),
        }
        if metadata:
            found = read_metadata(one)
            row["step"] = number_of(checkpoint_id, found)
            row["source"] = source_from(found)
            row["metadata"] = values_record(redact_metadata(found) if hide else found)
        yield row


def _sizes(reading: TableReading, reader: ThreadReader) -> Counter[CheckpointKey]:
    found: Counter[CheckpointKey] = Counter()
    if Need.SIZES in reading.needs:
        for key, size in reader.store.checkpoint_sizes(reader.thread_id):
            found[key] += size.bytes
    return found


CHECKPOINTS = QueryTable(
    "checkpoints",
    "Checkpoints of all namespaces, as `history --all-ns` lists them.",
    keys_of(
        *columns_of(ENTRY, "parent_checkpoint_id", "ts", needs=Need.INDEX),
        SqlColumn("is_head", "BOOLEAN", "Whether LangGraph resumes its namespace from it."),
        *columns_of(ENTRY, "depth", needs=Need.INDEX),
        SqlColumn(
            "bytes",
            "BIGINT",
            "Stored size with its writes, without values that are stored apart.",
            Need.SIZES,
            "bytes",
        ),
        *columns_of(ENTRY, "step", "source", "metadata", needs=Need.METADATA),
        *columns_of(
            ENTRY,
            *("nodes", "next", "waiting", "status", "conditions", "state", "marks", "children"),
            *("versions", "write_count", "problem"),
            needs=Need.STEP,
        ),
    ),
    _rows,
    commands="history",
)


def _rows_of_errors(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    user_key_of(reading.store)  # of the newest threads, wherever this range is
    for one in failures_of_threads(reading.store, threads, history=True):
        record = FAILURE.record(one)
        yield {**record, "failed_at": record["at"]}


_OF_STEP = Need.STEP

ERRORS = QueryTable(
    "errors",
    "Tasks that failed, as `errors --history` lists them.",
    keys_of(
        *columns_of(
            FAILURE,
            *("task_id", "node", "path", "error", "failed_at=at"),
            *("state", "retried", "handled", "resume", "user"),
            needs=_OF_STEP,
        )
    ),
    _rows_of_errors,
    by_group=True,
    commands="errors",
)


def _rows_of_interrupts(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    user_key_of(reading.store)  # of the newest threads, wherever this range is
    return map(WAITING.record, open_questions(reading.store, threads, None))


INTERRUPTS = QueryTable(
    "interrupts",
    "Questions that wait for an answer, as `interrupts` lists them.",
    keys_of(
        *columns_of(
            WAITING,
            *("task_id", "node", "path", "interrupt_id", "since", "value", "response_schema"),
            "user",
            needs=_OF_STEP,
        )
    ),
    _rows_of_interrupts,
    by_group=True,
    commands="interrupts",
)


def _items(memory: MemoryStore, reading: TableReading) -> Iterator[SqlRow]:
    redacted, now = reading.opening.redact, reading.now
    values = Need.VALUE in reading.needs
    found = list_items(memory, (), ItemFilter(), now, redacted=redacted, values=values)
    return map((READ_ITEM if values else ITEM).record, found)


MEMORY = QueryTable(
    "memory",
    "Items of long-term memory, as `memory list` and `memory export` list them.",
    (
        *columns_of(ITEM, *ITEM.fields, needs=Need.INDEX),
        *columns_of(READ_ITEM, "value", needs=Need.VALUE),
    ),
    items=_items,
    commands="memory list, memory export",
)


def _rows_of_messages(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    for reader in reading.readers(threads):
        head = reader.thread.head
        if head is None:
            continue
        try:
            found = conversation(Target(reader, "", head, chosen=False), None)
        except (NotFound, Unreadable):
            continue
        times = _Times(reader, found) if "ts" in reading.columns else None
        for turn, record in zip(found.turns, message_records(found.turns, 0), strict=True):
            usage = record["usage"] or {}
            yield {
                "thread_id": reader.thread_id,
                "checkpoint_id": head,
                "channel": found.channel,
                **record,
                "text": content_text(turn.message.content),
                "ts": None if times is None else optional_iso(times.of(turn)),
                **{f"{kind}_tokens": usage.get(kind) for kind in ("input", "output", "total")},
            }


class _Times:
    """When each message of a conversation was first written, as far as the writes tell."""

    def __init__(self, reader: ThreadReader, found: Conversation) -> None:
        times = reader.times("")
        self._by_id: dict[str, datetime] = {}
        self._nameless: dict[tuple[str, str], datetime] = {}
        for write in reader.writes("", channels=[found.channel], values=True):
            at = write.at or times.get(write.key.checkpoint_id)
            if at is not None and write.value is not None:
                for message in map(as_message, message_list(decode(write.value)) or ()):
                    if message is not None:
                        self._add(message, at)

    def _add(self, message: Message, at: datetime) -> None:
        if message.id is not None:
            self._by_id[message.id] = min(at, self._by_id.get(message.id, at))
        else:
            held = _contents(message)
            self._nameless[held] = min(at, self._nameless.get(held, at))

    def of(self, turn: Turn) -> datetime | None:
        """Return the time of a message; one that got its id later is told by what it says."""
        message = as_message(turn.value) or turn.message
        if message.id is not None and message.id in self._by_id:
            return self._by_id[message.id]
        return self._nameless.get(_contents(message))


def _contents(message: Message) -> tuple[str, str]:
    return message.role, repr(message.content)


_VALUE = Need.VALUE

MESSAGES = QueryTable(
    "messages",
    "Messages of the conversation at each thread's head, as `messages` prints them.",
    (
        SqlColumn("thread_id", "VARCHAR", "Thread.", _VALUE),
        SqlColumn("checkpoint_id", "VARCHAR", "The head.", _VALUE),
        SqlColumn("channel", "VARCHAR", "Channel that holds the conversation.", _VALUE),
        *columns_of(MESSAGE, "index", "id", "role", "name", needs=_VALUE),
        SqlColumn("text", "VARCHAR", "Text of the content; other parts as [type].", _VALUE),
        *columns_of(MESSAGE, "content", "tool_calls", "tool_call_id", "model", needs=_VALUE),
        SqlColumn("input_tokens", "BIGINT", "Tokens of the prompt.", _VALUE, "tokens"),
        SqlColumn("output_tokens", "BIGINT", "Tokens of the answer.", _VALUE, "tokens"),
        SqlColumn("total_tokens", "BIGINT", "Both.", _VALUE, "tokens"),
        SqlColumn(
            "ts",
            "TIMESTAMPTZ",
            "Start of the step that wrote it first; NULL if no stored write tells it.",
            _VALUE,
        ),
    ),
    _rows_of_messages,
    commands="messages",
)


def _rows_of_tasks(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    hide = is_redacted(reading.store)
    for reader in reading.readers(threads):
        for ns, ids in reading.namespaces(reader):
            for moment in reader.moments(ns, ids):
                shown = moment.redacted() if hide else moment
                for task in shown.step.runs:
                    yield {
                        "thread_id": reader.thread_id,
                        "checkpoint_ns": ns,
                        "checkpoint_id": moment.key.checkpoint_id,
                        "ts": optional_iso(moment.at),
                        "step": moment.number,
                        **TASK.record(task),
                        "task_id": task.id,
                    }


TASKS = QueryTable(
    "tasks",
    "Tasks of the step after each checkpoint, as `tasks` of `history --all-ns` has them.",
    keys_of(
        SqlColumn("ts", "TIMESTAMPTZ", "When the checkpoint was saved: the step began.", _OF_STEP),
        SqlColumn("step", "BIGINT", "Step of the checkpoint.", _OF_STEP),
        *columns_of(
            TASK,
            *("task_id=id", "node", "path", "finished", "error", "failed_in", "interrupts"),
            needs=_OF_STEP,
        ),
    ),
    _rows_of_tasks,
    commands="history",
)


def _rows_of_threads(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    if Need.STEP in reading.needs:
        user_key_of(reading.store)  # of the newest threads, wherever this range is
    for some in in_chunks(threads):
        ids = [one.thread_id for one in some]
        sizes = sizes_of(reading.store, ids) if Need.SIZES in reading.needs else {}
        details = Need.STEP in reading.needs
        for row in described_threads(
            reading.store, some, reading.inference, reading.now, details=details
        ):
            record = LISTED.record(row)
            yield {**record, "bytes": sizes.get(row.thread.thread_id)}


THREADS = QueryTable(
    "threads",
    "Threads, as `threads list --all --long` lists them.",
    (
        *columns_of(
            LISTED,
            *("thread_id", "head", "first_at", "last_at", "checkpoints", "namespaces"),
            needs=Need.INDEX,
        ),
        *columns_of(LISTED, "bytes", needs=Need.SIZES),
        *columns_of(
            LISTED,
            *("step", "source", "parent", "status", "conditions", "next", "runs", "error"),
            *("why", "question", "asked_by", "title", "expires_at", "metadata", "user"),
            needs=Need.STEP,
        ),
    ),
    _rows_of_threads,
    by_group=True,
    commands="threads list",
)


def _rows_of_usage(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    hide = is_redacted(reading.store)
    for reader in reading.readers(threads):
        for one, node in thread_messages(reader, with_nodes="node" in reading.columns):
            price = reading.prices.of(one.model)
            yield {
                "thread_id": reader.thread_id,
                "checkpoint_ns": one.origin.checkpoint_ns,
                "checkpoint_id": one.origin.checkpoint_id,
                "ts": optional_iso(one.origin.at),
                "task_id": one.origin.task_id,
                "node": node,
                "model": None if hide else one.model,
                **asdict(one.tokens),
                "cost": None if price is None else price.cost(one.tokens),
            }


USAGE = QueryTable(
    "usage",
    "Messages of models that tell their tokens, each once, as `stats --by model` counts them.",
    keys_of(
        SqlColumn("ts", "TIMESTAMPTZ", "Start of the step that wrote it.", _VALUE),
        SqlColumn("task_id", "VARCHAR", "Task that wrote it.", _VALUE),
        SqlColumn("node", "VARCHAR", "Node that wrote it, with its callers: a > b.", _VALUE),
        SqlColumn("model", "VARCHAR", "Model.", _VALUE),
        SqlColumn("input", "BIGINT", "Prompt, cached tokens included.", _VALUE, "tokens"),
        SqlColumn("output", "BIGINT", "Answer, reasoning included.", _VALUE, "tokens"),
        SqlColumn("cache_read", "BIGINT", "Read from the cache.", _VALUE, "tokens"),
        SqlColumn("cache_creation", "BIGINT", "Written to the cache.", _VALUE, "tokens"),
        SqlColumn("reasoning", "BIGINT", "Reasoning.", _VALUE, "tokens"),
        SqlColumn("total", "BIGINT", "Prompt and answer.", _VALUE, "tokens"),
        SqlColumn("cost", "DOUBLE", "Cost; NULL without a price.", _VALUE, "of [prices]"),
    ),
    _rows_of_usage,
    commands="stats --by model",
)


def _rows_of_values(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    for reader in reading.readers(threads):
        for ns, ids in reading.namespaces(reader):
            wanted = reading.bounds.channels
            values: bool | frozenset[str] = Need.VALUE in reading.needs
            if values and wanted is not None:
                values = wanted
            for one in reader.decoded(ns, ids, state=values):
                yield from _of_checkpoint(reading, reader, one)


def _of_checkpoint(
    reading: TableReading, reader: ThreadReader, one: DecodedCheckpoint
) -> Iterator[SqlRow]:
    if one.body.problem is not None:
        return
    wanted = reading.bounds.channels
    state: State | None = None
    if Need.VALUE in reading.needs:
        state = read_state(reader, one, wanted)
        names: Sequence[str] = list(state.values)
    else:
        names = state_channels(reader, one)
    sizes = _stored_sizes(one, names) if "bytes" in reading.columns else {}
    if state is not None and is_redacted(reader.store):
        state = state.redacted()
    blobs = one.checkpoint.blobs or {}
    for name in names:
        if wanted is not None and name not in wanted:
            continue
        stored = name in one.body.values
        row: dict[str, Any] = {
            "thread_id": reader.thread_id,
            "checkpoint_ns": one.key.checkpoint_ns,
            "checkpoint_id": one.key.checkpoint_id,
            "ts": optional_iso(one.at),
            "step": one.number,
            "is_head": one.key.checkpoint_id == reader.head(one.key.checkpoint_ns),
            "channel": name,
            "version": _text(one.body.versions.get(name)),
            "type": blobs[name].type if name in blobs else _body_type(one) if stored else None,
            "bytes": sizes.get(name),
        }
        if state is not None:
            row["rebuilt"] = state.rebuilt.get(name)
            row["value"] = to_json(state.values[name])
        yield row


def _stored_sizes(one: DecodedCheckpoint, names: Sequence[str]) -> Mapping[str, int]:
    """Return the bytes of each stored value; as JSON if its form in the body has no length."""
    blobs, body = one.checkpoint.blobs or {}, one.checkpoint.body
    found = None if body is None else channel_sizes(body)
    sizes = {name: blob.size for name, blob in blobs.items()}
    for name in names:
        if name not in sizes and name in one.body.values:
            held: Value = one.body.values[name]
            sizes[name] = json_size(held) if found is None else found.get(name, json_size(held))
    return sizes


def _body_type(one: DecodedCheckpoint) -> str | None:
    return None if one.checkpoint.body is None else one.checkpoint.body.type


def _text(version: object) -> str | None:
    return None if version is None else str(version)


VALUES = QueryTable(
    "values",
    "The state at each checkpoint, one row for each channel; `values` of `show`.",
    keys_of(
        SqlColumn("ts", "TIMESTAMPTZ", "When the checkpoint was saved.", _OF_STEP),
        SqlColumn("step", "BIGINT", "Step of the checkpoint.", _OF_STEP),
        SqlColumn("is_head", "BOOLEAN", "Whether it is the head of its namespace.", _OF_STEP),
        SqlColumn("channel", "VARCHAR", "Channel.", _OF_STEP),
        SqlColumn("version", "VARCHAR", "Version; equal ones have equal values.", _OF_STEP),
        SqlColumn("type", "VARCHAR", "Type tag of the serializer; NULL if not stored.", _OF_STEP),
        SqlColumn("bytes", "BIGINT", "Length of the stored value.", _OF_STEP, "bytes"),
        SqlColumn("rebuilt", "VARCHAR", "How a value was rebuilt that is not stored.", Need.VALUE),
        SqlColumn("value", "JSON", "Value.", Need.VALUE),
    ),
    _rows_of_values,
    commands="show",
)


def _rows_of_writes(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    hide = is_redacted(reading.store)
    for reader in reading.readers(threads):
        for ns, ids in reading.namespaces(reader):
            # Writes of checkpoints that are gone belong to no answer.
            stored = {one.key.checkpoint_id for one in reader.index(ns)}
            times = reader.times(ns) if "ts" in reading.columns else {}
            for placed in _placed(reading, reader, ns, ids):
                checkpoint_id = placed.write.key.checkpoint_id
                if checkpoint_id in stored:
                    shown = placed.redacted() if hide else placed
                    yield {
                        "thread_id": reader.thread_id,
                        "checkpoint_ns": ns,
                        "checkpoint_id": checkpoint_id,
                        "ts": optional_iso(times.get(checkpoint_id)),
                        "written_at": optional_iso(placed.write.at),
                        **_record(reading, shown),
                    }


def _record(reading: TableReading, placed: TaskWrite) -> SqlRow:
    write = placed.write
    if Need.VALUE in reading.needs:
        return {"encrypted": False, **WRITE.record(placed)}
    return {
        "task_id": write.task_id,
        "node": placed.node,
        "task_path": placed.path,
        "idx": write.idx,
        "channel": write.channel,
        "type": None if write.value is None else write.value.type,
        "encrypted": write.value is not None and bool(write.value.encrypted),
        "bytes": write.size,
    }


def _placed(
    reading: TableReading, reader: ThreadReader, ns: str, ids: set[str] | None
) -> Iterator[TaskWrite]:
    """Yield the writes of a namespace with their nodes; without them if they are not asked for."""
    channels = reading.bounds.channels
    values = bool({Need.VALUE, Need.STORED} & reading.needs)
    by_step = not reading.columns.isdisjoint({"node", "task_path"})
    open_ids: list[str] = []
    stream = reader.writes(ns, ids, channels=channels, values=values)
    if by_step and reader.is_values_only:
        open_ids = [one.key.checkpoint_id for one in reader.index(ns)]
        stream = iter(())
    for checkpoint_id, group in groupby(stream, lambda one: one.key.checkpoint_id):
        writes = list(group)
        if by_step and not all(map(_tells_node, writes)):
            open_ids.append(checkpoint_id)
            continue
        for write in writes:
            node = pulled_node(write.task_path) if write.task_path else None
            yield TaskWrite(write, node, write.task_path)
    for some in in_chunks(one for one in open_ids if ids is None or one in ids):
        for moment in reader.moments(ns, some, values=values):
            for placed in task_writes(moment.writes, moment.step):
                if channels is None or placed.write.channel in channels:
                    yield placed


def _tells_node(write: Write) -> bool:
    """Return whether the row of a write tells its node, or that it has none."""
    if write.task_id == NULL_TASK_ID:
        return True
    return bool(write.task_path) and pulled_node(write.task_path) is not None


WRITES = QueryTable(
    "writes",
    "What tasks wrote, stored with the checkpoint that they started from; `writes` of `show`.",
    keys_of(
        SqlColumn("ts", "TIMESTAMPTZ", "When the checkpoint was saved: the step began."),
        *columns_of(
            WRITE,
            *("task_id", "node", "task_path", "idx", "channel", "bytes", "written_at=at"),
            needs=Need.INDEX,
        ),
        *columns_of(WRITE, "type", "encrypted", needs=Need.STORED),
        *columns_of(WRITE, "value", needs=Need.VALUE),
    ),
    _rows_of_writes,
    commands="show",
)


TABLES: Mapping[str, QueryTable] = {
    table.name: table
    for table in (
        THREADS,
        CHECKPOINTS,
        TASKS,
        WRITES,
        VALUES,
        MESSAGES,
        INTERRUPTS,
        ERRORS,
        USAGE,
        MEMORY,
    )
}
