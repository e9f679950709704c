"""Searches threads for credentials."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from ckpt_backends.codec import decode, decode_checkpoint
from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import WHOLE_LIMITS, Cut, Value
from ckpt_backends.codec.values import unread as not_read
from ckpt_backends.errors import CkptError, NotFound
from ckpt_backends.model import Checkpoint, Thread, TypedBytes, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core import secrets
from ckpt_cli.core.refs import short_refs
from ckpt_cli.core.state import read_body, without_snapshot
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.workers import Each, LostThread, each

if TYPE_CHECKING:
    from ckpt_backends.memory import Item, MemoryStore
    from ckpt_cli.queries.doctor.rows import ThreadToCheck
    from ckpt_cli.reading.executor import Executor


_LENGTHS = re.compile(rb"[\xd9\x8c].|\xda..|[\xaa\xb5\xba]", re.DOTALL)
"""What msgpack and pickle write before a text. As characters, these bytes may be letters."""
_SENDS = "__pregel_tasks"
"""The channel of the Sends that old bodies hold themselves."""


class ThreadSecrets:
    """Reads a thread once. Of a channel, a value equal to that of the checkpoint before is not
    decoded or searched again.
    """

    def __init__(self, scanner: secrets.Scanner, thread_id: str, unread: Counter[str]) -> None:
        self.occurrences = secrets.SecretOccurrences()
        self._scanner = scanner
        self._thread_id = thread_id
        self._unread = unread
        """The number of values that could not be read, by reason."""
        self._ranks: dict[tuple[str, str], int] = {}
        self._ns: str | None = None
        self._last: dict[str, tuple[object, tuple[secrets.LocatedSecret, ...]]] = {}
        """The last value of each channel, decoded or as stored apart, and what is in it."""

    def read(self, store: Store) -> None:
        """Search all that is stored for the thread. Raises what reading it raises."""
        for checkpoint in store.checkpoints(self._thread_id, body=True, metadata=True, values=True):
            self._search_checkpoint(checkpoint)
        self._last.clear()
        for write in store.writes(self._thread_id, values=True):
            if write.value is not None:
                self._search_write(write, write.value)

    def _search_checkpoint(self, checkpoint: Checkpoint) -> None:
        key = checkpoint.key
        if key.checkpoint_ns != self._ns:
            self._ns = key.checkpoint_ns
            self._last.clear()
        rank = self._ranks[key.checkpoint_ns, key.checkpoint_id] = len(self._ranks)
        blobs = checkpoint.blobs or {}
        inline = checkpoint if checkpoint.blobs is None else checkpoint._replace(blobs={})
        body = read_body(inline)
        if body.problem is None and any(isinstance(one, Cut) for one in body.values.values()):
            body = read_body(inline, partial(decode_checkpoint, limits=WHOLE_LIMITS))
        values = {**body.values, _SENDS: body.pending_sends} if body.pending_sends else body.values
        for channel, value in values.items():
            if channel not in blobs:
                held = without_snapshot(value)
                if not self._is_as_before(channel, held):
                    self._last[channel] = held, self._located(held, checkpoint.body, channel)
                self.occurrences.add("value", channel, key, rank, self._last[channel][1])
        for channel, blob in blobs.items():
            stored = blob.value or not_read(blob.type, blob.size)
            if not self._is_as_before(channel, stored):
                held = without_snapshot(decode_whole(stored))
                self._last[channel] = stored, self._located(held, stored, channel)
            self.occurrences.add("value", channel, key, rank, self._last[channel][1])
        if body.problem is not None and checkpoint.body is not None:
            parts = self._parts(body.problem, checkpoint.body)
            self.occurrences.add("value", None, key, rank, secrets.located(None, parts))
        if checkpoint.metadata is not None:
            found = self._located(decode_whole(checkpoint.metadata), checkpoint.metadata)
            self.occurrences.add("metadata", None, key, rank, found)

    def _is_as_before(self, channel: str, value: Value | TypedBytes) -> bool:
        return channel in self._last and self._last[channel][0] == value

    def _search_write(self, write: Write, stored: TypedBytes) -> None:
        found = self._located(decode_whole(stored), stored, write.channel)
        place = write.key.checkpoint_ns, write.key.checkpoint_id
        rank = self._ranks.get(place, len(self._ranks))
        self.occurrences.add(
            *("write", write.channel, write.key, rank, found), task_id=write.task_id, idx=write.idx
        )

    def _located(
        self, value: Value, stored: TypedBytes | None, channel: str | None = None
    ) -> tuple[secrets.LocatedSecret, ...]:
        return secrets.located(value, self._parts(value, stored, channel))

    def _parts(
        self, value: Value, stored: TypedBytes | None, channel: str | None = None
    ) -> list[secrets.SecretPart]:
        """Return what is in a value and in the name of its channel, and count what is unread."""
        parts = searched_parts(self._scanner, self._unread, value, stored, channel)
        if channel is not None:
            parts += self._scanner.parts(channel)
        return parts


def decode_whole(stored: TypedBytes) -> Value:
    """Return a value, with more of it than is decoded to be shown."""
    value = decode(stored)
    return decode(stored, WHOLE_LIMITS) if isinstance(value, Cut) else value


def searched_parts(
    scanner: secrets.Scanner,
    unread: Counter[str],
    value: Value,
    stored: TypedBytes | None,
    key: str | None = None,
) -> list[secrets.SecretPart]:
    """Return the credentials in a value. Of one that could not be decoded, the stored bytes are
    searched too: texts stand in them as they are.
    """
    searched = scanner.scan(value, key)
    parts = list(searched.parts)
    if searched.is_whole:
        return parts
    why = secrets.why_unread(value)
    unread[why] += bool(why)
    if why == secrets.CANNOT_DECODE and stored is not None:
        apart = _LENGTHS.sub(lambda found: bytes(len(found[0])), stored.data)
        for data in (stored.data, apart):
            known = {one.text for one in parts}
            found = (one for one in scanner.parts(data) if one.text not in known)
            parts += [replace(one, path=()) for one in found]
    return parts


@dataclass(slots=True)
class SecretReport:
    """What was found in one thread, or in the long-term memory."""

    name: str
    """The id of the thread, without credentials in it; `''` for the memory."""
    findings: list[secrets.SecretFinding] = field(default_factory=list)
    ignored: int = 0
    """Number of findings that are left out as the profile or the caller asks."""
    unread: Counter[str] = field(default_factory=Counter)
    """The number of values that could not be read, or only in part, by reason."""
    unchecked: str = ""
    """Why the rest was not searched; `''` if all was."""
    stopped: int = 0
    """How often the search of a text was stopped because it took too long."""


def search_threads(
    store: Store,
    executor: Executor,
    threads: Iterable[Thread | ThreadToCheck],
    ignored: Sequence[secrets.IgnoredSecrets],
    lost: Callable[[Sequence[LostThread]], None],
) -> Iterator[SecretReport]:
    """Yield what is in each thread, in the order given; `lost` is told those left out."""
    return executor.run(store, threads, partial(_searching, ignored), lost=lost)


def search_memory(
    memory: MemoryStore, ignored: Sequence[secrets.IgnoredSecrets], *, redacted: bool
) -> SecretReport:
    """Return what is in the items of a long-term memory, in their namespaces and in their keys."""
    report, scanner = SecretReport(""), secrets.Scanner()
    found: list[secrets.SecretFinding] = []
    with _reporting(report, scanner):
        for item in memory.items(values=True):
            found += _in_item(item, scanner, report)
    _report(report, found, ignored, redacted=redacted)
    return report


def _searching(ignored: Sequence[secrets.IgnoredSecrets], store: Store) -> Each[SecretReport]:
    scanner = secrets.Scanner()
    redacted = is_redacted(store)

    def search(thread_id: str) -> SecretReport:
        report = SecretReport(scanner.masked(thread_id))
        thread = ThreadSecrets(scanner, thread_id, report.unread)
        with _reporting(report, scanner), remembering():
            thread.read(store)
        found = thread.occurrences.findings(scanner.masked)
        if found:
            with _reporting(report, scanner):
                refs = short_refs([one.key.checkpoint_id for one in store.checkpoints(thread_id)])
                found = [replace(one, ref=refs.get(one.checkpoint_id or "")) for one in found]
        _report(report, found, ignored, redacted=redacted)
        return report

    return each(search)


def _in_item(
    item: Item, scanner: secrets.Scanner, report: SecretReport
) -> Iterable[secrets.SecretFinding]:
    address = (*item.key.namespace, item.key.key)
    parts = [one for name in address for one in scanner.parts(name)]
    if item.value is None:
        report.unread["not read"] += 1
    else:
        parts += searched_parts(scanner, report.unread, decode_whole(item.value), item.value)
    namespace, key = item.key.namespace, item.key.key
    return dict.fromkeys(
        secrets.masked(
            secrets.SecretFinding("memory", part.kind, part.path, namespace=namespace, key=key),
            scanner.masked,
        )
        for part in parts
    )


@contextmanager
def _reporting(report: SecretReport, scanner: secrets.Scanner) -> Iterator[None]:
    """Note an error in the report: its text, and the traceback of an unexpected one, may quote
    what is stored.
    """
    before = scanner.stopped
    try:
        yield
    except NotFound:  # deleted meanwhile
        pass
    except CkptError as error:
        report.unchecked = scanner.masked(error.message)
    except Exception as error:
        report.unchecked = f"internal error: {type(error).__name__}"
    report.stopped += scanner.stopped - before


def _report(
    report: SecretReport,
    found: Sequence[secrets.SecretFinding],
    ignored: Sequence[secrets.IgnoredSecrets],
    *,
    redacted: bool,
) -> None:
    """Report the findings that are not ignored; with `redacted`, without the keys of paths."""
    wanted = [one for one in found if not any(entry.fits(one) for entry in ignored)]
    report.ignored = len(found) - len(wanted)
    report.findings = [_redacted(one) for one in wanted] if redacted else wanted


def _redacted(found: secrets.SecretFinding) -> secrets.SecretFinding:
    first = 0 if found.channel is None else 1
    path = tuple(
        "*" if isinstance(step, str) and n >= first else step for n, step in enumerate(found.path)
    )
    return replace(found, path=path, is_masked=found.is_masked or path != found.path)
