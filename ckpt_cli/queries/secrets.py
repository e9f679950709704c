"""Find credentials in threads and in long-term memory.

What is found leaves this module as a kind and a place. The credential itself, and errors that may
quote it, do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from ckpt_backends.codec.memo import remembering
from ckpt_backends.errors import CkptError, NotFound
from ckpt_backends.protocol import Store
from ckpt_cli.core.secrets.finding import SecretFinding
from ckpt_cli.core.secrets.ignored import IgnoredSecrets
from ckpt_cli.core.secrets.scanner import Scanner
from ckpt_cli.core.short_refs import short_refs
from ckpt_cli.queries.thread_secrets import ThreadSecrets, decode_whole, searched_parts
from ckpt_cli.threads import redaction
from ckpt_cli.threads.executor.work import Each, each

if TYPE_CHECKING:
    from ckpt_backends.memory.protocol import Item, MemoryStore
    from ckpt_backends.model import Thread
    from ckpt_cli.queries.doctor.terms import ThreadToCheck
    from ckpt_cli.threads.executor.executor import Executor
    from ckpt_cli.threads.executor.work import LostThread


@dataclass(slots=True)
class SecretReport:
    """What was found in one thread, or in the long-term memory."""

    name: str
    """The id of the thread, without credentials in it; `''` for the memory."""
    findings: list[SecretFinding] = field(default_factory=list)
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
    ignored: Sequence[IgnoredSecrets],
    lost: Callable[[Sequence[LostThread]], None],
) -> Iterator[SecretReport]:
    """Yield what is in each thread, in the order given; `lost` is told those left out."""
    return executor.run(store, threads, partial(_searching, ignored), lost=lost)


def search_memory(
    memory: MemoryStore, ignored: Sequence[IgnoredSecrets], *, redacted: bool
) -> SecretReport:
    """Return what is in the items of a long-term memory, in their namespaces and in their keys."""
    report, scanner = SecretReport(""), Scanner()
    found: list[SecretFinding] = []
    with _reporting(report, scanner):
        for item in memory.items(values=True):
            found += _in_item(item, scanner, report)
    _report(report, found, ignored, redacted=redacted)
    return report


def _searching(ignored: Sequence[IgnoredSecrets], store: Store) -> Each[SecretReport]:
    scanner = Scanner()
    redacted = redaction.is_redacted(store)

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


def _in_item(item: Item, scanner: Scanner, report: SecretReport) -> Iterable[SecretFinding]:
    address = (*item.key.namespace, item.key.key)
    parts = [one for name in address for one in scanner.parts(name)]
    if item.value is None:
        report.unread["not read"] += 1
    else:
        parts += searched_parts(scanner, report.unread, decode_whole(item.value), item.value)
    *namespace, key = map(scanner.masked, address)
    is_masked = (*namespace, key) != address
    return dict.fromkeys(
        SecretFinding(
            "memory",
            part.kind,
            part.path,
            namespace=tuple(namespace),
            key=key,
            is_masked=is_masked,
        )
        for part in parts
    )


@contextmanager
def _reporting(report: SecretReport, scanner: Scanner) -> Iterator[None]:
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
    found: Sequence[SecretFinding],
    ignored: Sequence[IgnoredSecrets],
    *,
    redacted: bool,
) -> None:
    """Report the findings that are not ignored; with `redacted`, without the keys of paths."""
    wanted = [one for one in found if not any(entry.fits(one) for entry in ignored)]
    report.ignored = len(found) - len(wanted)
    report.findings = [_redacted(one) for one in wanted] if redacted else wanted


def _redacted(found: SecretFinding) -> SecretFinding:
    first = 0 if found.channel is None else 1
    path = tuple(
        "*" if isinstance(step, str) and n >= first else step for n, step in enumerate(found.path)
    )
    return replace(found, path=path, is_masked=found.is_masked or path != found.path)
