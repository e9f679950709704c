"""Print the findings of `ckpt doctor`, as a table and as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ckpt_cli.core.doctor.codes import Severity
from ckpt_cli.core.doctor.finding import Checked, Finding
from ckpt_cli.render.terminal.fields import command_field, field
from ckpt_cli.render.terminal.styled_text import Style, StyledLine, line
from ckpt_cli.render.terminal.table import Column, plain_columns
from ckpt_cli.render.values.one_line import counted

_SHOWN = 3
"""Number of codes in the label of the progress bar."""
_NAMED = 3
"""Maximum number of threads that have a line of their own for the same reason."""

_STYLES: Mapping[str, Style] = {
    Severity.ERROR: "error",
    Severity.WARNING: "change",
    Severity.INFO: "dim",
}


def finding_record(finding: Finding, store_words: Sequence[str]) -> dict[str, Any]:
    """Return a finding as JSON; `store_words` name the store in the commands for it."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "thread_id": finding.thread_id,
        "checkpoint_ns": finding.checkpoint_ns,
        "checkpoint_id": finding.checkpoint_id,
        "channel": finding.channel,
        "task_id": finding.task_id,
        "detail": finding.detail,
        "fix": finding.fix(store_words) or None,
        "look": finding.look(store_words) or None,
    }


def checked_record(checked: Checked) -> dict[str, int]:
    """Return how much was checked, as JSON."""
    return {
        "threads": checked.threads,
        "checkpoints": checked.checkpoints,
        "writes": checked.writes,
        "values": checked.values,
    }


def finding_row(finding: Finding, store_words: Sequence[str]) -> dict[str, Any]:
    """Return the same with what only a table shows."""
    where = finding.thread_id
    if where is not None and finding.checkpoint_id is not None:
        where = f"{where}@{finding.ref or finding.checkpoint_id}"
    name, command = _help(finding, store_words)
    return {
        **finding_record(finding, store_words),
        "where": where,
        "help": f"{name}: {command}" if command else None,
    }


def finding_columns() -> list[Column]:
    """Return the columns of the table and of TSV."""
    return [
        Column("SEVERITY", "severity", style=lambda one: _STYLES.get(str(one), "plain"), drop=3),
        Column("CODE", "code"),
        Column("THREAD@REF", "where", style="id"),
        Column("NAMESPACE", "checkpoint_ns", drop=2),
        Column("CHANNEL", "channel", drop=1),
        Column("WHAT", "detail", cut=True, least=30),
        Column("FIX OR SEE", "help"),
    ]


def finding_lines(finding: Finding, store_words: Sequence[str], width: int) -> Iterator[StyledLine]:
    """Yield one finding with its place, what it means and what helps."""
    yield line((finding.severity.value, _STYLES[finding.severity]), " ", (finding.code, "bold"))
    place = {
        "at": finding.ref or finding.checkpoint_id,
        "in": finding.checkpoint_ns,
        "channel": finding.channel,
        "task": finding.task_id,
        "what": finding.detail,
    }
    for name, text in place.items():
        if text:
            yield from field(name, text, width)
    name, command = _help(finding, store_words)
    if command:
        yield command_field(name, command)


RECORD_COLUMNS = plain_columns(
    "severity",
    "code",
    "thread_id",
    "checkpoint_ns",
    "checkpoint_id",
    "channel",
    "task_id",
    "detail",
    "fix",
    "look",
)


def summary_text(severities: Counter[Severity], checked: Checked, unchecked: int) -> str:
    """Return one line about all findings and about what was checked.

    `unchecked` is the number of threads that could not be checked completely.
    """
    about = ", ".join(
        counted(number, name)
        for number, name in (
            (checked.threads, "thread"),
            (checked.checkpoints, "checkpoint"),
            (checked.writes, "write"),
            (checked.values, "value"),
        )
        if number or name == "thread"
    )
    parts = [_counted(severities[one], one) for one in Severity if severities[one]]
    found = " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]])) or "no findings"
    text = f"checked {about}: {found}"
    if unchecked:
        text += f"; {counted(unchecked, 'thread')} could not be checked completely"
    return text


def unchecked_notes(unchecked: Mapping[str, str]) -> Iterator[str]:
    """Yield why threads could not be checked: one line for all with the same reason.

    `unchecked` has the reasons by thread; the key `''` stands for the store.
    """
    threads: dict[str, list[str]] = {}
    for thread_id, reason in unchecked.items():
        threads.setdefault(reason, []).append(thread_id)
    for reason, ids in threads.items():
        named = [f"thread '{one}'" for one in ids if one]
        if len(named) > _NAMED:
            named = [f"{len(named)} threads, such as {named[0].removeprefix('thread ')}"]
        whole = ["the whole store"] if "" in ids else []
        for what in [*whole, *named]:
            yield f"cannot check {what}: {reason}"


def progress_text(codes: Counter[str]) -> str:
    """Return the label of the progress bar: how often each code was found so far."""
    listed = [f"{number} {code}" for code, number in codes.most_common(_SHOWN)]
    if len(codes) > _SHOWN:
        listed.append(f"{codes.total() - sum(n for _, n in codes.most_common(_SHOWN))} others")
    return f"checking threads: {', '.join(listed)}" if listed else "checking threads"


def _help(finding: Finding, store_words: Sequence[str]) -> tuple[str, str]:
    """Return `fix` with what mends a finding, or else `see` with what shows more, or `''`."""
    if fix := finding.fix(store_words):
        return "fix", fix
    return "see", finding.look(store_words)


def _counted(number: int, severity: Severity) -> str:
    return f"{number} {severity}" if severity is Severity.INFO else counted(number, severity)
