"""Checks of threads, as Python code sees them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ckpt_backends.errors import FILE_DAMAGED, CkptError
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.surroundings import Surroundings, When, time_of
from ckpt_cli.api.watch import Watcher
from ckpt_cli.core.doctor.codes import Severity
from ckpt_cli.core.doctor.finding import Checked, Finding
from ckpt_cli.core.doctor.replayed import ReplayedTogether
from ckpt_cli.core.doctor.strict_types import is_strict
from ckpt_cli.core.doctor.type_use import TypeUses
from ckpt_cli.queries.doctor.examine import (
    check_thread,
    check_threads,
    chosen_threads,
    damage_findings,
    findings_together,
    hidden_findings,
    store_findings,
    terms_for,
    threads_to_check,
)
from ckpt_cli.queries.doctor.terms import Terms, ThreadReport, ThreadToCheck
from ckpt_cli.queries.doctor.types import blocked_findings
from ckpt_cli.render.doctor import checked_record, finding_record
from ckpt_cli.render.doctor_types import types_record
from ckpt_cli.threads.executor.executor import Executor
from ckpt_cli.threads.executor.work import LostThread
from ckpt_cli.threads.thread import ThreadReader


class Examination(Iterator[Answer[Finding]]):
    """Yields the findings: those of the store, then those of each thread.

    The other attributes tell about what was checked so far; they are complete after the last
    finding.
    """

    def __init__(
        self,
        url: str,
        words: Sequence[str],
        findings: Callable[[Examination], Iterator[Answer[Finding]]],
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
        self._findings = findings(self)

    @property
    def complete(self) -> bool:
        """Whether everything could be read that was to be checked."""
        return not self.unchecked

    def __next__(self) -> Answer[Finding]:
        return next(self._findings)

    def to_dict(self) -> dict[str, Any]:
        """Check what is left, and return what `ckpt doctor -o json` prints."""
        findings = [one.to_dict() for one in self]
        types = {} if self.types is None else types_record(self.types)
        return {
            "store": self.store,
            "complete": self.complete,
            "checked": checked_record(self.checked),
            "findings": findings,
            "unchecked": [
                {"thread_id": thread_id or None, "reason": reason}
                for thread_id, reason in self.unchecked.items()
            ],
            **types,
        }


def examination(
    store: Store,
    around: Surroundings,
    threads: Iterable[Thread] | None,
    terms: Terms,
    executor: Executor,
    watch: Watcher,
) -> Examination:
    """Check some threads, or all threads and the store itself if `threads` is None."""
    uses, told = TypeUses(), set[str]()
    is_whole = threads is None
    asked = terms

    def find(into: Examination) -> Iterator[Answer[Finding]]:
        into.types = uses if asked.types else None
        of_store = store_findings(store, asked) if is_whole else hidden_findings(store)
        own = list(_readable(of_store, into))
        terms = replace(terms_for(store, asked, own), together=True)
        yield from (_counted(one, into) for one in own if one.code not in terms.ignored)

        def lose(lost: Sequence[LostThread]) -> None:
            into.unchecked |= {one.thread_id: one.reason for one in lost}

        chosen = _to_check(store, threads, into)
        together = ReplayedTogether(terms.reducers)
        for report in watch(check_threads(store, executor, chosen, terms, lose, _with_fixes)):
            into.checked.add(report.checked)
            if report.unchecked:
                into.unchecked[report.thread_id] = report.unchecked
            for use in report.types:
                uses.add(use)
            yield from (_counted(one, into) for one in _once(report.findings, told))
            together.add(report.replayed)
        last = findings_together(store, together, terms, _with_fixes)
        yield from (_counted(one, into) for one in last)
        is_told = any(one.code == "file-damaged" for one in own)
        if is_whole and not is_told and any(FILE_DAMAGED in why for why in into.unchecked.values()):
            # A large file is not checked as a whole until a part of it cannot be read.
            late = _readable(damage_findings(store), into)
            yield from (_counted(one, into) for one in late if one.code not in terms.ignored)
        if terms.types and "type-blocked" not in terms.ignored:
            yield from (_counted(one, into) for one in blocked_findings(uses))

    return Examination(store.describe().url, words_of(around), find)


def checked_thread(
    reader: ThreadReader, around: Surroundings, grace: When, *, deep: bool
) -> Answer[ThreadReport]:
    """Check one thread."""
    report = check_thread(reader, terms_of(around, grace, deep=deep), _with_fixes)
    words = words_of(around)

    def record(found: ThreadReport) -> dict[str, Any]:
        return {
            "thread_id": found.thread_id,
            "complete": not found.unchecked,
            "checked": checked_record(found.checked),
            "findings": [finding_record(one, words) for one in found.findings],
        }

    return Answer(report, record)


def terms_of(around: Surroundings, grace: When, *, deep: bool, types: bool = False) -> Terms:
    """Return what is checked, by the configuration and by what is asked."""
    before = time_of(around, grace)
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


def words_of(around: Surroundings) -> list[str]:
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
    except CkptError as error:
        into.unchecked[""] = error.message


def _counted(finding: Finding, into: Examination) -> Answer[Finding]:
    into.severities[finding.severity] += 1
    into.codes[finding.code] += 1
    return Answer(finding, lambda found: finding_record(found, into.words))


def _to_check(
    store: Store, threads: Iterable[Thread] | None, into: Examination
) -> Iterator[ThreadToCheck]:
    """Yield the threads; a list that breaks off is noted, and the rest is checked."""
    try:
        yield from threads_to_check(store) if threads is None else chosen_threads(threads)
    except CkptError as error:
        into.unchecked[""] = error.message
