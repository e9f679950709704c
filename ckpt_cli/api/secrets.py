"""Credentials in a store, as Python code sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ckpt_backends.errors import CkptError, NotFound, UnknownLayout, Unsupported
from ckpt_backends.memory.protocol import MemoryStore
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.api.watch import Watcher
from ckpt_cli.core.secrets.finding import SecretFinding
from ckpt_cli.core.secrets.ignored import parse_ignored
from ckpt_cli.core.secrets.scanner import Scanner
from ckpt_cli.queries.doctor.examine import threads_to_check
from ckpt_cli.queries.doctor.terms import ThreadToCheck
from ckpt_cli.queries.memory_location import memory_place
from ckpt_cli.queries.secrets import SecretReport, search_memory, search_threads
from ckpt_cli.render.secrets import secret_record
from ckpt_cli.threads import redaction
from ckpt_cli.threads.executor.executor import Executor
from ckpt_cli.threads.executor.work import LostThread


class SecretSearch(Iterator[Answer[SecretFinding]]):
    """Yields the findings, thread by thread, then those of long-term memory.

    Nothing that cannot be read raises an error: look at `complete` after the last finding.
    """

    def __init__(self, reports: Iterator[SecretReport]) -> None:
        self.kinds = Counter[str]()
        """How often each kind was found so far."""
        self.ignored = 0
        """Number of findings so far that the profile or the caller leaves out."""
        self.threads = 0
        """Number of threads that were searched so far."""
        self.unread = Counter[str]()
        """Number of values so far that could not be read, or only in part, by reason."""
        self.stopped = 0
        """How often the search of a text was stopped because it took too long."""
        self.unchecked: dict[str, str] = {}
        """The threads that were not searched to the end, each with the reason; the key `''` stands
        for the list of threads, and for the memory."""
        self._findings = self._of(reports)

    @property
    def complete(self) -> bool:
        """Whether everything could be read and searched."""
        return not (self.unread or self.stopped or self.unchecked)

    def __next__(self) -> Answer[SecretFinding]:
        return next(self._findings)

    def _of(self, reports: Iterator[SecretReport]) -> Iterator[Answer[SecretFinding]]:
        for report in reports:
            self.threads += bool(report.name)
            self.ignored += report.ignored
            self.unread += report.unread
            self.stopped += report.stopped
            if report.unchecked:
                self.unchecked[report.name] = report.unchecked
            for one in report.findings:
                self.kinds[one.kind] += 1
                yield Answer(one, secret_record)


def secret_search(
    store: Store,
    around: Surroundings,
    threads: Iterable[Thread] | None,
    memory: str | None,
    ignore: Sequence[str],
    executor: Executor,
    watch: Watcher,
) -> SecretSearch:
    """Search some threads, or all of them and the memory if `threads` is None."""
    ignored = (*around.names.ignored_secrets, *parse_ignored(ignore))
    _ = Scanner()  # raises an error if its library is not installed
    opened = _named_memory(around, memory) if memory is not None or threads is None else None
    redacted = redaction.is_redacted(store)
    lost: list[SecretReport] = []

    def lose(threads: Sequence[LostThread]) -> None:
        names = map(Scanner().masked, (one.thread_id for one in threads))
        reasons = (one.reason for one in threads)
        pairs = zip(names, reasons, strict=True)
        lost.extend(SecretReport(name, unchecked=reason) for name, reason in pairs)

    def reports() -> Iterator[SecretReport]:
        chosen = threads_to_check(store) if threads is None else threads
        found = search_threads(store, executor, _unbroken(chosen, lost), ignored, lose)
        yield from watch(found)
        beside = _memory_beside(around, lost) if opened is None and threads is None else opened
        yield from lost
        if beside is not None:
            with beside:
                yield search_memory(beside, ignored, redacted=redacted)

    return SecretSearch(reports())


def memory_search(
    memory: MemoryStore, around: Surroundings, ignore: Sequence[str], *, redacted: bool
) -> SecretSearch:
    """Search long-term memory alone."""
    ignored = (*around.names.ignored_secrets, *parse_ignored(ignore))
    _ = Scanner()  # raises an error if its library is not installed
    one = (search_memory(memory, ignored, redacted=redacted) for _ in range(1))
    return SecretSearch(one)


def without_secrets(error: NotFound) -> NotFound:
    """Return an error without the credentials in names of the store that it lists."""
    scanner = Scanner()
    hint = None if error.hint is None else scanner.masked(error.hint)
    return type(error)(scanner.masked(error.message), hint=hint)


def _unbroken(
    threads: Iterable[Thread | ThreadToCheck], lost: list[SecretReport]
) -> Iterator[Thread | ThreadToCheck]:
    """Yield threads; if the list breaks off, that is noted."""
    try:
        yield from threads
    except CkptError as error:
        lost.append(SecretReport("", unchecked=Scanner().masked(error.message)))


def _named_memory(around: Surroundings, chosen: str | None) -> MemoryStore | None:
    """Open the memory that was chosen, or that the profile names. Raises what opening it raises."""
    url = around.names.other_store("memory", chosen)
    return None if url is None else open_memory(url)


def _memory_beside(around: Surroundings, lost: list[SecretReport]) -> MemoryStore | None:
    """Open the memory of DeerFlow, or the one in the same store; None if there is none."""
    place = memory_place(around.names.store_url, None)
    try:
        return open_memory(around.names.store_url if place is None else place.url)
    except (UnknownLayout, Unsupported):  # it holds no memory
        return None
    except CkptError as error:
        lost.append(SecretReport("", unchecked=error.message))
        return None
