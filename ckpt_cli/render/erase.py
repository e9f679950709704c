"""Erasures, their plans and receipts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

from ckpt_backends.archive import SUFFIX
from ckpt_backends.changes import Remaining, Remains
from ckpt_backends.erasing.thread import ChangedPath
from ckpt_cli.core import erasure
from ckpt_cli.core.values import format_path
from ckpt_cli.plans.erase import DRY_RUN, ErasurePlan
from ckpt_cli.plans.erase_value import EraseValuePlan
from ckpt_cli.render.fields import Field, Shape, View, optional
from ckpt_cli.render.table import THREAD, Column, size, table_lines
from ckpt_cli.render.text import Style, StyledLine, Ui, line, safe_text, wrap
from ckpt_cli.render.types import BYTES, FLAG, INTEGER, TEXT, either, one_of
from ckpt_cli.render.values import counted

_STYLES: dict[str, Style] = {"erased": "add", "kept": "change", "unreachable": "dim"}
_NAMED = 20
"""Maximum number of mentions that a table lists."""
_NOUNS = {
    "threads": "thread",
    "memory": "item",
    "sessions": "session",
    "archives": "archive",
    "plans": "saved plan",
    "queries": "history of queries",
    "operations": "line of the log",
}


def _is_unknown(one: erasure.ErasurePlace) -> bool:
    """Whether a verification sees nothing of it: it was not looked at, or is bytes of an engine."""
    return one.is_unknown or (one.is_left and one.kind == "engine")


PLACE = Shape(
    "A place that held something of the subject, or may still hold it.",
    Field("store", TEXT, "A URL without secrets, a folder or a file."),
    Field("kind", one_of(*get_args(erasure.PlaceKind)), "What it holds."),
    Field("items", INTEGER.or_null, "Threads, items, sessions or files; null if unknown."),
    Field("bytes", BYTES.or_null, "Their size; null if unknown."),
    Field("state", one_of(*get_args(erasure.PlaceState)), "What became of them."),
    Field("reason", TEXT, "Why it was not erased, or how it was."),
    optional("unknown", FLAG, "A verification cannot tell whether it is erased.", _is_unknown),
)
PLACE_COLUMNS = PLACE.columns(
    Column("STATE", "state", style=lambda state: _STYLES[state]),
    Column("WHAT", "kind"),
    Column("ITEMS", "items", right=True, drop=1),
    Column("SIZE", "bytes", size, right=True, drop=2),
    Column("WHERE", "store", style="head"),
    Column("WHY", "reason", cut=True, style="dim", least=40),
)
MENTION = Shape(
    "A place that names the subject or an erased thread, and stays.",
    Field("store", TEXT, "Where it is."),
    Field("kind", one_of("thread", "memory", "archive"), "What it is."),
    Field("name", TEXT, "The thread, the item as NAMESPACE/KEY, or the file."),
    Field("hits", INTEGER, "How often it names one of them."),
    Field("where", TEXT, "The first place in it."),
)
_MENTION_COLUMNS = MENTION.columns(
    Column("WHAT", "kind"),
    Column("NAME", "name", style="head"),
    Column("HITS", "hits", right=True),
    Column("FIRST", "where", cut=True, style="dim"),
    Column("WHERE", "store", cut=True, style="dim", drop=1),
)


def _mentions(report: erasure.ErasureReport) -> Sequence[erasure.Mention] | None:
    return report.mentions if report.is_searched else None


ERASURE = Shape(
    "What an erasure did, or would do; docs/erase.md explains it.",
    Field("subject", TEXT.or_null, "The person, as given; null if threads were chosen otherwise."),
    Field("dry_run", FLAG, "Whether nothing was erased.", "is_dry_run"),
    Field("complete", FLAG, "Whether nothing is left that can be erased.", "is_complete"),
    Field("places", PLACE.list, "What was found, and what became of it."),
    Field(
        "mentions", MENTION.list.or_null, "What names it elsewhere; null if not asked.", _mentions
    ),
    Field("more_mentions", FLAG, "Whether there are more than these.", "has_more_mentions"),
    Field("statements", TEXT.list, "What engines and files did to the old bytes."),
    Field("stopped", TEXT, "Why it stopped early; '' if it did not."),
)
VERIFICATION = Shape(
    "What of a receipt is back, place by place.",
    Field("receipt", TEXT, "The file."),
    Field(
        "complete",
        FLAG,
        "Whether nothing is back, and every place could be checked.",
        lambda found: all(one.state == "erased" for one in found.places),
    ),
    Field("places", PLACE.list, "`items` counts what is back."),
)


def _places(places: Iterable[erasure.ErasurePlace]) -> list[dict[str, Any]]:
    return list(map(PLACE.record, places))


def _erasure_lines(report: erasure.ErasureReport, ui: Ui) -> Iterator[StyledLine]:
    """Yield the places and the mentions."""
    if report.is_dry_run and report.places:
        yield from _plan_lines(report, ui)
    elif report.places:
        yield from table_lines(_places(report.places), PLACE_COLUMNS, ui)
    else:
        yield line("Nothing to erase.")
    if report.statements:
        yield line("")
        text = f"done: {', '.join(report.statements)}"
        yield from (line((safe_text(part), "dim")) for part in wrap(text, ui.width))
    if report.mentions:
        yield from _mention_lines(report, ui)


def _plan_lines(report: erasure.ErasureReport, ui: Ui) -> Iterator[StyledLine]:
    """Yield what would be erased, and below it what would stay."""
    found = [one for one in report.places if one.reason == DRY_RUN]
    unread = [one for one in report.places if one.reason != DRY_RUN]
    if found:
        yield line("Would erase:")
        columns = [one for one in PLACE_COLUMNS if one.key not in {"state", "reason"}]
        yield from table_lines(_places(found), columns, ui)
    if unread:
        yield line("Would stay:")
        yield from table_lines(_places(unread), PLACE_COLUMNS[1:], ui)


def _mention_lines(report: erasure.ErasureReport, ui: Ui) -> Iterator[StyledLine]:
    """Yield where the person is named elsewhere."""
    more = "more than " if report.has_more_mentions else ""
    yield line("")
    number = counted(len(report.mentions), "other place")
    yield line((f"Named in {more}{number}, which stay:", "question"))
    rows = map(MENTION.record, report.mentions[:_NAMED])
    yield from table_lines(rows, _MENTION_COLUMNS, ui)
    if len(report.mentions) > _NAMED:
        yield line((f"{len(report.mentions) - _NAMED} more; -o json lists them", "dim"))


ERASURE_VIEW = View(
    ERASURE.record, _erasure_lines, lambda report: _places(report.places), PLACE_COLUMNS
)
VERIFICATION_VIEW = View(
    VERIFICATION.record,
    lambda found, ui: table_lines(_places(found.places), PLACE_COLUMNS, ui),
    lambda found: _places(found.places),
    PLACE_COLUMNS,
)


class Verification(NamedTuple):
    """What of a receipt is back."""

    receipt: str
    """Its file."""
    places: Sequence[erasure.ErasurePlace]


def erasure_question(plan: ErasurePlan) -> str:
    """Return the question for confirmation."""
    numbers = Counter[str]()
    for one in plan.found():
        numbers[one.kind] += one.items or 0
    parts = [counted(number, _NOUNS[kind]) for kind, number in numbers.items() if number]
    return f"Erase {', '.join(parts) or 'what an earlier run left'}? This cannot be undone."


_ARCHIVE = re.compile(rf"[^/]*{re.escape(SUFFIX)}")
"""The name of an archive, which holds the id of a thread."""


def receipt_record(
    report: erasure.ErasureReport,
    receipt: erasure.ErasureReceipt,
    scope: erasure.ErasureScope,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a receipt as JSON, with the names of the scope hidden.

    `facts` are who, when and which version.
    """
    texts = [receipt.store, *receipt.folders, report.stopped, *report.statements]
    texts += [text for one in report.places for text in (one.store, one.reason)]
    hidden = scope.hidden_names("\n".join(texts))

    def shown(text: str) -> str:
        text = _ARCHIVE.sub(f"{erasure.ERASED}{SUFFIX}", text)
        return text if hidden is None else hidden.sub(erasure.ERASED, text)

    places = [
        replace(one, store=shown(one.store), reason=shown(one.reason)) for one in report.places
    ]
    return {
        "ckpt_erasure_receipt": erasure.FORMAT,
        **facts,
        "store": shown(receipt.store),
        "place": receipt.place,
        "complete": report.is_complete,
        "stopped": shown(report.stopped),
        "places": _places(places),
        "statements": list(map(shown, report.statements)),
        "mentions": len(report.mentions) if report.is_searched else None,
        "folders": list(map(shown, receipt.folders)),
        "memories": list(receipt.memories),
        **erasure.ids_record(receipt.ids),
    }


