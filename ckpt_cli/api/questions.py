"""What Python code may ask of a store and of a thread alike."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ckpt_backends import errors
from ckpt_backends.memory import MemoryStore
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory
from ckpt_cli.api import answer
from ckpt_cli.config.store_names import memory_place
from ckpt_cli.core.doctor.findings import Checked, Finding, Severity
from ckpt_cli.core.doctor.types import TypeUses, is_strict
from ckpt_cli.core.reducers import known_reducers
from ckpt_cli.core.replay import Replayed, ReplayedTogether, judge_all
from ckpt_cli.core.search import compile_pattern, stopped_text
from ckpt_cli.core.secrets import Scanner, SecretFinding, parse_ignored
from ckpt_cli.core.users import UserKey
from ckpt_cli.queries import incidents
from ckpt_cli.queries.bisect import Bisection, BisectOptions, Test, bisect, bisect_by_test
from ckpt_cli.queries.doctor import examine
from ckpt_cli.queries.doctor.rows import Terms, ThreadReport, ThreadToCheck
from ckpt_cli.queries.doctor.values import blocked_findings
from ckpt_cli.queries.grep import GrepHit, GrepQuery, Searched, grep_threads
from ckpt_cli.queries.replay import check_channels, replay_threads
from ckpt_cli.queries.secrets import SecretReport, search_memory, search_threads
from ckpt_cli.queries.tail import Movement, StoreTail
from ckpt_cli.queries.usage import BYS, By, Range, Survey, survey
from ckpt_cli.reading.store import LiveStore, is_passing, is_redacted
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.reading.workers import LostThread
from ckpt_cli.render.bisect import BISECTION_VIEW
from ckpt_cli.render.doctor import EXAMINATION, EXAMINATION_WITH_TYPES, THREAD_REPORT, finding_shape
from ckpt_cli.render.history import movement_record
from ckpt_cli.render.incidents import FAILURE, FAILURE_GROUPS
from ckpt_cli.render.replay import REPLAYED_THREAD
from ckpt_cli.render.search import HIT, SECRET
from ckpt_cli.render.usage import DU_VIEW, amount_records

_SHARE = 5
"""At most one in so many seconds is spent on looking."""
_LONGEST_PAUSE = 30.0
_SCAN_INTERVAL = 60.0
"""Seconds between two looks, if each reads a whole table."""


def follow_store(
    store: Store,
    around: answer.Surroundings,
    lines: int,
    match: str | None,
    where: str | Iterable[str] | None,
    interval: float | None,
    wait: Callable[[float], None],
    *,
    all_ns: bool,
) -> Iterator[answer.Answer[Movement]]:
    """Yield the last checkpoints, then what happens; the arguments are those of `StoreHandle.tail`.

    A lost connection is noted once, and opened again.
    """
    tail = StoreTail(match, answer.filter_of(around, where), all_ns=all_ns)
    if interval is None:
        interval = _interval(store, around)
    live = LiveStore(lambda: around.open_other(around.names.store_url), store)
    failures = 0
    found, is_first = tail.last(store, lines), True
    try:
        while True:
            began = time.monotonic()
            try:
                for one in found:
                    yield answer.Answer(one, movement_record)
                live.store.refresh()
                if failures:
                    around.note("connected again")
                failures = 0
            except errors.StoreUnavailable as error:
                if is_first or not is_passing(error):
                    raise
                if not failures:
                    text = around.names.without_values(error.message)
                    around.note(f"the connection is lost; trying again: {text}")
                failures += 1
                live.drop()
            took = time.monotonic() - began
            pause = interval * 2 ** min(failures, 10)
            wait(max(interval, min(pause, _LONGEST_PAUSE), took * (_SHARE - 1)))
            found, is_first = _new(tail, live), False
    finally:
        live.drop()


def _new(tail: StoreTail, live: LiveStore[Store]) -> Iterator[Movement]:
    # A function of its own, so that an error of opening is raised by the first `next`.
    yield from tail.new(live.store)


def _interval(store: Store, around: answer.Surroundings) -> float:
    if not store.lists_by_scan:
        return 1.0
    around.note(
        f"each look reads a whole table, every {_SCAN_INTERVAL:.0f} s; --interval changes that"
    )
    return _SCAN_INTERVAL


def replay_several(
    work: answer.ThreadWork, told: Mapping[str, str] | None
) -> Iterator[answer.Answer[Replayed]]:
    """Yield each thread, replayed; those that contradict themselves come last.

    Raises what `replay_part` raises, at once.
    """
    reducers = known_reducers({**work.around.names.reducers, **(told or {})})
    threads = work.threads
    if told:
        threads = list(threads)
        check_channels(work.store, (one.thread_id for one in threads), told, "these threads")
    judged = judge_all(work.watch(replay_threads(work.store, work.executor, threads)), reducers)
    return (answer.Answer(one, REPLAYED_THREAD.record) for one in judged)


def bisected(
    target: Target,
    around: answer.Surroundings,
    condition: str | None,
    test: Test | None,
    within: tuple[answer.When | None, answer.When | None],
    watch: answer.Watcher,
    *,
    binary: bool,
) -> answer.Answer[Bisection]:
    """Search by a filter or by a test; the arguments are those of `ThreadHandle.bisect`."""
    since, until = within
    times = Range(answer.time_of(around, since), answer.time_of(around, until))
    options = BisectOptions(times, binary, watch)
    wanted = answer.filter_of(around, condition)
    if wanted is not None and test is None:
        return answer.Answer(bisect(target, wanted, options), BISECTION_VIEW)
    if wanted is None and test is not None:
        return answer.Answer(bisect_by_test(target, test, options), BISECTION_VIEW)
    raise errors.UsageError(
        "bisect takes a condition or a test" + ("" if test is None else ", not both"),
        hint="such as 'values.plan = null'",
    )


class SearchHits(Iterator[answer.Answer[GrepHit]]):
    """Yields the hits, thread by thread. A thread is searched when its first hit is asked for.

    A value that cannot be read raises nothing: look at `missed` after the last hit.
    """

    def __init__(self, threads: Iterator[Searched]) -> None:
        self._hits = self._of(threads)
        self.unread = 0
        """Number of values so far that could not be read, or only in part."""
        self.stopped = 0
        """Number of lines so far on which the pattern took too long."""

    @property
    def missed(self) -> str:
        """What was not searched so far, as text; empty if everything was."""
        unread = f"{self.unread} values could not be read completely" if self.unread else ""
        return " and ".join(filter(None, [unread, stopped_text(self.stopped)]))

    def __next__(self) -> answer.Answer[GrepHit]:
        return next(self._hits)

    def _of(self, threads: Iterator[Searched]) -> Iterator[answer.Answer[GrepHit]]:
        for searched in threads:
            self.unread += searched.unread
            self.stopped += searched.stopped
            for hit in searched.hits:
                yield answer.Answer(hit, HIT.record)


def start_search(work: answer.ThreadWork, wanted: GrepQuery) -> SearchHits:
    """Search threads in their order. Raises `UsageError` if the pattern cannot be read."""
    compile_pattern(wanted.pattern, fixed=wanted.fixed, ignore_case=wanted.ignore_case)
    found = grep_threads(work.store, work.executor, work.threads, wanted)
    return SearchHits(iter(work.watch(found)))


class SecretSearch(Iterator[answer.Answer[SecretFinding]]):
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

    def __next__(self) -> answer.Answer[SecretFinding]:
        return next(self._findings)

    def _of(self, reports: Iterator[SecretReport]) -> Iterator[answer.Answer[SecretFinding]]:
        for searched in reports:
            self.threads += bool(searched.name)
            self.ignored += searched.ignored
            self.unread += searched.unread
            self.stopped += searched.stopped
            if searched.unchecked:
                self.unchecked[searched.name] = searched.unchecked
            for one in searched.findings:
                self.kinds[one.kind] += 1
                yield answer.Answer(one, SECRET.record)


def secret_search(
    work: answer.ThreadWork, memory: str | None, ignore: Sequence[str]
) -> SecretSearch:
    """Search some threads, or the whole store and the memory."""
    store, around, threads = work.store, work.around, work.chosen
    ignored = (*around.names.ignored_secrets, *parse_ignored(ignore))
    _ = Scanner()  # raises an error if its library is not installed
    opened = _named_memory(around, memory) if memory is not None or threads is None else None
    redacted = is_redacted(store)
    lost: list[SecretReport] = []

    def lose(threads: Sequence[LostThread]) -> None:
        names = map(Scanner().masked, (one.thread_id for one in threads))
        reasons = (one.reason for one in threads)
        pairs = zip(names, reasons, strict=True)
        lost.extend(SecretReport(name, unchecked=reason) for name, reason in pairs)

    def reports() -> Iterator[SecretReport]:
        chosen = examine.threads_to_check(store) if threads is None else threads
        found = search_threads(store, work.executor, _unbroken(chosen, lost), ignored, lose)
        yield from work.watch(found)
        beside = _memory_beside(around, lost) if opened is None and threads is None else opened
        yield from lost
        if beside is not None:
            with beside:
                yield search_memory(beside, ignored, redacted=redacted)

    return SecretSearch(reports())


def memory_search(
    memory: MemoryStore, around: answer.Surroundings, ignore: Sequence[str], *, redacted: bool
) -> SecretSearch:
    """Search long-term memory alone."""
    ignored = (*around.names.ignored_secrets, *parse_ignored(ignore))
    _ = Scanner()  # raises an error if its library is not installed
    one = (search_memory(memory, ignored, redacted=redacted) for _ in range(1))
    return SecretSearch(one)


def without_secrets(error: errors.NotFound) -> errors.NotFound:
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
    except errors.CkptError as error:
        lost.append(SecretReport("", unchecked=Scanner().masked(error.message)))


def _named_memory(around: answer.Surroundings, chosen: str | None) -> MemoryStore | None:
    """Open the memory that was chosen, or that the profile names. Raises what opening it raises."""
    url = around.names.other_store("memory", chosen)
    return None if url is None else open_memory(url)


def _memory_beside(around: answer.Surroundings, lost: list[SecretReport]) -> MemoryStore | None:
    """Open the memory of DeerFlow, or the one in the same store; None if there is none."""
    place = memory_place(around.names.store_url, None)
    try:
        return open_memory(around.names.store_url if place is None else place.url)
    except (errors.UnknownLayout, errors.Unsupported):  # it holds no memory
        return None
    except errors.CkptError as error:
        lost.append(SecretReport("", unchecked=error.message))
        return None


class Examination(Iterator[answer.Answer[Finding]]):
    """Yields the findings: those of the store, then those of each thread.

    The other attributes tell about what was checked so far; they are complete after the last
    finding.
    """

    def __init__(
        self,
        url: str,
        words: Sequence[str],
        findings: Callable[[Examination], Iterator[answer.Answer[Finding]]],
    ) -> None:
        self.store = url
        """The URL of the store, without secrets."""
        self.words = words
        """The options of the commands that are printed for findings."""
        self.checked = Checked()
        self.unchecked: dict[str, str] = {}
        """The threads that could not be checked completely, each with the reason; the key `''`
        stands for the store itself."""
        self.severities = Counter[Severity]()
        self.codes = Counter[str]()
        self.types: TypeUses | None = None
        """The classes that values name; None if they are not gathered."""
        self.findings: list[dict[str, Any]] = []
        """What `to_dict` returns of them."""
        self._findings = findings(self)

    @property
    def complete(self) -> bool:
        """Whether everything could be read that was to be checked."""
        return not self.unchecked

    def __next__(self) -> answer.Answer[Finding]:
        return next(self._findings)

    def to_dict(self) -> dict[str, Any]:
        """Check what is left, and return what `ckpt doctor -o json` prints."""
        self.findings = [one.to_dict() for one in self]
        return (EXAMINATION if self.types is None else EXAMINATION_WITH_TYPES).record(self)


def examination(work: answer.ThreadWork, terms: Terms) -> Examination:
    """Check some threads, or the whole store."""
    store, threads = work.store, work.chosen
    uses, told = TypeUses(), set[str]()
    is_whole = threads is None
    asked = terms

    def find(into: Examination) -> Iterator[answer.Answer[Finding]]:
        into.types = uses if asked.types else None
        of_store = (
            examine.store_findings(store, asked) if is_whole else examine.hidden_findings(store)
        )
        own = list(_readable(of_store, into))
        terms = replace(examine.terms_for(store, asked, own), together=True)
        yield from (_counted(one, into) for one in own if one.code not in terms.ignored)

        def lose(lost: Sequence[LostThread]) -> None:
            into.unchecked |= {one.thread_id: one.reason for one in lost}

        chosen = _to_check(store, threads, into)
        together = ReplayedTogether(terms.reducers)
        for checked in work.watch(
            examine.check_threads(store, work.executor, chosen, terms, lose, _with_fixes)
        ):
            into.checked.add(checked.checked)
            if checked.unchecked:
                into.unchecked[checked.thread_id] = checked.unchecked
            for use in checked.types:
                uses.add(use)
            yield from (_counted(one, into) for one in _once(checked.findings, told))
            if checked.replayed is not None:
                together.add(checked.replayed)
        last = examine.findings_together(store, together, terms, _with_fixes)
        yield from (_counted(one, into) for one in last)
        is_told = any(one.code == "file-damaged" for one in own)
        if (
            is_whole
            and not is_told
            and any(errors.FILE_DAMAGED in why for why in into.unchecked.values())
        ):
            # A large file is not checked as a whole until a part of it cannot be read.
            late = _readable(examine.damage_findings(store), into)
            yield from (_counted(one, into) for one in late if one.code not in terms.ignored)
        if terms.types and "type-blocked" not in terms.ignored:
            yield from (_counted(one, into) for one in blocked_findings(uses))

    return Examination(store.describe().url, words_of(work.around), find)


def checked_thread(
    reader: ThreadReader, around: answer.Surroundings, grace: answer.When, *, deep: bool
) -> answer.Answer[ThreadReport]:
    """Check one thread."""
    checked = examine.check_thread(reader, terms_of(around, grace, deep=deep), _with_fixes)
    shape = finding_shape(tuple(words_of(around)))

    def record(found: ThreadReport) -> dict[str, Any]:
        return THREAD_REPORT.record(found) | {"findings": [*map(shape.record, found.findings)]}

    return answer.Answer(checked, record)


def terms_of(
    around: answer.Surroundings, grace: answer.When, *, deep: bool, types: bool = False
) -> Terms:
    """Return what is checked, by the configuration and by what is asked."""
    before = answer.time_of(around, grace)
    assert before is not None  # noqa: S101 - it is only None if no time is given
    names = around.names
    return Terms(
        around.now,
        before,
        deep,
        dict(names.reducers),
        names.ignored_codes,
        # With `types`, each is reported once, at the end.
        strict_types=is_strict(os.environ) and not types,
        types=types,
    )


def _with_fixes(store: Store, terms: Terms, report: ThreadReport) -> None:
    """Choose the fixes for what was found in a thread."""
    if report.findings:
        from ckpt_cli.plans.fixes import choose_fixes  # loads all plans

        choose_fixes(store, terms, report)


def words_of(around: answer.Surroundings) -> list[str]:
    """Return the options with which a command reads the store as this check did."""
    words, key = list(around.names.words), around.opening.aes_key_file
    if key is not None:
        words += ["--aes-key-file", key]
    for channel, name in around.names.told_reducers.items():
        words += ["--reducer", f"{channel}={name}"]
    return words


def _once(findings: Iterable[Finding], told: set[str]) -> Iterator[Finding]:
    """Yield findings, but each class that strict mode blocks only once."""
    for one in findings:
        if one.code != "type-blocked":
            yield one
        elif one.detail not in told:
            told.add(one.detail)
            yield one


def _readable(findings: Iterator[Finding], into: Examination) -> Iterator[Finding]:
    """Yield what is wrong with the store itself, as far as it can be read."""
    try:
        yield from findings
    except errors.CkptError as error:
        into.unchecked[""] = error.message


def _counted(finding: Finding, into: Examination) -> answer.Answer[Finding]:
    into.severities[finding.severity] += 1
    into.codes[finding.code] += 1
    return answer.Answer(finding, finding_shape(tuple(into.words)).record)


def _to_check(
    store: Store, threads: Iterable[Thread] | None, into: Examination
) -> Iterator[ThreadToCheck]:
    """Yield the threads; a list that breaks off is noted, and the rest is checked."""
    try:
        yield from (
            examine.threads_to_check(store) if threads is None else examine.chosen_threads(threads)
        )
    except errors.CkptError as error:
        into.unchecked[""] = error.message


_TOP, _TOP_OF_ALL = 20, 8
"""Lines of a single listing, and of each listing in the summary."""


def disk_usage(
    store: Store, names: Collection[str] | None, top: int | None, watch: answer.Watcher
) -> answer.Answer[Survey]:
    """Measure a store, or the threads with these ids."""
    is_one = names is not None and len(names) == 1
    found = survey(store, names, top or _TOP_OF_ALL, scan=True, whole=is_one, watch=watch)
    return answer.Answer(found, DU_VIEW)


def disk_usage_by(
    store: Store, names: Collection[str] | None, by: By, top: int | None, watch: answer.Watcher
) -> answer.AnswerList[Survey]:
    """Measure only one listing. Raises `UsageError` if `by` is not one of `BYS`."""
    if by not in BYS:
        raise errors.UsageError(f"cannot group by '{by}'", hint=f"use --by {', --by '.join(BYS)}")
    scan = by == "channel"
    whole = scan or (names is not None and len(names) == 1)
    found = survey(store, names, top or _TOP, scan=scan, whole=whole, watch=watch)
    return answer.AnswerList(found, partial(amount_records, by=by))


def failed_tasks(
    store: Store,
    around: answer.Surroundings,
    threads: Iterable[Thread],
    since: answer.When | None,
    *,
    history: bool,
    key: UserKey | None = None,
) -> Iterator[answer.Answer[incidents.Failure]]:
    """Yield the failed tasks of some threads. Raises `UsageError` for a time that is none."""
    found = incidents.failures_of_threads(
        store, threads, since=answer.time_of(around, since), history=history, key=key
    )
    return (answer.Answer(one, FAILURE.record) for one in found)


def counted_failures(
    failures: Iterable[answer.Answer[incidents.Failure]], kind: incidents.GroupBy
) -> answer.AnswerList[list[incidents.FailureGroup]]:
    """Return how many of these tasks failed alike."""
    groups = incidents.group_failures((one.found for one in failures), kind)
    return answer.AnswerList(groups, partial(map, FAILURE_GROUPS[kind].record))
