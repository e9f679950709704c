"""Removes threads, or some of their checkpoints.

Each transaction removes whole checkpoints with their writes and payloads, as many as fit. The head
of the root namespace comes last, so what a killed run leaves is still listed, and the next run
removes it. Objects of S3 go after the items that name them, so a checkpoint that exists is whole.

After the last transaction the thread is read again. If an agent has added something meanwhile, what
this transaction removed is put back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from botocore.exceptions import ClientError

from ckpt_backends.changes.removal import MOVED, Removal, Removed
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.dynamodb.archive import CHECKPOINTS, WRITES
from ckpt_backends.dynamodb.connect import DynamoConnection
from ckpt_backends.dynamodb.driver_errors import is_conflict
from ckpt_backends.dynamodb.groups import ItemGroup, RemovedItems, removing_steps
from ckpt_backends.dynamodb.index import DynamoIndex, read_thread
from ckpt_backends.dynamodb.lease import DynamoLease, purge_lease
from ckpt_backends.dynamodb.plan import object_keys
from ckpt_backends.dynamodb.writer import DynamoWriter
from ckpt_backends.model import CheckpointKey

OBJECTS_UNKNOWN = "its payloads in S3 cannot be found: check ?bucket= and ?key_prefix="


def remove_threads(
    connection: DynamoConnection, removals: Sequence[Removal], left: list[str]
) -> list[Removed]:
    """Remove the threads one by one, and add to `left` the objects that could not be removed.

    Raises `Refused`, `Unsupported` and errors of boto3.
    """
    with purge_lease(connection) as lease:
        return [_removed(_Removing(connection, lease, one, left)) for one in removals]


def _removed(removing: _Removing) -> Removed:
    try:
        skipped = removing.run()
    except ClientError as error:
        if not is_conflict(error):
            raise
        skipped = MOVED
    return Removed(removing.thread_id, removing.rows, skipped)


class _Removing:
    """The removal of one thread, or of a part of it."""

    def __init__(
        self,
        connection: DynamoConnection,
        lease: DynamoLease,
        removal: Removal,
        left_objects: list[str],
    ) -> None:
        self.thread_id = removal.thread_id
        self.rows: Counter[str] = Counter()
        self._connection = connection
        self._writer = DynamoWriter(connection)
        self._lease = lease
        self._removal = removal
        self._left_objects = left_objects
        self._left: set[CheckpointKey] = set()
        """The checkpoints that must exist before the next step."""

    def run(self) -> str:
        """Remove it. Returns why it was skipped, or `''`."""
        self._lease.keep()
        groups = self._groups()
        there = [one for one in groups if one.item is not None]
        self._left = {one.key for one in there}
        newest = max((one.key.checkpoint_id for one in there), default="")
        number = sum(len(one.writes) for one in groups)
        if self._removal.inside is not None:
            # The plan may count writes of missing checkpoints, which only a scan finds.
            number = max(number, self._removal.writes)
        if reason := self._removal.reason_to_skip(time_of(newest), len(there), number):
            return reason
        going = sorted(self._going(groups), key=lambda one: one.order)
        if not self._finds_objects(going):
            return OBJECTS_UNKNOWN
        steps = list(removing_steps(going))
        for step in steps:
            self._lease.keep()
            expected = {one.key: len(one.writes) for one in step}
            if not self._has(expected):
                return MOVED
            if not self._step(step, is_last=step is steps[-1]):
                return MOVED
        return ""

    def _finds_objects(self, going: Sequence[ItemGroup]) -> bool:
        """Whether a payload in S3 is found, if there are any. Raises `Unsupported`."""
        keys = object_keys(self._connection, [item for one in going for item in one.items])
        return not keys or any(self._connection.object_size(key) is not None for key in keys)

    def _groups(self) -> list[ItemGroup]:
        items = {one.key: one for one in read_thread(self._connection, self._removal.thread_id)}
        keys = {*items, *self._named()}
        found = DynamoIndex(self._connection).writes(sorted(keys), sorted(keys))
        return [ItemGroup(key, items.get(key), writes) for key, writes in found]

    def _named(self) -> Iterator[CheckpointKey]:
        """The checkpoints that the removal names, which may be missing."""
        if self._removal.inside is not None:
            for ns, ids in self._removal.inside.checkpoints.items():
                for one in ids:
                    yield CheckpointKey(self._removal.thread_id, ns, one)

    def _going(self, groups: Sequence[ItemGroup]) -> Iterator[ItemGroup]:
        named = set(self._named())
        is_whole = self._removal.inside is None
        return (one for one in groups if is_whole or one.key in named)

    def _has(self, expected: Mapping[CheckpointKey, int]) -> bool:
        """Whether no checkpoint came, and these have so many writes."""
        present = read_thread(self._connection, self._removal.thread_id)
        if {one.key for one in present} != self._left:
            return False
        keys = list(expected)
        found = DynamoIndex(self._connection).writes(keys, keys)
        return all(expected[key] == len(writes) for key, writes in found)

    def _step(self, step: Sequence[ItemGroup], *, is_last: bool) -> bool:
        """Remove some checkpoints. Returns False if an agent continues, so that they stay."""
        # An agent that continues during an earlier step still has the head.
        removed = RemovedItems(self._connection)
        try:
            removed.remove(step, keeps=is_last)
            keys = {one.key for one in step}
            self._left -= keys
            stays = is_last and not self._has(dict.fromkeys(keys, 0))
        except BaseException:
            removed.put_back()
            raise
        if stays and removed.put_back():
            return False
        self.rows[WRITES] += sum(len(one.writes) for one in step)
        self.rows[CHECKPOINTS] += sum(one.item is not None for one in step)
        if stays:
            # Some may have been put back.
            return False
        items = [item for one in step for item in one.items]
        self._left_objects += self._writer.remove_objects(object_keys(self._connection, items))
        return True
