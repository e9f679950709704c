"""Check many threads: their keys, their heads and, if asked, all that they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from ckpt_backends.errors import CkptError, NotFound
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.finding import Finding, from_fault
from ckpt_cli.core.short_refs import short_refs
from ckpt_cli.queries.doctor.deep import deep_findings
from ckpt_cli.queries.doctor.heads import head_findings
from ckpt_cli.queries.doctor.keys import key_findings
from ckpt_cli.queries.doctor.stored_types import gather_types
from ckpt_cli.queries.doctor.terms import Terms, ThreadReport, ThreadToCheck
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.heads import read_heads
from ckpt_cli.threads.opening import Opening
from ckpt_cli.threads.parallel import of_threads
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

AT_ONCE = 50
"""Number of threads that one process checks before it takes the next."""


def store_findings(store: Store) -> Iterator[Finding]:
    """Yield what is wrong with the store as a whole."""
    return map(from_fault, store.faults())


def threads_to_check(store: Store) -> Iterator[ThreadToCheck]:
    """Yield all threads of a store, and last those of which only writes or other rows are left."""
    suspects = set(store.suspect_threads())
    for thread in store.threads():
        yield ThreadToCheck(thread.thread_id, thread, thread.thread_id in suspects)
        suspects.discard(thread.thread_id)
    for thread_id in sorted(suspects):
        yield ThreadToCheck(thread_id, None, is_suspect=True)


def chosen_threads(threads: Iterable[Thread]) -> Iterator[ThreadToCheck]:
    """Yield some threads of a store. The keys of each are checked."""
    return (ThreadToCheck(one.thread_id, one, is_suspect=True) for one in threads)


def check_threads(
    store: Store, opening: Opening, parts: Iterable[list[ThreadToCheck]], terms: Terms, jobs: int
) -> Iterator[ThreadReport]:
    """Yield the report on each thread, in the order given; several jobs use processes."""
    for reports in of_threads(store, opening, parts, partial(_checking, terms), jobs):
        yield from reports


def check_thread(reader: ThreadReader, terms: Terms) -> ThreadReport:
    """Return the report on one thread."""
    thread = ThreadToCheck(reader.thread_id, reader.thread, is_suspect=True)
    (report,) = _checking(terms, reader.store)([thread])
    return report


def _checking(
    terms: Terms, store: Store
) -> Callable[[Sequence[ThreadToCheck]], list[ThreadReport]]:
    inference = TriggerInference(store)

    def check(threads: Sequence[ThreadToCheck]) -> list[ThreadReport]:
        heads: dict[str, Moment] = {}
        failure = ""
        try:
            known = [one.thread for one in threads if one.thread is not None]
            for moment in read_heads(store, known, inference):
                heads[moment.key.thread_id] = moment
        except CkptError as error:
            failure = error.message
        return [_report(store, one, heads, inference, terms, failure) for one in threads]

    return check


def _report(
    store: Store,
    one: ThreadToCheck,
    heads: dict[str, Moment],
    inference: TriggerInference,
    terms: Terms,
    failure: str,
) -> ThreadReport:
    report = ThreadReport(one.thread_id, unchecked=failure)
    report.checked.threads = 1
    found: dict[tuple[object, ...], Finding] = {}
    try:
        for finding in _findings(store, one, heads.get(one.thread_id), inference, terms, report):
            if finding.code not in terms.ignored:
                found.setdefault(_place(finding), finding)
    except NotFound:  # deleted meanwhile
        pass
    except CkptError as error:
        report.unchecked = error.message
    report.findings = list(_with_refs(store, one.thread_id, list(found.values())))
    return report


def _with_refs(store: Store, thread_id: str, findings: list[Finding]) -> Iterator[Finding]:
    """Yield findings with the short refs of their checkpoints."""
    if not any(one.checkpoint_id for one in findings):
        yield from findings
        return
    refs = short_refs([one.key.checkpoint_id for one in store.checkpoints(thread_id)])
    for one in findings:
        yield replace(one, ref=refs.get(one.checkpoint_id or ""))


def _findings(
    store: Store,
    one: ThreadToCheck,
    head: Moment | None,
    inference: TriggerInference,
    terms: Terms,
    report: ThreadReport,
) -> Iterator[Finding]:
    checked = report.checked
    if one.is_suspect or terms.deep:
        yield from map(from_fault, store.thread_faults(one.thread_id))
        yield from key_findings(store, one.thread_id, terms, checked)
    if one.thread is None:
        return
    reader = ThreadReader(store, one.thread, inference)
    if head is not None:
        yield from head_findings(reader, head, terms, checked)
    if terms.deep:
        yield from deep_findings(reader, terms, report)
    if terms.types:
        gather_types(store, one.thread_id, report, count=not terms.deep)


def _place(finding: Finding) -> tuple[object, ...]:
    """Return what makes two findings the same: both the head and the whole may show one."""
    return (
        finding.code,
        finding.checkpoint_ns,
        finding.checkpoint_id,
        finding.channel,
        finding.task_id,
        finding.detail,
    )
