"""Plans that copy a checkpoint with its history to a new thread."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ckpt_backends.changes.change import Change, CopyOfCheckpoint
from ckpt_backends.codec.set_keys import set_keys
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff.state_diff import diff_channels
from ckpt_cli.core.forking.checkpoint_copy import NEWEST_FORMAT, check_body, mark_clone
from ckpt_cli.core.forking.edit_state import EditedState
from ckpt_cli.core.forking.plan import CheckpointPlan, TouchedCheckpoint
from ckpt_cli.core.state import read_metadata
from ckpt_cli.plans.checkpoint_copy import edit_copy_of, null_writes, whole
from ckpt_cli.plans.edits import edges_of, known_channels, nodes_behind, previewed
from ckpt_cli.plans.root_branch import (
    RollbackOptions,
    asking_nodes,
    check_store,
    configurable,
    finished_nodes,
    is_stateful,
    named,
    repeated_nodes,
    target_and_head,
)
from ckpt_cli.plans.thread_copy import check_free
from ckpt_cli.plans.values_only import plan_values_fork
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.redaction import carried_metadata
from ckpt_cli.threads.states import read_state
from ckpt_cli.threads.thread import ThreadReader


def plan_fork_to_thread(
    reader: ThreadReader, rows: Store, checkpoint_id: str, thread_id: str, options: RollbackOptions
) -> CheckpointPlan:
    """Plan to copy a checkpoint of the root namespace and its ancestors to a new thread.

    Checkpoint ids stay the same, and so do task ids, because they hash the checkpoint id and not
    the thread id. A head is copied with all writes of its tasks, so an open question is also open
    in the copy. Raises `Refused` if the thread exists, and `Unsupported`.
    """
    check_store(rows)
    if reader.is_values_only:
        return plan_values_fork(reader, rows, checkpoint_id, thread_id, options)
    check_free(rows, thread_id)
    target, head = target_and_head(reader, checkpoint_id)
    check_body(target.key, target.body)
    is_head = head.key == target.key
    key = CheckpointKey(thread_id, "", checkpoint_id)
    edges = edges_of(reader, options.as_node) if options.as_node is not None else None
    goes_on = is_head and edges is None
    edited = edit_copy_of(
        reader, rows, target, key, options.edits, edges, known_channels(target, head)
    )
    copies = [_head_of(reader, target, is_head, edited), *_others(reader, target, is_head)]
    listed = (_writes(reader, one.source) if one.writes is None else one.writes for one in copies)
    writes = sum(map(len, listed))
    original = whole(rows, target.key)
    new = writes + len(edited.writes)
    metadata = mark_clone(original.metadata, reader.thread_id, len(copies), new, options.reason)
    body = set_keys(original.body, edited.body) if edited.body and original.body else None
    copies[0] = replace(copies[0], metadata=metadata, body=body)
    preview, edit_notes = previewed(reader, target, options.edits)
    # Without an id, LangGraph continues from the head instead of travelling in time.
    left_out = {"checkpoint_id"} if is_head else set[str]()
    at = {name: one for name, one in configurable(key).items() if name not in left_out}
    return CheckpointPlan(
        action="fork" if options.edits_state else "copy",
        main=TouchedCheckpoint(key, target.checkpoint.parent_checkpoint_id, "clone", checkpoint_id),
        before=head.key,
        head=key,
        why=f"{len(copies)} checkpoints and {writes} writes",
        next=_next(target, edges, is_head),
        saved=finished_nodes(target) if goes_on else (),
        again=() if is_head or edges is not None else repeated_nodes(reader, target),
        asked=() if is_head or edges is not None else asking_nodes(target),
        changes=diff_channels(read_state(reader, head).values, preview),
        configurable=at,
        metadata=carried_metadata(reader.store, target.metadata),
        change=Change(
            thread_id,
            {},
            copies=tuple(copies),
            writes=tuple(edited.writes),
            blobs=tuple(edited.blobs),
        ),
        notes=(*edit_notes, *_notes(target)),
        names=named(reader, head, target, {}),
        now=head.step,
        waits=open_questions(target) if goes_on else None,
        is_javascript=target.body.is_javascript,
    )


def open_questions(head: Moment) -> tuple[str | None, ...] | None:
    """Return the ids of a head's open questions; None if there are none.

    Before format 4 LangGraph accepted no answers by id, so the id is None.
    """
    open_questions = dict.fromkeys(
        question.interrupt_id if head.body.v >= NEWEST_FORMAT or head.body.is_javascript else None
        for task in head.step.tasks
        for question in task.questions
        if question.is_open
    )
    return tuple(open_questions) or None


def _next(target: Moment, edges: Sequence[str] | None, is_head: bool) -> tuple[str, ...] | None:
    if edges is not None:
        return nodes_behind(edges)
    return target.step.waiting if is_head else target.step.next


def _head_of(
    reader: ThreadReader, target: Moment, is_head: bool, edited: EditedState
) -> CopyOfCheckpoint:
    """Return the copy of the target, without the caller's writes to channels that are replaced."""
    found = _copy_of(reader, target.key, is_head)
    if not edited.dropped:
        return found
    writes = target.writes if is_head else null_writes(target.writes)
    left = [
        one for one in writes if one.task_id != NULL_TASK_ID or one.channel not in edited.dropped
    ]
    return replace(found, writes=tuple((one.task_id, one.idx) for one in left))


