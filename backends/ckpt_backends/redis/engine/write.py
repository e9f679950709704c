"""Changes a thread in Redis, with one transaction for each change.

The transaction watches the keys that the plan was computed from. If a saver changes one of them
first, nothing is written. The names of new checkpoints are not known and cannot be watched, so they
are searched for right before the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from redis import exceptions

from ckpt_backends.base import BaseWritableStore
from ckpt_backends.changes.change import Change, moved
from ckpt_backends.changes.progress import Progress, silent
from ckpt_backends.changes.remains import Remains
from ckpt_backends.changes.removal import Removal, RemovalBatch, Removed
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.erasing.stored import RowRewrite
from ckpt_backends.errors import PartlyDone, Unsupported
from ckpt_backends.model import Capability
from ckpt_backends.redis.engine.command_plan import CommandPlan
from ckpt_backends.redis.engine.connection import Command, keys_of
from ckpt_backends.redis.engine.driver_errors import explained_change
from ckpt_backends.redis.engine.joint_removal import carry_out_all
from ckpt_backends.redis.engine.layout import RedisLayout
from ckpt_backends.redis.engine.purge_lock import purge_lock
from ckpt_backends.redis.engine.receiving import receive_thread
from ckpt_backends.redis.engine.restoring import restore_rows
from ckpt_backends.redis.engine.row_replacing import replace_rows
from ckpt_backends.transfer.parts import Arrival, PartRewrite
from ckpt_backends.url import StoreUrl

_ONE_SCAN = RemovalBatch(threads=1000, rows=10_000)
"""A batch for which all keys of the store are looked at.

Nothing names a checkpoint that an agent adds after the scan: it is not seen, and stays behind
without its history. One that is added during the scan may be missed, too: SCAN promises only the
keys that exist from its beginning to its end. So the batch is small: its last key is removed less
than a second after the scan. Twice as many rows would save 6 % of the work.
"""


class WritableRedisStore(BaseWritableStore):
    """A Redis database, opened for changing."""

    def __init__(self, layout: RedisLayout, url: StoreUrl) -> None:
        self._connection = layout.connection
        self._layout = layout
        self._url = url

    @property
    def removal_batch(self) -> RemovalBatch:
        return RemovalBatch() if self._layout.is_indexed() else _ONE_SCAN

    def apply(self, change: Change) -> None:
        if Capability.ADDING not in self._layout.capabilities:
            raise Unsupported(
                f"'{self._url}' keeps no history, so no checkpoint can be added",
                hint="it stores only the newest checkpoint of each namespace",
            )
        try:
            with explained_change(self._url, "nothing was written"):
                answers = self._transaction(self._layout.plan(change))
        except exceptions.WatchError:
            raise moved(change) from None
        failed = [one for one in answers if isinstance(one, Exception)]
        if failed:
            raise PartlyDone(
                f"the server refused a part of the change of thread '{change.thread_id}'",
                hint="Redis does not roll back a transaction; check the thread, then run ckpt undo",
            )

    def _transaction(self, plan: CommandPlan) -> Sequence[object]:
        commands: list[Command] = []
        if not plan.watched:
            commands += plan.commands()
        with self._connection.transaction(plan.watched or plan.touched) as pipe:
            _watch(pipe, plan.watched)
            commands = commands or list(plan.commands())
            named = [name for command in commands for name in keys_of(command)]
            self._connection.check_together([*plan.watched, *plan.touched, *plan.beside, *named])
            _watch(pipe, plan.touched)
            plan.check()
            commands += plan.last()
            pipe.multi()
            for command in commands:
                pipe.execute_command(*command)
            found: Sequence[object] = pipe.execute(raise_on_error=False)
            return found

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with (
            explained_change(self._url, "what is left is removed by the next run"),
            purge_lock(self._connection, self._url) as lock,
        ):
            threads = self._layout.removals(lock, [one.thread_id for one in removals])
            return list(carry_out_all(self._connection, lock, removals, threads))

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url, "nothing was restored"):
            return restore_rows(self._connection, self._layout.finder(), rows)

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        for arrival in arrivals:
            outcome = f"nothing of thread '{arrival.thread_id}' was added"
            with explained_change(self._url, outcome):
                receive_thread(self._connection, self._layout.reception(arrival))

    def rewrite(self, thread_id: str, rewrites: Iterable[PartRewrite]) -> None:
        with explained_change(self._url, f"thread '{thread_id}' was changed in part"):
            self._layout.rewrite(thread_id, rewrites)

    def replace_rows(self, thread_id: str, rewrites: Iterable[RowRewrite]) -> None:
        with explained_change(self._url, f"thread '{thread_id}' was changed in part"):
            replace_rows(self._connection, thread_id, rewrites)

    def vacuum(self) -> None:
        raise Unsupported(
            "Redis frees the memory of removed keys by itself",
            hint="leave --vacuum out; `redis-cli MEMORY PURGE` returns unused memory to the system",
        )

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        from ckpt_backends.redis.engine.erasing import erase_remains

        return erase_remains(self._connection, self._url, progress)

    def close(self) -> None:
        self._connection.close()


def _watch(pipe: Any, names: Sequence[bytes]) -> None:
    if names:
        pipe.watch(*names)
