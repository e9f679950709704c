"""Print the result of a replay, as text, as records and as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.replay.elimination import Judgement, Verdict, differences_of
from ckpt_cli.core.replay.report import (
    ChannelReport,
    FailedCheck,
    Place,
    Replayed,
    ReplayReport,
    Transition,
    label,
    verdicts,
)
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, Style, StyledLine, line
from ckpt_cli.render.terminal.table import THREAD, Column, plain_columns, table_lines
from ckpt_cli.render.terminal.units import step_number
from ckpt_cli.render.values.one_line import counted

if TYPE_CHECKING:
    from ckpt_cli.core.replay.differences import Differences

_STYLES: Mapping[str, Style] = {
    Verdict.MATCH: "plain",
    Verdict.MISMATCH: "error",
    Verdict.UNVERIFIABLE: "change",
}
_SHOWN = 20
"""Maximum number of findings with the same reason that are shown one by one."""


def transition_rows(
    found: Replayed, judgements: Mapping[Place, Judgement]
) -> Iterator[dict[str, Any]]:
    """Yield one row for each channel of a transition that was written to, or that changed."""
    for transition in found.transitions:
        kind = namespace_kind(transition.checkpoint_ns)
        for check, verdict, reason in verdicts(transition, judgements):
            judgement = judgements[kind, check.channel]
            differs = differences_of(check, judgement)
            yield {
                "thread_id": found.thread_id,
                **_transition(transition),
                "channel": check.channel,
                "writes": check.wrote,
                "verdict": verdict.value,
                "reason": _with_differences(reason, differs) or None,
                **_differences(differs),
                "assumed": verdict is Verdict.MATCH and bool(check.assumed & judgement.mask),
                **_reducer(judgement),
            }


def transition_columns(refs: Mapping[str, str]) -> Sequence[Column]:
    """Return the columns of `replay`; `refs` are the short forms of checkpoint ids."""

    def short(checkpoint_id: str) -> str:
        return refs.get(checkpoint_id, checkpoint_id)

    return [
        Column("THREAD", "thread_id", table=False),
        Column("NAMESPACE", "checkpoint_ns", namespace_kind, drop=3),
        Column("STEP", "step", right=True),
        Column("SOURCE", "source", drop=4),
        Column("PARENT", "checkpoint_id", short, "id", drop=5),
        Column("CHILD", "child", short, "id"),
        Column("CHANNEL", "channel"),
        Column("WRITES", "writes", right=True, drop=6),
        Column("REDUCER", "reducer", drop=2, empty="?"),
        Column("EVIDENCE", "evidence", right=True, drop=7),
        Column("VERDICT", "verdict", style=lambda verdict: _STYLES[verdict]),
        Column("ASSUMED", "assumed", table=False),
        Column("CANDIDATES", "candidates", table=False),
        Column("REASON", "reason", cut=True, drop=1),
        Column("DIFFERENCES", "differences", table=False),
    ]


def report_record(found: ReplayReport) -> dict[str, Any]:
    """Return the answer of `replay` as JSON."""
    return {
        "thread_id": found.thread_id,
        "transitions": found.transitions,
        **_counts(found.verdicts),
        "assumed": found.assumed,
        "channels": {label(place): _channel(one) for place, one in found.channels.items()},
        "findings": [_finding(one) for one in found.findings],
    }


def report_rows(found: ReplayReport) -> Iterator[dict[str, Any]]:
    """Yield the findings of `replay --verify`, one row each."""
    for one in found.findings:
        yield {"thread_id": found.thread_id, **_finding(one)}


REPORT_COLUMNS = plain_columns(
    *("thread_id", "checkpoint_ns", "checkpoint_id", "child", "step", "source"),
    *("channel", "verdict", "reason"),
)


def thread_rows(found: ReplayReport) -> dict[str, Any]:
    """Return one thread of `replay --all`: the answer of `--verify`, and its first finding."""
    record = report_record(found)
    first = [one for one in found.findings if one.verdict is Verdict.MISMATCH] or found.findings
    return record | {"first": None if not first else _said(first[0])}


THREAD_COLUMNS = [
    THREAD,
    Column("TRANSITIONS", "transitions", right=True),
    Column("MATCH", "match", right=True),
    Column("MISMATCH", "mismatch", right=True, style=lambda n: "error" if n else "plain"),
    Column("UNVERIFIABLE", "unverifiable", right=True),
    Column("FIRST FINDING", "first", cut=True, drop=1),
    Column("CHANNELS", "channels", table=False),
    Column("FINDINGS", "findings", table=False),
]


def report_lines(found: ReplayReport, refs: Mapping[str, str], width: int) -> Iterator[StyledLine]:
    """Yield the channels of one thread, what differs or cannot be verified, and the sum."""
    if found.channels:
        yield from table_lines(channel_rows(found), CHANNEL_COLUMNS, width)
    yield from _finding_lines(found, refs)
    if found.channels:
        yield line("")
    if found.assumed:
        yield line((f"{counted(found.assumed, 'value')} matched in an assumed order", "dim"))
    yield line(counted(found.transitions, "transition"), *_sum_spans(_counts(found.verdicts)))


def _sum_spans(counts: Mapping[str, int]) -> Iterator[Span]:
    before = ": "
    for name, n in counts.items():
        if n:
            yield (before, "plain")
            yield (f"{n} {name}", _STYLES[name])
            before = ", "


def channel_rows(found: ReplayReport) -> Iterator[dict[str, Any]]:
    """Yield the channels of one thread, each with its namespace, one row each."""
    for (graph, channel), one in found.channels.items():
        yield {
            "thread_id": found.thread_id,
            "namespace": graph,
            "channel": channel,
            **_channel(one),
        }


CHANNEL_COLUMNS = [
    Column("THREAD", "thread_id", table=False),
    Column("NAMESPACE", "namespace", drop=1),
    Column("CHANNEL", "channel", style="head"),
    Column("REDUCER", "reducer", empty="?"),
    Column("EVIDENCE", "evidence", right=True, drop=2),
    Column("MATCH", "match", right=True),
    Column("MISMATCH", "mismatch", right=True, style=lambda n: "error" if n else "plain"),
    Column("UNVERIFIABLE", "unverifiable", right=True),
    Column("CANDIDATES", "candidates", table=False),
]


def _finding_lines(found: ReplayReport, refs: Mapping[str, str]) -> Iterator[StyledLine]:
    for verdict in (Verdict.MISMATCH, Verdict.UNVERIFIABLE):
        mine = [one for one in found.findings if one.verdict is verdict]
        of_reason = Counter(one.reason for one in mine)
        shown: Counter[str] = Counter()
        if mine:
            yield line("")
        for one in mine:
            shown[one.reason] += 1
            if shown[one.reason] <= _SHOWN:
                child = refs.get(one.transition.child, one.transition.child)
                yield line(
                    (f"{verdict}  ", _STYLES[verdict]), (f"{safe_text(child)}  ", "id"), _said(one)
                )
        for reason, n in of_reason.items():
            if n > _SHOWN:
                yield line((f"{verdict}  ", _STYLES[verdict]), f"{n - _SHOWN} more: {reason}")


def _said(one: FailedCheck) -> str:
    transition = one.transition
    where = f" in {transition.checkpoint_ns}" if transition.checkpoint_ns else ""
    channel = f" {one.channel}" if one.channel else ""
    said = safe_text(f"step {step_number(transition.step)}{where}{channel}: {one.reason}")
    return _with_differences(said, one.differences)


def _with_differences(text: str, found: Differences | None) -> str:
    if found is None:
        return text
    from ckpt_cli.render.values.differences import difference_texts  # late: most values match

    return f"{text}: {', '.join(difference_texts(found))}"


def _differences(found: Differences | None) -> dict[str, Any]:
    if found is None:
        return {}
    from ckpt_cli.render.values.differences import difference_records  # late: most values match

    return {"differences": difference_records(found)}


def _transition(one: Transition) -> dict[str, Any]:
    return {
        "checkpoint_ns": one.checkpoint_ns,
        "checkpoint_id": one.parent,
        "child": one.child,
        "step": one.step,
        "source": one.source,
    }


def _finding(one: FailedCheck) -> dict[str, Any]:
    return {
        **_transition(one.transition),
        "channel": one.channel or None,
        "verdict": one.verdict.value,
        "reason": _with_differences(one.reason, one.differences),
        **_differences(one.differences),
    }


def _channel(one: ChannelReport) -> dict[str, Any]:
    return {**_reducer(one.judgement), **_counts(one.verdicts)}


def _reducer(judgement: Judgement) -> dict[str, Any]:
    return {
        "reducer": judgement.reducer,
        "evidence": judgement.evidence,
        "candidates": list(judgement.survivors),
        **({"told": True} if judgement.chosen else {}),
    }


def _counts(found: Mapping[Verdict, int]) -> dict[str, int]:
    return {verdict.value: found.get(verdict, 0) for verdict in Verdict}
