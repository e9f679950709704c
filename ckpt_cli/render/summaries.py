"""One line with the numbers of an answer, for a chat or a cron job."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ckpt_cli.core.doctor.findings import Severity
from ckpt_cli.render.fields import Field, Shape
from ckpt_cli.render.table import age
from ckpt_cli.render.text import safe_text
from ckpt_cli.render.types import INTEGER, TEXT, TIME

if TYPE_CHECKING:
    from ckpt_cli.queries.incidents import Failure, Waiting


# Sum up the answer of a command in one line without ids, for a chat or a cron job.
#
# Each record has the numbers of its text, which is the field `summary`.


_MOST = 6
"""Maximum number of codes, reasons or kinds of errors in a text."""
_KIND = re.compile(r"(?:\w+\.)*(?P<name>[^\W\d]\w{0,79})\s*[(:]")
"""The name of a class at the start of an error: `KeyError('x')`, `redis.TimeoutError: lost`."""
_OTHER = "other"


DOCTOR = Shape(
    "The findings of a check in numbers.",
    Field("threads", INTEGER, "Threads that were checked.", itemgetter("threads")),
    Field("severities", INTEGER.by_name, "Findings by severity.", itemgetter("severities")),
    Field("codes", INTEGER.by_name, "Findings by code.", itemgetter("codes")),
    Field("unchecked", INTEGER, "Threads with an unread part.", itemgetter("unchecked")),
    Field("summary", TEXT, "The same as one line.", itemgetter("summary")),
)


def doctor_summary(
    severities: Mapping[Severity, int], codes: Counter[str], threads: int, unchecked: int
) -> dict[str, Any]:
    """Sum up the findings of a doctor; `unchecked` threads could not be checked completely."""
    counts = {one: severities.get(one, 0) for one in Severity}
    found = [grouped_count(n, one) for one, n in counts.items() if n]
    text = f"doctor: {', '.join(found) or 'no findings'} in {grouped_count(threads, 'thread')}"
    if codes:
        text += f": {most_frequent(codes)}"
    if unchecked:
        text += f"; could not check {grouped_count(unchecked, 'thread')}"
    return DOCTOR.record(
        {
            "threads": threads,
            "severities": {one.value: n for one, n in counts.items()},
            "codes": dict(codes.most_common()),
            "unchecked": unchecked,
            "summary": text,
        }
    )


def _by_number(found: _Errors) -> dict[str, int]:
    return dict(found.kinds.most_common())


class _Errors(NamedTuple):
    """The numbers of failed tasks, and of questions."""

    threads: int
    kinds: Counter[str]
    first: datetime | None
    waiting: int
    questions: int
    oldest: datetime | None
    text: str


ERRORS = Shape(
    "Failed tasks, and the questions that wait for a person.",
    Field("threads", INTEGER, "Threads with a failed task."),
    Field("failures", INTEGER, "Failed tasks.", lambda one: one.kinds.total()),
    Field("kinds", INTEGER.by_name, "By class, the most first.", _by_number),
    Field("first_at", TIME.or_null, "When the first failed.", "first"),
    Field("waiting", INTEGER, "Threads with a question."),
    Field("questions", INTEGER, "Questions."),
    Field("oldest_question_at", TIME.or_null, "When the oldest was asked.", "oldest"),
    Field("summary", TEXT, "The printed line.", "text"),
)


def errors_summary(
    failures: Iterable[Failure], asked: Iterable[Waiting], now: datetime, zone: tzinfo
) -> dict[str, Any]:
    """Sum up failed tasks, and the questions that wait for a person."""
    threads, kinds, first = set[str](), Counter[str](), None
    for one in failures:
        threads.add(one.key.thread_id)
        kinds[error_class(one.error)] += 1
        first = min(filter(None, [first, one.at]), default=None)
    waiting, questions, oldest = set[str](), 0, None
    for question in asked:
        waiting.add(question.key.thread_id)
        questions += 1
        oldest = min(filter(None, [oldest, question.since]), default=None)
    text = f"errors: {grouped_count(len(threads), 'thread')} failed" if threads else "errors: none"
    if first is not None:
        text += f" since {_clock(first, now, zone)}"
    if kinds.keys() - {_OTHER}:
        text += f": {most_frequent(kinds)}"
    if waiting:
        verb = "waits" if len(waiting) == 1 else "wait"
        text += f"; {len(waiting):,} {verb} for a person"
        if oldest is not None:
            text += f", the oldest for {age(oldest, now)}"
    return ERRORS.record(_Errors(len(threads), kinds, first, len(waiting), questions, oldest, text))


def error_class(text: str) -> str:
    """Return the class at the start of an error; `other` if there is none."""
    found = _KIND.match(text)
    return _OTHER if found is None else found["name"]


def most_frequent(counts: Counter[str]) -> str:
    """Return the most frequent names with their numbers: `KeyError 8, other 2`."""
    shown = [f"{safe_text(name)} {n:,}" for name, n in counts.most_common(_MOST)]
    rest = counts.total() - sum(n for _, n in counts.most_common(_MOST))
    return ", ".join([*shown, *([f"others {rest:,}"] if rest else [])])


def grouped_count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 or noun == Severity.INFO else f"{n:,} {noun}s"


def _clock(moment: datetime, now: datetime, zone: tzinfo) -> str:
    """Return the time of day; with the date if it was not today."""
    here, today = moment.astimezone(zone), now.astimezone(zone)
    if here.date() == today.date():
        return f"{here:%H:%M}"
    return f"{here:%b} {here.day}{'' if here.year == today.year else f' {here.year}'} {here:%H:%M}"