# Single values.

_MOST_LINES = 30


class ErasedValues(NamedTuple):
    """What happens to one thread, or happened."""

    plan: EraseValuePlan
    remains: Remains | None = None
    """What the engine may keep; None in a dry run."""
    is_dry_run: bool = False

    @property
    def places(self) -> list[tuple[ChangedPath, int]]:
        """The places in order, each with the number of rows that have it."""
        places = self.plan.counts.places.items()
        return sorted(places, key=lambda one: (one[0].place, one[0].channel, str(one[0].path)))


def _kept(one: Remaining) -> str:
    return "kept" if one.is_reachable or one.needs_rewrite else "unreachable"


_CHANGED = Shape(
    "A place of a thread that is overwritten.",
    Field(
        "place", one_of("value", "write", "metadata"), "What holds it.", lambda one: one[0].place
    ),
    Field("channel", TEXT.or_null, "Channel.", lambda one: one[0].channel or None),
    Field("path", TEXT, "Path in it.", lambda one: format_path(one[0].path)),
    Field("rows", INTEGER, "Checkpoints, writes or values that have it there.", lambda one: one[1]),
)
_REMAINS = Shape(
    "What the engine did to the old bytes.",
    Field("done", TEXT.list, "Statements and steps."),
    Field(
        "places",
        Shape(
            "Where old bytes may still be.",
            Field("place", TEXT, "Where."),
            Field("state", one_of("kept", "unreachable"), "Whether they can be erased.", _kept),
            Field("reason", TEXT, "Why."),
        ).list,
        "Where they may still be.",
    ),
)
ERASED_VALUES = Shape(
    "What happens to the values of one thread, or happened.",
    Field("thread_id", TEXT, "Thread.", "plan.thread_id"),
    Field("dry_run", FLAG, "Whether nothing was written.", "is_dry_run"),
    Field("places", _CHANGED.list, "What is overwritten."),
    Field("checkpoints", INTEGER, "Checkpoints that change.", "plan.counts.checkpoints"),
    Field("writes", INTEGER, "Writes that change.", "plan.counts.writes"),
    Field("values", INTEGER, "Values stored apart that change.", "plan.counts.values"),
    Field("remains", _REMAINS.or_null, "What the engine may keep; null in a dry run."),
)
ERASED_ANSWER = either(
    "What happens to the values of a thread; a list for several threads.",
    ERASED_VALUES,
    ERASED_VALUES.list,
)
_ERASED_COLUMNS = [
    THREAD,
    *_CHANGED.columns(
        Column("PLACE", "place"),
        Column("PATH", "path", cut=True),
        Column("TIMES", "rows", right=True),
    ),
]


