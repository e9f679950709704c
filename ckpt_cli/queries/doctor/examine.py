"""Examines a store: the checks of `ckpt doctor`, thread by thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ckpt_backends.codec.memo import Memo, remembering
from ckpt_backends.errors import CkptError, NotFound, Unreadable
from ckpt_backends.model import Fault, Thread, in_chunks
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.checks import (
    mismatch_findings,
    step_findings,
    unanchored,
    unstored_deltas,
    unused_answer,
    without_past,
    without_snapshot,
)
from ckpt_cli.core.doctor.findings import (
    EXPLAINED_IF_EVICTED,
    UNTOLD_IF_HIDDEN,
    Checked,
    Finding,
    Severity,
    from_fault,
)
from ckpt_cli.core.doctor.types import gather_names
from ckpt_cli.core.refs import short_refs
from ckpt_cli.core.replay import Replayed, ReplayedTogether, judge_all
from ckpt_cli.core.resume import callers_answer, stored_answer
from ckpt_cli.core.state import delta_channels, read_body
from ckpt_cli.queries.doctor import rows, values
from ckpt_cli.queries.replay import KeptCheckpoint, replay_thread
from ckpt_cli.reading.executor import Executor
from ckpt_cli.reading.states import LostValues, read_state
from ckpt_cli.reading.thread import (
    Moment,
    ThreadReader,
    TriggerInference,
    locate,
    read_heads,
    unsaved,
    writes_inside,
)
from ckpt_cli.reading.workers import LostThread

_STALE = "resume-stale"
_AT_ONCE = 50
"""Number of ancestors whose bodies one query reads."""


def head_findings(
    reader: ThreadReader,
    head: Moment,
    memo: Memo,
    terms: rows.Terms,
    checked: Checked,
    *,
    is_suspect: bool,
) -> Iterator[Finding]:
    """Yield what is wrong with the head of a thread, which was read with its state.

    `memo` was there when the head was decoded. `is_suspect`: whether an ancestor may be missing.
    Raises `Unreadable` at the end if something could not be checked, such as encrypted values.
    """
    has_bodies = not reader.is_values_only
    unread = values.UnreadableValues(memo, has_bodies=has_bodies)
    if not terms.deep:  # The deep check finds these in all checkpoints.
        yield from _unreadable(reader, head, unread, terms)
        checked.values += unread.values
    if head.body.problem is None and not (has_bodies and head.body.lacks):
        if head.at is not None and head.at < terms.before:
            yield from _unfinished(reader, head)
        yield from rows.conversation_findings(reader, head, terms)
        if not (terms.deep or terms.types):
            yield from values.type_findings(head.checkpoint, head.writes, terms)
        if not terms.deep:
            yield from _unanchored(reader, head, is_suspect=is_suspect)
    if unread.unchecked:
        raise Unreadable(unread.unchecked)


def _unreadable(
    reader: ThreadReader, head: Moment, unread: values.UnreadableValues, terms: rows.Terms
) -> Iterator[Finding]:
    seen = rows.seen_checkpoint(head, None, terms.before, is_head=True)
    yield from unread.at(seen)
    yield from unread.end()
    for channel in LostValues(reader).at(head):
        yield values.missing_value(seen, channel)


def _unfinished(reader: ThreadReader, head: Moment) -> Iterator[Finding]:
    """Yield what is wrong with the step after an old head, unless a checkpoint followed meanwhile.

    Not every store has one snapshot for its list of threads and for the writes that are read later.
    """
    found = list(step_findings(head.key, head.step, head.writes, partial(unsaved, reader, head)))
    if callers_answer(head.writes) is not None and not any(one.code == _STALE for one in found):
        moment = locate(reader, head)
        becomes = stored_answer(moment.writes, moment.step, partial(writes_inside, reader, moment))
        found += unused_answer(head.key, moment.step, head.writes, becomes)
    if found and reader.head("") == head.key.checkpoint_id:
        yield from found


def _unanchored(reader: ThreadReader, head: Moment, *, is_suspect: bool) -> Iterator[Finding]:
    """Yield the DeltaChannels at a head whose last snapshot is not stored.

    It was lost with a missing ancestor; or the first checkpoint is a copy of another one, without
    what came before that.
    """
    channels = unstored_deltas(head.body, head.metadata)
    if not channels or not reader.has_history:
        return
    known = reader.parentage("")
    line = list(known.line(head.key.checkpoint_id))
    if not line or (lost := known.named_parent(line[-1])) in known:
        return
    if lost is None:
        for channel in sorted(_never_stored(reader, line, channels)):
            text = without_past(channel, line[-1], head.key.checkpoint_id)
            yield Finding.at(head.key, "delta-unanchored", text, channel)
    elif is_suspect:
        for channel in sorted(unanchored(channels, head.metadata, _stored(reader, line[1:]))):
            text = without_snapshot(channel, lost)
            yield Finding.at(head.key, "delta-unanchored", text, channel)


def _never_stored(reader: ThreadReader, line: list[str], channels: set[str]) -> set[str]:
    """Return the DeltaChannels that a first checkpoint had, and that no checkpoint stores.

    Of almost all threads, only the first checkpoint is read: it has none.
    """
    found = reader.checkpoints("", line[-1:], body=True)
    for first in found:
        body = read_body(first)
        channels = channels & (body.versions.keys() - body.values.keys())
    return channels.difference(*_stored(reader, line[1:])) if channels else channels


def _stored(reader: ThreadReader, ancestors: list[str]) -> Iterator[Collection[str]]:
    """Yield the channels that each of these checkpoints stores."""
    for some in in_chunks(ancestors, _AT_ONCE):
        bodies = reader.checkpoints("", some, body=True)
        stored = {one.key.checkpoint_id: read_body(one).values.keys() for one in bodies}
        yield from (stored.get(one, ()) for one in some)


Finish = Callable[[Store, rows.Terms, rows.ThreadReport], None]
"""Adds to the report on a thread what follows from all of its findings."""


def store_findings(store: Store, terms: rows.Terms) -> Iterator[Finding]:
    """Yield what is wrong with the store as a whole. A large file is read only for `--deep`."""
    yield from hidden_findings(store)
    yield from map(from_fault, store.damage(whole=terms.deep))
    yield from map(from_fault, store.faults())


def damage_findings(store: Store) -> Iterator[Finding]:
    """Yield where the files of a store are damaged, if they are; reads all of them."""
    yield from map(from_fault, store.damage(whole=True))


def hidden_findings(store: Store) -> Iterator[Finding]:
    """Yield why rows may be hidden."""
    for one in store.hidden_rows():
        yield Finding(code="rows-hidden", detail=f"{one.reason}; {one.remedy}")


def terms_for(store: Store, terms: rows.Terms, found: Iterable[Finding] = ()) -> rows.Terms:
    """Return what can be told of a store: without what may be hidden, lost in a damaged file, or
    evicted.

    `found` is what is wrong with the store as a whole.
    """
    terms = replace(terms, evicted=store.evicted())
    if not store.hidden_rows() and all(one.code != "file-damaged" for one in found):
        return terms
    return replace(terms, ignored=terms.ignored | UNTOLD_IF_HIDDEN)


def threads_to_check(store: Store) -> Iterator[rows.ThreadToCheck]:
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
        yield rows.ThreadToCheck(thread.thread_id, thread, is_suspect)
        suspects.discard(thread.thread_id)
    for thread_id in sorted(suspects):
        yield rows.ThreadToCheck(thread_id, None, is_suspect=True)
    if failure is not None:
        raise failure


def chosen_threads(threads: Iterable[Thread]) -> Iterator[rows.ThreadToCheck]:
    """Yield some threads of a store. The keys of each are checked."""
    return (rows.ThreadToCheck(one.thread_id, one, is_suspect=True) for one in threads)


def check_threads(
    store: Store,
    executor: Executor,
    threads: Iterable[rows.ThreadToCheck],
    terms: rows.Terms,
    lost: Callable[[Sequence[LostThread]], None],
    finish: Finish,
) -> Iterator[rows.ThreadReport]:
    """Yield the report on each thread, in the order given; `lost` is told those left out.

    `finish` is a function of a module, which is called with each report where the thread was read.
    """
    check = partial(_checking, terms, finish)
    return executor.run(store, threads, check, at_once=_AT_ONCE, lost=lost)


def check_thread(reader: ThreadReader, terms: rows.Terms, finish: Finish) -> rows.ThreadReport:
    """Return the report on one thread, with which `finish` was called."""
    thread = rows.ThreadToCheck(reader.thread_id, reader.thread, is_suspect=True)
    (report,) = _checking(terms_for(reader.store, terms), finish, reader.store)([thread])
    report.findings[:0] = hidden_findings(reader.store)
    return report


def findings_together(
    store: Store, together: ReplayedTogether, terms: rows.Terms, finish: Finish
) -> Iterator[Finding]:
    """Yield the mismatches that only all threads together show."""
    for found in together.last():
        report = rows.ThreadReport(found.thread_id)
        kept = [one for one in mismatch_findings(found) if one.code not in terms.ignored]
        report.findings = list(_with_refs(store, found.thread_id, kept))
        if terms.evicted:
            report.findings = list(_as_evicted(report, terms.evicted))
        finish(store, terms, report)
        yield from report.findings


def _checking(
    terms: rows.Terms, finish: Finish, store: Store
) -> Callable[[Sequence[rows.ThreadToCheck]], list[rows.ThreadReport]]:
    inference = TriggerInference(store)

    def check(threads: Sequence[rows.ThreadToCheck]) -> list[rows.ThreadReport]:
        reports = {one.thread_id: rows.ThreadReport(one.thread_id) for one in threads}
        faults = _faults_of(store, [one.thread_id for one in threads if _has_odd_keys(one, terms)])
        for one in threads:
            report = reports[one.thread_id]
            report.checked.threads = 1
            found = _key_findings(store, one, inference, terms, report, faults)
            _collect(report, found, terms)
        _check_heads(store, threads, reports, inference, terms)
        for one in threads:
            report = reports[one.thread_id]
            if terms.deep and one.thread is not None:
                reader = ThreadReader(store, one.thread, inference)
                _collect(report, deep_findings(reader, terms, report), terms)
            if terms.types and one.thread is not None:
                _collect(report, values.gather_types(store, one.thread_id, report), terms)
            if terms.evicted:
                report.findings = list(_as_evicted(report, terms.evicted))
            report.findings = list(_with_refs(store, one.thread_id, report.findings))
            finish(store, terms, report)
        return list(reports.values())

    return check


def _key_findings(
    store: Store,
    one: rows.ThreadToCheck,
    inference: TriggerInference,
    terms: rows.Terms,
    report: rows.ThreadReport,
    faults: Mapping[str, Iterable[Fault]],
) -> Iterator[Finding]:
    if _has_odd_keys(one, terms):
        known = faults.get(one.thread_id)
        known = store.thread_faults(one.thread_id) if known is None else known
        yield from map(from_fault, known)
        layout = inference.capabilities
        yield from rows.key_findings(store, one.thread_id, layout, terms, report.checked)
    elif one.thread is not None:
        # The store compared its keys to find out that the thread is not suspect.
        report.checked.checkpoints += one.thread.checkpoints


def _faults_of(store: Store, thread_ids: Sequence[str]) -> Mapping[str, Iterable[Fault]]:
    """Return the faults in the keys of some threads; none if they cannot be read together."""
    try:
        return store.faults_of(thread_ids) if thread_ids else {}
    except CkptError:
        return {}


def _has_odd_keys(one: rows.ThreadToCheck, terms: rows.Terms) -> bool:
    return one.is_suspect or terms.deep or _is_ahead(one.thread, terms)


def _is_ahead(thread: Thread | None, terms: rows.Terms) -> bool:
    """Return whether a checkpoint may be dated in the future."""
    return thread is not None and thread.last_at is not None and thread.last_at > terms.now


def _check_heads(
    store: Store,
    threads: Sequence[rows.ThreadToCheck],
    reports: Mapping[str, rows.ThreadReport],
    inference: TriggerInference,
    terms: rows.Terms,
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


def _collect(report: rows.ThreadReport, findings: Iterable[Finding], terms: rows.Terms) -> None:
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


def _as_evicted(report: rows.ThreadReport, reason: str) -> Iterator[Finding]:
    """Yield the findings with one in the place of those that missing rows explain."""
    explained = Counter(one.code for one in report.findings if one.code in EXPLAINED_IF_EVICTED)
    if explained:
        found = ", ".join(f"{number} x {code}" for code, number in sorted(explained.items()))
        yield Finding(
            code="keys-evicted",
            detail=f"what is left of the thread contradicts itself ({found}): {reason}",
            thread_id=report.thread_id,
            own_severity=Severity.ERROR,
        )
    yield from (one for one in report.findings if one.code not in EXPLAINED_IF_EVICTED)


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


def deep_findings(
    reader: ThreadReader, terms: rows.Terms, report: rows.ThreadReport
) -> Iterator[Finding]:
    """Yield what is wrong with the bodies, values and writes of all checkpoints of a thread.

    Counts them in the report, and notes there why some could not be checked.
    """
    with remembering(gather_names) as memo:
        check = _DeepCheck(reader, terms, memo)
        try:
            check.replay()
        except CkptError as error:
            report.unchecked = report.unchecked or error.message
    checked = report.checked
    checked.checkpoints = max(checked.checkpoints, check.checked.checkpoints)
    checked.writes = max(checked.writes, check.checked.writes)
    checked.values += check.unreadable.values
    report.unchecked = report.unchecked or check.unreadable.unchecked
    report.replayed = check.replayed
    yield from check.found


class _DeepCheck:
    """Reads a thread once, and shows each checkpoint to all checks."""

    def __init__(self, reader: ThreadReader, terms: rows.Terms, memo: Memo) -> None:
        self.found: list[Finding] = []
        self.checked = Checked()
        self.unreadable = values.UnreadableValues(memo, has_bodies=not reader.is_values_only)
        self.replayed: Replayed | None = None
        self._reader = reader
        self._terms = terms
        self._plain = values.PlainRows()
        self._lost = LostValues(reader)
        self._emptied = values.EmptiedMessages(reader)
        self._parents = rows.MissingParents(reader)
        self._orphans = rows.Orphans(reader, terms.before)
        self._young: set[tuple[str, str]] = set()
        """Checkpoints of which a write may still be missing: savers store writes in the background.
        """
        self._types = values.TypeChecks(terms, memo)

    def replay(self) -> None:
        """Check all checkpoints, then what only all of them together show."""
        replayed = replay_thread(self._reader, watch=self._watch)
        self.found += self.unreadable.end()
        self.found += self._emptied.end()
        self._judge(replayed)
        self.found += self._orphans.calls()
        self.found += self._orphans.memories()
        if not self.unreadable.has_broken_body:
            self.found += self._orphans.values()

    def _judge(self, replayed: Replayed) -> None:
        """Add the mismatches, except at channels of a checkpoint with a more exact finding.

        If the thread contradicts itself and is judged together with others, none are found yet.
        """
        exact = {(one.checkpoint_ns, one.checkpoint_id, one.channel) for one in self.found}
        transitions = []
        for one in replayed.transitions:
            place = one.checkpoint_ns, one.child
            if place not in self._young:
                checks = [check for check in one.checks if (*place, check.channel) not in exact]
                transitions.append(one._replace(checks=checks))
        told = replace(replayed, transitions=transitions)
        if self._terms.together and replayed.is_contradictory:
            self.replayed = told
        else:
            self.replayed = replayed.for_pool()
            (judged,) = judge_all([told], self._terms.reducers)
            self.found += mismatch_findings(judged)

    def _watch(self, here: KeptCheckpoint, parent: KeptCheckpoint | None) -> None:
        key = here.moment.key
        seen = rows.seen_checkpoint(
            here.moment,
            None if parent is None else parent.moment,
            self._terms.settled,
            is_head=self._reader.head(key.checkpoint_ns) == key.checkpoint_id,
        )
        self.checked.checkpoints += 1
        self.checked.writes += len(seen.moment.writes)
        self.found += self._findings(seen)
        if seen.is_young:
            self._young.add((key.checkpoint_ns, key.checkpoint_id))
        self._orphans.at(seen)
        self._emptied.at(seen)

    def _findings(self, seen: rows.SeenCheckpoint) -> Iterator[Finding]:
        yield from self.unreadable.at(seen)
        for channel in self._lost.here(seen.moment, seen.parent, seen.introduced):
            yield values.missing_value(seen, channel)
        yield from self._plain.at(seen)
        yield from self._parents.at(seen)
        yield from self._types.at(seen.stored_here, seen.moment.writes)
        names = delta_channels(seen.moment.metadata)
        if (
            seen.is_head and seen.moment.key.checkpoint_ns and names
        ):  # that of the root was read before
            state = read_state(self._reader, seen.moment, names)
            yield from rows.library_findings(seen.moment.key, state)
