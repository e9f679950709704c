"""Change the encryption of threads where they are stored, thread by thread, and read them back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ckpt_backends.errors import StoreChanged
from ckpt_backends.protocol import WritableStore
from ckpt_backends.transfer.digests import PartsSum, part_digest
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import PartRewrite, part_size
from ckpt_backends.transfer.rekeying import RekeyCounts
from ckpt_cli.apply.recording import Recording
from ckpt_cli.core.rekeying import RekeyedThread
from ckpt_cli.operations.steps import OperationStep
from ckpt_cli.plans.rekey import RekeySide, planned_rekey, wrong_key

_IN_MEMORY = 8 << 20
"""Bytes of changed values in memory; a thread with more is streamed."""


class ThreadRekeyer:
    """Changes the encryption of threads of one store."""

    def __init__(self, side: RekeySide, writable: WritableStore, recording: Recording) -> None:
        self._side = side
        self._writable = writable
        self._recording = recording

    def rekey(self, thread_id: str) -> RekeyedThread:
        """Change all values of a thread, in one transaction if the engine has transactions.

        Raises `Refused` for a value that no key opens; nothing of the thread is written then.
        """
        changed = _Changed(self._side, thread_id)
        rewrites: list[PartRewrite] = []
        size = 0
        is_small = True
        try:
            for one in changed.rewrites():
                rewrites.append(one)
                size += part_size(one.stored) + part_size(one.new)
                if size > _IN_MEMORY:
                    is_small = False
                    break
        except CannotHold as error:
            raise wrong_key(thread_id, error) from error
        if not is_small:
            rewrites.clear()
            # Every value is opened once before the first is written.
            planned_rekey(self._side, thread_id)
            changed = _Changed(self._side, thread_id)
        self._side.store.refresh()
        if not rewrites and is_small:
            return RekeyedThread(thread_id, changed.counts)
        self._recording.intend([OperationStep(thread_id, None, None)])
        try:
            self._writable.rewrite(thread_id, rewrites if is_small else changed.rewrites())
        except StoreChanged as error:
            self._recording.failed(error)
            return RekeyedThread(thread_id, skipped=error.message)
        self._recording.done()
        if not changed.counts.rekeyed:
            return RekeyedThread(thread_id, changed.counts)
        return self._verified(thread_id, changed)

    def _verified(self, thread_id: str, changed: _Changed) -> RekeyedThread:
        """Read a thread back."""
        self._side.store.refresh()
        found = PartsSum()
        for part in self._side.parts(thread_id):
            found.add(part, part_digest(part))
        if found == changed.sum:
            return RekeyedThread(thread_id, changed.counts)
        reason = "it changed meanwhile, so it may have values with another key; run this again"
        return RekeyedThread(thread_id, changed.counts, reason)


@dataclass(slots=True)
class _Changed:
    """The changed parts of a thread, read once."""

    side: RekeySide
    thread_id: str
    counts: RekeyCounts = field(default_factory=RekeyCounts)
    sum: PartsSum = field(default_factory=PartsSum)
    """Of the whole thread as it is to be."""

    def rewrites(self) -> Iterator[PartRewrite]:
        """Yield what is to be written. Raises `CannotHold` for a value that no key opens."""
        for part in self.side.parts(self.thread_id):
            new = self.side.rekeying.of(part, self.counts)
            self.sum.add(new, part_digest(new))
            if new is not part:
                yield PartRewrite(part, new)
        # In a file that is not in WAL mode, an open read would block the commit.
        self.side.store.refresh()