def _erased_record(found: Sequence[ErasedValues]) -> Any:
    records = list(map(ERASED_VALUES.record, found))
    return records[0] if len(records) == 1 else records


def _erased_rows(found: Iterable[ErasedValues]) -> Iterator[dict[str, Any]]:
    """Yield one row for each place of each thread."""
    for one in found:
        for place in one.places:
            yield {"thread_id": one.plan.thread_id, **_CHANGED.record(place)}


def _erased_lines(
    found: Sequence[ErasedValues],
    ui: Ui,
    *,
    is_done: bool = False,
    is_shown: bool = False,
    remains: Remains | None = None,
) -> Iterator[StyledLine]:
    """Yield what is rewritten in each thread, or what was, unless `is_shown` already; then what
    was done about the old bytes, and where they may still be.
    """
    for one in () if is_shown else found:
        rows = list(_erased_rows([one]))
        yield from table_lines(rows[:_MOST_LINES], _ERASED_COLUMNS, ui)
        if len(rows) > _MOST_LINES:
            yield line((f"... and {counted(len(rows) - _MOST_LINES, 'other place')}", "dim"))
        yield line(f"{_counts(one.plan, is_done=is_done)}; ids, versions and times stay")
    if not (is_shown or is_done):
        yield line(("This rewrites stored history. It cannot be undone.", "warn"))
    if remains is not None and remains.done:
        yield line(("removed old bytes: ", "dim"), safe_text(", ".join(remains.done)))
    for place in () if remains is None else remains.places:
        yield line(("may still be in ", "dim"), safe_text(f"{place.place}: {place.reason}"))


ERASED_VIEW = View(_erased_record, _erased_lines, _erased_rows, _ERASED_COLUMNS)


def _counts(plan: EraseValuePlan, *, is_done: bool) -> str:
    counts = plan.counts
    numbers = [
        counted(number, word)
        for number, word in (
            (counts.checkpoints, "checkpoint"),
            (counts.writes, "write"),
            (counts.values, "stored value"),
        )
        if number
    ]
    *first, last = numbers or ["nothing"]
    named = f"{', '.join(first)} and {last}" if first else last
    return f"{named} of thread '{safe_text(plan.thread_id)}' {'changed' if is_done else 'change'}"
