"""Changes a table of `DynamoDBSaver`.

A change of up to 100 items is one transaction, which requires that the heads still exist. A longer
one (a fork that copies a long thread) first stores payloads and writes, which nobody sees without
their checkpoints, then the checkpoints, the head last. A longer undo removes whole checkpoints, the
head last. An error takes it back: what was stored is removed, what was removed is put back.

DynamoDB cannot require that no other item exists. So after a transaction the thread is read again:
if an agent has added a checkpoint meanwhile, and not on top of the new one, or something on top of
a removed one, the change is taken back and fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from botocore.exceptions import BotoCoreError, ClientError

from ckpt_backends.base import BaseWritableStore, OnConnection
from ckpt_backends.changes.change import Change, moved
from ckpt_backends.changes.progress import Progress, silent
from ckpt_backends.changes.remains import Remains
from ckpt_backends.changes.removal import Removal, Removed
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.dynamodb.connect import DynamoConnection, Key
from ckpt_backends.dynamodb.driver_errors import explained_change
from ckpt_backends.dynamodb.groups import RemovedItems, groups_of, removing_actions, removing_steps
from ckpt_backends.dynamodb.index import DynamoIndex, heads_of, read_thread
from ckpt_backends.dynamodb.items import CHECKPOINT, CheckpointItem, is_storable
from ckpt_backends.dynamodb.lease import DynamoLease, change_lease
from ckpt_backends.dynamodb.plan import DynamoPlan, object_keys
from ckpt_backends.dynamodb.receiving import receive_thread
from ckpt_backends.dynamodb.removing import remove_threads
from ckpt_backends.dynamodb.restoring import restore_rows
from ckpt_backends.dynamodb.rewriting import rewrite_thread
from ckpt_backends.dynamodb.writer import (
    IS_NEW,
    IS_THERE,
    DynamoAction,
    DynamoWriter,
    check,
    delete,
    fits_together,
    in_transactions,
    put,
)
from ckpt_backends.errors import PartlyDone, StoreUnavailable, Unsupported
from ckpt_backends.model import CheckpointKey
from ckpt_backends.transfer.parts import Arrival, PartRewrite
from ckpt_backends.url import StoreUrl


class WritableDynamoStore(OnConnection[DynamoConnection], BaseWritableStore):
    """A table, opened for changing."""

    def __init__(self, connection: DynamoConnection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        self._left_objects: list[str] = []
        """Payloads in S3 that were not removed with their items."""

    def apply(self, change: Change) -> None:
        if change.blobs or change.removed_blobs:
            raise Unsupported("layout 'dynamodb' stores no values outside of checkpoints")
        if not all(is_storable(one.key) for one in change.checkpoints):
            raise Unsupported(f"DynamoDB cannot store the thread id '{change.thread_id}'")
        connection = self._connection
        with explained_change(self._url), change_lease(connection, change.thread_id) as lease:
            present = read_thread(connection, change.thread_id)
            if heads_of(present) != dict(change.heads):
                raise moved(change)
            plan = DynamoPlan(connection, change, present)
            carried = _Carrying(connection, change, lease)
            try:
                carried.out(plan)
                carried.check_nothing_came(present)
            except Exception as error:
                if not carried.back():
                    raise _partly(change) from error
                raise
            except BaseException:
                carried.back()
                raise
            self._left_objects += carried.remove_objects()

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with explained_change(self._url):
            return remove_threads(self._connection, removals, self._left_objects)

    def finish_removal(self) -> str:
        if not self._left_objects:
            return ""
        number, first = len(self._left_objects), self._connection.object_key(self._left_objects[0])
        what = "object" if number == 1 else "objects"
        return (
            f"{number} {what} could not be removed from bucket '{self._connection.bucket}', such as"
            f" '{first}'; grant s3:DeleteObject, and remove them there"
        )

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        from ckpt_backends.dynamodb.erasing import remains_of

        return remains_of(self._connection, self.finish_removal())

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url):
            return restore_rows(self._connection, rows)

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        with explained_change(self._url):
            for arrival in arrivals:
                receive_thread(self._connection, arrival)

    def rewrite(self, thread_id: str, rewrites: Iterable[PartRewrite]) -> None:
        with explained_change(self._url):
            rewrite_thread(self._connection, thread_id, rewrites)

    def vacuum(self) -> None:
        raise Unsupported(
            f"'{self._url}' cannot be vacuumed: DynamoDB bills only what is stored",
            hint="run the command without --vacuum",
        )


def _partly(change: Change) -> PartlyDone:
    return PartlyDone(
        f"thread '{change.thread_id}' was changed in part, and taking that back failed",
        hint="check the thread with `ckpt history`, then run the command again, or `ckpt threads"
        " delete THREAD` if the thread was to be removed",
    )


class _Carrying:
    """Carries out one change, and takes it back if that fails."""

    def __init__(self, connection: DynamoConnection, change: Change, lease: DynamoLease) -> None:
        self._connection = connection
        self._writer = DynamoWriter(connection)
        self._change = change
        self._lease = lease
        self._hidden: list[DynamoAction] = []
        """Payloads and writes that wait; nobody sees them without their checkpoints."""
        self._last: list[DynamoAction] = []
        """What makes the change visible."""
        self._stored: list[Key] = []
        self._objects: list[str] = []
        self._removed = RemovedItems(connection)
        self._old_objects: list[str] = []

    def out(self, plan: DynamoPlan) -> None:
        """Write all of it."""
        going = plan.removed()
        self._old_objects = object_keys(self._connection, going)
        groups = sorted(groups_of(going), key=lambda one: one.order)
        removing = removing_actions(groups, IS_THERE)
        self._last += map(check, sorted(plan.checked()))
        for pair in plan.added():
            if pair.object is not None:
                self._objects.append(pair.object[0])
                self._writer.put_object(*pair.object)
            if pair.chunk is not None:
                self._hidden.append(put(pair.chunk))
            is_checkpoint = "id" in pair.item
            (self._last if is_checkpoint else self._hidden).append(put(pair.item, IS_NEW))
            if not fits_together([*self._hidden, *_most(self._last)]):
                self._store_hidden()
        if fits_together([*removing, *self._hidden, *self._last]):
            self._lease.keep()
            added = [*self._hidden, *self._last]
            if groups:
                self._removed.remove(groups, IS_THERE, added)
            else:
                self._writer.transact(added)
            self._stored += [one.key for one in added if one.kind == "Put"]
            return
        self._store_hidden()
        self._last.sort(key=_visible_last)
        for some in in_transactions(self._last):
            self._transact(some)
        # The saver reads a whole thread until its head goes.
        for step in removing_steps(groups):
            self._lease.keep()
            self._removed.remove(step, IS_THERE)

    def remove_objects(self) -> list[str]:
        """Remove the objects of removed payloads. Returns those that could not be removed."""
        return self._writer.remove_objects(self._old_objects)

    def _store_hidden(self) -> None:
        self._lease.keep()
        self._stored += [one.key for one in self._hidden]
        self._writer.write(self._hidden)
        self._hidden = []

    def _transact(self, actions: Sequence[DynamoAction]) -> None:
        self._lease.keep()
        self._writer.transact(actions)
        self._stored += [one.key for one in actions if one.kind == "Put"]

    def check_nothing_came(self, before: Iterable[CheckpointItem]) -> None:
        """Raise `StoreChanged` if somebody else added a checkpoint, unless it is based on ours."""
        ours = {one.key for one in self._change.checkpoints}
        thread_id = self._change.thread_id
        ours |= {
            CheckpointKey(thread_id, one.source.checkpoint_ns, one.source.checkpoint_id)
            for one in self._change.copies
        }
        gone = list(self._change.removed or ())
        if not ours and not gone:
            return
        known = (ours | {one.key for one in before}) - {*gone}
        others = [one for one in read_thread(self._connection, thread_id) if one.key not in known]
        ids = {key.checkpoint_id for key in ours}
        if others and (gone or not any(one.parent in ids for one in others)):
            raise moved(self._change)
        written = DynamoIndex(self._connection).writes(gone, gone)
        if any(writes for _, writes in written):
            raise moved(self._change)

    def back(self) -> bool:
        """Remove what was stored, and store what was removed. Returns whether that is done."""
        # The first error is the one to tell.
        is_clean = not any(key[0].startswith(CHECKPOINT) for key in self._stored)
        with suppress(ClientError, BotoCoreError, OSError, StoreUnavailable):
            self._writer.write([delete(key) for key in reversed(self._stored)])
            is_clean = True
            self._writer.delete_objects(self._objects)
        return self._removed.put_back() and is_clean


def _most(actions: Sequence[DynamoAction]) -> Sequence[DynamoAction]:
    """As many of the actions as matter to find out whether a transaction can hold them."""
    return actions[:101]


def _visible_last(action: DynamoAction) -> tuple[bool, bool, str]:
    """The order in which a long change becomes visible: the newest root checkpoint last."""
    ns, _, checkpoint_id = action.key[1].rpartition("#")
    return action.kind == "Put", not ns, checkpoint_id
