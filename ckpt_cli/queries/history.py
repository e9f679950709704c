"""List the checkpoints of a thread."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.codec.values import Value
from ckpt_backends.model import NULL_TASK_ID
from ckpt_cli.core.redact import redact
from ckpt_cli.core.state import START, given_input
from ckpt_cli.core.tasks import pulled_node, ran, ran_here
from ckpt_cli.reading.store import shown
from ckpt_cli.reading.thread import Moment, ThreadReader

if TYPE_CHECKING:
    from ckpt_cli.queries.operations import ListedOperation
    from ckpt_cli.queries.thread_operations import ThreadOperations


class Entry(NamedTuple):
    """One checkpoint in a list."""

    moment: Moment
    depth: int
    """Number of forks between it and the branch that leads to the head; 0 on that branch."""
    children: Sequence[str]
    nodes: tuple[str, ...] | None
    """The nodes that ran to make it, one entry per task; None if its parent is not stored."""
    plaintext: bool = False
    """True if it is stored unencrypted in a thread with encrypted checkpoints."""
    operation: "ListedOperation | None" = None
    """The recorded operation of `ckpt` that added it."""
    given: Value = None
    """The input that waits there, if no write tells what it was."""

    def redacted(self) -> "Entry":
        """Return it without values."""
        given = None if self.given is None else redact(self.given)
        return self._replace(moment=self.moment.redacted(), given=given)


def history_entries(
    reader: ThreadReader,
    checkpoint_ns: str | None,
    operations: "ThreadOperations",
    *,
    all_ns: bool,
    limit: int | None,
) -> Iterator[Entry]:
    """Yield checkpoints, newest first within each namespace, read a few at a time."""
    if all_ns:
        namespaces = reader.namespaces
    elif checkpoint_ns:
        namespaces = [reader.namespace(checkpoint_ns)]
    else:
        reader.check_root()
        namespaces = [""]
    found = (entry for ns in namespaces for entry in namespace_entries(reader, ns, operations))
    return islice(found, limit)


def history_entry(
    reader: ThreadReader, checkpoint_ns: str, checkpoint_id: str, operations: "ThreadOperations"
) -> Entry:
    """Return one checkpoint as `history_entries` lists it. Raises `NotFound`."""
    return _listed(reader, reader.moment(checkpoint_ns, checkpoint_id), operations)


def namespace_entries(
    reader: ThreadReader,
    checkpoint_ns: str,
    operations: "ThreadOperations",
    checkpoint_ids: Collection[str] | None = None,
) -> Iterator[Entry]:
    """Yield the checkpoints of a namespace, or those with these ids, newest first."""
    reader.index(checkpoint_ns)  # What is stored from now on is not known to have children.
    stream = reader.moments(checkpoint_ns, checkpoint_ids, skim=True)
    moment = next(stream, None)
    while moment is not None:
        older = next(stream, None)
        yield _listed(reader, moment, operations, older)
        moment = older


def _listed(
    reader: ThreadReader,
    moment: Moment,
    operations: "ThreadOperations",
    older: Moment | None = None,
) -> Entry:
    found = entry_of(reader, moment, older)
    found = found._replace(operation=operations.adding(moment), given=_given(reader, moment))
    return shown(reader.store, found)


def entry_of(reader: ThreadReader, moment: Moment, older: Moment | None = None) -> Entry:
    """Return a checkpoint as a list has it, with its values; `older` is as in `made_by`."""
    known = reader.parentage(moment.key.checkpoint_ns)
    return Entry(
        moment,
        # One that was stored since the index was read is on the head's line.
        known.depths.get(moment.key.checkpoint_id, 0),
        known.children(moment.key.checkpoint_id),
        made_by(reader, moment, older),
        reader.is_plaintext(moment),
    )


def _given(reader: ThreadReader, moment: Moment) -> Value:
    """Return the input of a run whose writes are not stored."""
    if moment.source != "input" or moment.writes:
        return None
    key = moment.key
    found = reader.stored(key.checkpoint_ns, key.checkpoint_id, state=[START])
    return given_input(found.body, found.metadata)


def made_by(
    reader: ThreadReader, moment: Moment, older: Moment | None = None
) -> tuple[str, ...] | None:
    """Return the nodes that ran to make a checkpoint, one entry per task.

    Returns None if its parent is not stored. `older` is a checkpoint that was already read and may
    be the parent; otherwise the parent is read.
    """
    if reader.is_values_only:
        tasks = {write.task_id: write for write in moment.writes if write.task_id != NULL_TASK_ID}
        nodes = (write.node or pulled_node(write.task_path) for write in tasks.values())
        return tuple(node for node in nodes if node is not None)
    if not ran_here(moment.source):
        return ()
    parent_id = moment.checkpoint.parent_checkpoint_id
    if parent_id is None:
        return None
    parent = older
    if parent is None or parent.key.checkpoint_id != parent_id:
        parent = next(reader.moments(moment.key.checkpoint_ns, [parent_id]), None)
    if parent is None:
        return None
    return ran(parent.step, parent.body.seen, moment.body.seen)
