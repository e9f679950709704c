"""Answers as records: the JSON shapes that scripts rely on. Keys may be added, never renamed.

Times are UTC in ISO 8601, sizes are in bytes, and values are in the codec's JSON form. If a key is
absent, the data was not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_backends.model import CheckpointKey, Status, Write
from ckpt_cli.core.tasks import asked_by, failed_at, marks, next_paths
from ckpt_cli.render.table import optional_iso
from ckpt_cli.render.threads import thread_record

if TYPE_CHECKING:
    from ckpt_cli.core.state import Join
    from ckpt_cli.core.tasks import Question, Task, TaskWrite
    from ckpt_cli.core.values import Selected
    from ckpt_cli.queries.history import Entry
    from ckpt_cli.queries.operations import ListedOperation
    from ckpt_cli.queries.show import CheckpointView, Lifetime, Summary, WholeThread
    from ckpt_cli.queries.stores import FoundStore, OpenableLayout
    from ckpt_cli.reading.thread import Moment


def store_record(found: FoundStore) -> dict[str, Any]:
    """Return one store of `stores`."""
    record: dict[str, Any] = {"name": found.name, "url": found.url}
    if found.error is not None:
        return {**record, "error": found.error.message}
    memory, info = found.memory, found.info
    if memory is not None:
        record |= {
            "layout": memory.layout,
            "engine": memory.engine,
            "tables": list(memory.tables),
            "notes": list(memory.notes),
        }
    if info is not None:
        record |= {
            "layout": info.layout,
            "engine": info.engine,
            "saver": info.saver,
            "size": info.size,
            **({} if info.log is None else {"log": info.log}),
            "tables": list(info.tables),
            "capabilities": sorted(str(one.name).lower() for one in info.capabilities),
            "notes": list(info.notes),
        }
    return record


def layout_record(one: OpenableLayout) -> dict[str, Any]:
    """Return one layout of `stores --layouts`."""
    record: dict[str, Any] = {"layout": one.layout or None, "backend": one.title}
    record["package"] = one.package
    if one.error:
        return {**record, "error": one.error}
    record |= {"schemes": list(one.schemes)} if one.schemes else {"engine": one.engine}
    record["file_names"] = list(one.file_names)
    if one.needs:
        record["needs"] = one.needs
    if one.capabilities is not None:
        record["capabilities"] = sorted(str(can.name).lower() for can in one.capabilities)
        record["commands"] = dict(one.commands)
    return {**record, "notes": list(one.notes)}


def moment_record(moment: Moment, children: Sequence[str]) -> dict[str, Any]:
    """Return a checkpoint without its values and writes, as in `history`."""
    step, key, body = moment.step, moment.key, moment.body
    conditions = [one.value for one in moment.conditions]
    record = {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": key.checkpoint_id,
        "parent_checkpoint_id": moment.checkpoint.parent_checkpoint_id,
        "ts": optional_iso(moment.at),
        "step": moment.number,
        "source": moment.source,
        "next": _names(step.next),
        "next_paths": _paths(next_paths(step)),
        "waiting": _names(step.waiting),
        "status": conditions[0],
        "conditions": conditions,
        "tasks": [task_record(task) for task in step.runs],
        "metadata": values_record(moment.metadata),
        "interrupts": list(map(question_record, step.questions)),
        "children": list(children),
        "versions": values_record(body.versions),
        "write_count": len(moment.writes),
    }
    if body.problem is not None:
        record["problem"] = body.problem.reason
    if step.assumed:
        record["assumed"] = True
    if moment.checkpoint.begins_run:
        record["begins_run"] = True
    return record


def entry_record(entry: Entry) -> dict[str, Any]:
    """Return one checkpoint of `history` and `show --tree`."""
    record = moment_record(entry.moment, entry.children)
    # If other checkpoints follow, nothing is pending any more.
    passed, status = bool(entry.children), record["status"]
    record["depth"] = entry.depth
    record["nodes"] = _names(entry.nodes)
    record["state"] = None if passed and status == Status.PENDING else status
    record["marks"] = marks(entry.moment.step, passed=passed)
    if entry.operation is not None:
        record["operation"] = _operation(entry.operation)
    if entry.plaintext:
        record["plaintext"] = True
    if entry.given is not None:
        record["input"] = to_json(entry.given)
    return record


def _operation(one: ListedOperation) -> dict[str, Any]:
    operation = one.operation
    return {
        "op": operation.op,
        "action": operation.action,
        "at": optional_iso(operation.at),
        "user": operation.user,
        "reason": operation.reason,
        "undone_by": one.undone_by,
    }


def show_record(found: CheckpointView) -> dict[str, Any]:
    """Return a whole checkpoint, as in `show`."""
    record = moment_record(found.moment, found.children)
    del record["write_count"]
    record["values"] = values_record(found.state.values)
    record["rebuilt"] = dict(found.state.rebuilt)
    record["writes"] = [write_record(placed) for placed in found.writes]
    if found.joins:
        record["joins"] = list(map(join_record, found.joins))
    if found.dropped:
        record["writes_dropped"] = True
    if found.unstored:
        record["unstored"] = list(found.unstored)
    if found.resume is not None:
        from ckpt_cli.render.thread import resume_record

        record["resume"] = resume_record(found.moment, found.resume)
    if found.given is not None:
        record["input"] = to_json(found.given)
    if found.unloaded:
        record["unloaded"] = found.unloaded
    record |= _lifetime(found.lifetime) | _plaintext(found.plaintext)
    # What holds for the thread has no key of the checkpoint, such as `next`.
    return record if found.thread is None else {**whole_thread_record(found.thread), **record}


def whole_thread_record(found: WholeThread) -> dict[str, Any]:
    """Return a thread as a whole, as in `show` at the head; what was not read has no key."""
    record = thread_record(found.row)
    if found.size is not None:
        record["all_writes"] = found.size.writes
    if found.in_namespaces is not None:
        record["in_namespaces"] = [one._asdict() for one in found.in_namespaces]
    if found.operations:
        record["operations"] = list(map(_operation, found.operations))
    return record


def join_record(one: Join) -> dict[str, Any]:
    """Return a join of which some members have finished."""
    return {"node": one.node, "waits_for": list(one.waits_for), "has": list(one.has)}


def _lifetime(found: Lifetime | None) -> dict[str, Any]:
    """Return when it expires, and what expires before it; empty if nothing does."""
    if found is None:
        return {}
    times = {
        "expires_at": found.at,
        "writes_expire_at": found.writes_at,
        "ancestor_expires_at": found.ancestor_at,
    }
    return {name: optional_iso(at) for name, at in times.items() if at is not None}


def channel_rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the values of a `show` record, one row per channel."""
    rebuilt = record["rebuilt"]
    return [
        {"channel": name, "value": value, "rebuilt": rebuilt.get(name)}
        for name, value in record["values"].items()
    ]