def _others(reader: ThreadReader, target: Moment, is_head: bool) -> Iterator[CopyOfCheckpoint]:
    """Yield the ancestors, their subgraph calls, and the checkpoints of stateful subgraphs."""
    line = reader.ancestry("", target.key.checkpoint_id)
    for one in line[1:]:
        yield CopyOfCheckpoint(_key(reader, "", one))
    passed = set(line if is_head else line[1:])
    for ns in reader.namespaces:
        if is_stateful(ns):
            ids = [one.key.checkpoint_id for one in reader.index(ns)]
            known = [one for one in ids if is_head or one < target.key.checkpoint_id]
            for place, one in enumerate(reader.ancestry(ns, known[0]) if known else []):
                key = _key(reader, ns, one)
                yield _copy_of(reader, key, is_head) if place == 0 else CopyOfCheckpoint(key)
        elif ns:
            calls = _calls(reader, ns, passed, target.key.checkpoint_id, is_head)
            for place, key in enumerate(calls):
                yield _copy_of(reader, key, True) if place == 0 else CopyOfCheckpoint(key)


def _calls(
    reader: ThreadReader, ns: str, passed: Collection[str], target: str, is_head: bool
) -> Iterator[CheckpointKey]:
    """Yield the checkpoints of a subgraph call that was made on the way to the target.

    LangGraph before 0.2.57 does not store the caller; then the time decides.
    """
    for one in reader.store.checkpoints(reader.thread_id, checkpoint_ns=ns, metadata=True):
        parents = read_metadata(one).get("parents")
        root = parents.get("") if isinstance(parents, dict) else None
        earlier = is_head or one.key.checkpoint_id < target
        if root in passed or (root is None and earlier):
            yield one.key


def _copy_of(reader: ThreadReader, key: CheckpointKey, is_head: bool) -> CopyOfCheckpoint:
    """Return the copy of a namespace's newest checkpoint, with all writes or only the caller's.

    The writes are listed, because an agent may add others before they are copied.
    """
    writes = _writes(reader, key)
    kept = writes if is_head else null_writes(writes)
    return CopyOfCheckpoint(key, writes=tuple((one.task_id, one.idx) for one in kept))


def _key(reader: ThreadReader, ns: str, checkpoint_id: str) -> CheckpointKey:
    return CheckpointKey(reader.thread_id, ns, checkpoint_id)


def _writes(reader: ThreadReader, key: CheckpointKey) -> Sequence[Write]:
    return reader.stored(key.checkpoint_ns, key.checkpoint_id).writes


def _notes(target: Moment) -> Iterator[str]:
    if target.step.next is None:
        yield "what runs next is unknown: the store does not say"
