"""Check many threads: their keys, their heads and, if asked, all that they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ckpt_backends.codec.memo import remembering
from ckpt_backends.errors import CkptError, NotFound
from ckpt_backends.model import Capability, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.codes import CODES, UNTOLD_IF_HIDDEN
from ckpt_cli.core.doctor.finding import Finding, from_fault
from ckpt_cli.core.short_refs import short_refs
from ckpt_cli.queries.doctor.deep import deep_findings
from ckpt_cli.queries.doctor.heads import head_findings
from ckpt_cli.queries.doctor.keys import key_findings
from ckpt_cli.queries.doctor.stored_types import gather_types
from ckpt_cli.queries.doctor.terms import Terms, ThreadReport, ThreadToCheck
from ckpt_cli.threads.executor.executor import Executor
from ckpt_cli.threads.executor.work import LostThread
from ckpt_cli.threads.heads import read_heads
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

_AT_ONCE = 50
"""Threads whose heads are read together."""


def store_findings(store: Store) -> Iterator[Finding]:
    """Yield what is wrong with the store as a whole."""
    yield from hidden_findings(store)
    yield from map(from_fault, store.faults())


def hidden_findings(store: Store) -> Iterator[Finding]:
    """Yield why rows may be hidden."""
    for one in store.hidden_rows():
        yield Finding(code="rows-hidden", detail=f"{one.reason}; {one.remedy}")


def terms_for(store: Store, terms: Terms) -> Terms:
    """Return what can be told of a store: without what may be hidden."""
    if not store.hidden_rows():
        return terms
    return replace(terms, ignored=terms.ignored | UNTOLD_IF_HIDDEN)


def threads_to_check(store: Store) -> Iterator[ThreadToCheck]:
    """Yield all threads of a store, and last those of which only writes or other rows are left.

    If the store cannot say which are suspect, all are, and its error is raised at the end.
    """
    failure: CkptError | None = None
    suspects: set[str] = set()
    try:
        suspects.update(store.suspect_threads())
    except CkptError as error:
        failure = error
    for thread in store.threads():
        is_suspect = failure is not None or thread.thread_id in suspects
        yield ThreadToCheck(thread.thread_id, thread, is_suspect)
        suspects.discard(thread.thread_id)
    for thread_id in sorted(suspects):
        yield ThreadToCheck(thread_id, None, is_suspect=True)
    if failure is not None:
        raise failure


def chosen_threads(threads: Iterable[Thread]) -> Iterator[ThreadToCheck]:
    """Yield some threads of a store. The keys of each are checked."""
    return (ThreadToCheck(one.thread_id, one, is_suspect=True) for one in threads)


def check_threads(
    store: Store,
    executor: Executor,
    threads: Iterable[ThreadToCheck],
    terms: Terms,
    lost: Callable[[Sequence[LostThread]], None],
) -> Iterator[ThreadReport]:
    """Yield the report on each thread, in the order given; `lost` is told those left out."""
    check = partial(_checking, terms)
    return executor.run(store, threads, check, at_once=_AT_ONCE, lost=lost)


def check_thread(reader: ThreadReader, terms: Terms) -> ThreadReport:
    """Return the report on one thread."""
    thread = ThreadToCheck(reader.thread_id, reader.thread, is_suspect=True)
    (report,) = _checking(terms_for(reader.store, terms), reader.store)([thread])
    report.findings[:0] = hidden_findings(reader.store)
    return report


def _checking(
    terms: Terms, store: Store
) -> Callable[[Sequence[ThreadToCheck]], list[ThreadReport]]:
    inference = TriggerInference(store)

    def check(threads: Sequence[ThreadToCheck]) -> list[ThreadReport]:
        reports = {one.thread_id: ThreadReport(one.thread_id) for one in threads}
        for one in threads:
            report = reports[one.thread_id]
            report.checked.threads = 1
            _collect(report, _key_findings(store, one, inference, terms, report), terms)
        _check_heads(store, threads, reports, inference, terms)
        for one in threads:
            report = reports[one.thread_id]
            if terms.deep and one.thread is not None:
                reader = ThreadReader(store, one.thread, inference)
                _collect(report, deep_findings(reader, terms, report), terms)
            if terms.types and one.thread is not None:
                _collect(report, gather_types(store, one.thread_id, report), terms)
            report.findings = list(_with_refs(store, one.thread_id, report.findings))
            if Capability.READ_ONLY in inference.capabilities:
                report.findings = list(map(_copied_first, report.findings))
        return list(reports.values())

    return check


def _copied_first(finding: Finding) -> Finding:
    """Return a finding of a store that nothing changes: its thread can be mended in a copy."""
    command = finding.own_command or CODES[finding.code].fix
    if not command.startswith(("repair ", "gc ", "rollback ")):
        return finding
    return replace(finding, own_command="copy THREAD --to NEW.db --create")


def _key_findings(
    store: Store,
    one: ThreadToCheck,
    inference: TriggerInference,
    terms: Terms,
    report: ThreadReport,
) -> Iterator[Finding]:
    if one.is_suspect or terms.deep or _is_ahead(one.thread, terms):
        yield from map(from_fault, store.thread_faults(one.thread_id))
        layout = inference.capabilities
        yield from key_findings(store, one.thread_id, layout, terms, report.checked)
    elif one.thread is not None:
        # The store compared its keys to find out that the thread is not suspect.
        report.checked.checkpoints += one.thread.checkpoints


def _is_ahead(thread: Thread | None, terms: Terms) -> bool:
    """Return whether a checkpoint may be dated in the future."""
    return thread is not None and thread.last_at is not None and thread.last_at > terms.now


def _check_heads(
    store: Store,
    threads: Sequence[ThreadToCheck],
    reports: Mapping[str, ThreadReport],
    inference: TriggerInference,
    terms: Terms,
) -> None:
    """Add what is found at the heads, with one head in memory at a time.

    If some cannot be read together, they are read one by one.
    """
    left = {one.thread_id: one for one in threads}
    listed = [one.thread for one in threads if one.thread is not None]
    with remembering() as memo:
        try:
            for head in read_heads(store, listed, inference, state=True):
                one = left.pop(head.key.thread_id)
                reader = ThreadReader(store, one.thread or one.thread_id, inference)
                checked, is_suspect = reports[one.thread_id].checked, one.is_suspect
                found = head_findings(reader, head, memo, terms, checked, is_suspect=is_suspect)
                _collect(reports[one.thread_id], found, terms)
                memo.clear()  # Threads have little in common.
        except CkptError as error:
            for thread_id, one in left.items():
                if len(threads) > 1:
                    _check_heads(store, [one], reports, inference, terms)
                else:
                    reports[thread_id].unchecked = error.message


def _collect(report: ThreadReport, findings: Iterable[Finding], terms: Terms) -> None:
    """Add the findings that are wanted and new to a report, and why there may be more."""
    known = {_place(one) for one in report.findings}
    mild = {_row(one) for one in report.findings if one.own_severity is not None}
    try:
        for one in findings:
            is_worse = _row(one) in mild and one.own_severity is None
            if one.code not in terms.ignored and (is_worse or _place(one) not in known):
                known.add(_place(one))
                if is_worse:
                    mild.discard(_row(one))
                    # The keys alone looked like a trace of maintenance.
                    kept = (other for other in report.findings if _row(other) != _row(one))
                    report.findings = list(kept)
                report.findings.append(one)
    except NotFound:  # deleted meanwhile
        pass
    except CkptError as error:
        report.unchecked = error.message


def _with_refs(store: Store, thread_id: str, findings: list[Finding]) -> Iterator[Finding]:
    """Yield findings with the short refs of their checkpoints."""
    if not any(one.checkpoint_id for one in findings):
        yield from findings
        return
    try:
        refs = short_refs([one.key.checkpoint_id for one in store.checkpoints(thread_id)])
    except CkptError:  # The report says already that something cannot be read.
        refs = {}
    for one in findings:
        yield replace(one, ref=refs.get(one.checkpoint_id or ""))


def _row(finding: Finding) -> tuple[object, ...]:
    """Return what two findings about the same row have in common."""
    return _place(finding)[:-1]


def _place(finding: Finding) -> tuple[object, ...]:
    """Return what makes two findings the same: both the head and the whole may show one."""
    return (
        finding.code,
        finding.checkpoint_ns,
        finding.checkpoint_id,
        finding.channel,
        finding.task_id,
        # A checkpoint has one parent, whose absence keys and versions show in different words.
        "" if finding.code == "parent-missing" else finding.detail,
    )