def picked_rows(found: Sequence[Selected]) -> list[dict[str, Any]]:
    """Return the places that `show --path` found, one row each."""
    from ckpt_cli.core.values import format_path

    return [{"path": format_path(one.path), "value": to_json(one.value)} for one in found]


def summary_record(found: Summary) -> dict[str, Any]:
    """Return a thread with its head, without the state."""
    from ckpt_cli.render.thread import resume_record

    record = whole_thread_record(found.facts)
    record["writes"] = record.pop("all_writes")
    if found.head is not None:
        record |= {
            key: value
            for key, value in moment_record(found.head, []).items()
            if key in {"next", "next_paths", "waiting", "interrupts", "tasks"}
        }
        if found.resume is not None:
            record["resume"] = resume_record(found.head, found.resume)
    record["joins"] = list(map(join_record, found.joins))
    if found.unloaded:
        record["unloaded"] = found.unloaded
    return record | _lifetime(found.lifetime) | _plaintext(found.plaintext)


def _place(key: CheckpointKey) -> dict[str, Any]:
    return {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": key.checkpoint_id,
    }


def values_record(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return channel values in JSON form."""
    return {
        # Most are versions, which are such texts.
        name: value if type(value) is str and value.isascii() else to_json(value)
        for name, value in values.items()
    }


def task_record(task: Task) -> dict[str, Any]:
    """Return one task of a checkpoint's next step."""
    record: dict[str, Any] = {
        "id": task.id,
        "node": task.node,
        "path": task.path,
        "finished": task.finished,
        "error": task.error,
    }
    if task.error is not None:
        record["failed_in"] = list(failed_at(task))
    record["interrupts"] = [question_record(question) for question in task.questions]
    return record


def question_record(question: Question) -> dict[str, Any]:
    """Return one Interrupt of a task."""
    record = {
        "task_id": question.task_id,
        "node": question.node,
        "path": list(asked_by(question)),
        "interrupt_id": question.interrupt_id,
        "value": to_json(question.value),
        "answered": question.answered,
        **({"failed_answer": True} if question.failed_answer else {}),
    }
    if question.response_schema is not None:
        record["response_schema"] = to_json(question.response_schema)
    return record


def write_record(placed: TaskWrite) -> dict[str, Any]:
    """Return one write of a task, with its node and path."""
    write: Write = placed.write
    record: dict[str, Any] = {
        "task_id": write.task_id,
        "node": placed.node,
        "task_path": placed.path,
        "idx": write.idx,
        "channel": write.channel,
        "type": write.value.type if write.value is not None else None,
        "bytes": write.size,
        **({"at": optional_iso(write.at)} if write.at is not None else {}),
    }
    if write.value is not None:
        record["value"] = to_json(placed.value)
        if write.value.encrypted:
            record["encrypted"] = True
    return record


def _plaintext(found: bool) -> dict[str, Any]:
    return {"plaintext": True} if found else {}


def _names(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _paths(paths: Sequence[Sequence[str]] | None) -> list[list[str]] | None:
    return None if paths is None else [list(path) for path in paths]
