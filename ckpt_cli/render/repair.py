"""Print what a repair restores, as text, as a record and as rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ckpt_backends.codec import to_json
from ckpt_cli.core.replay.repair_plan import DamagedValue, Repair
from ckpt_cli.plans.undo import ValuesUndo
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import plain_columns
from ckpt_cli.render.terminal.units import size, step_number
from ckpt_cli.render.values.one_line import summary


def repair_record(found: Repair, *, dry_run: bool) -> dict[str, Any]:
    """Return the answer of `repair values` and `replay --repair` as JSON."""
    return {
        "thread_id": found.thread_id,
        "repaired": [
            {
                **asdict(one.place),
                "reducer": one.reducers[0] if one.reducers else None,
                "candidates": list(one.reducers),
                "evidence": one.evidence,
                "bytes": one.bytes,
                "replaces": one.replaces,
                "value": to_json(one.value),
            }
            for one in found.rebuilt
        ],
        "refused": [{**asdict(one.place), "reason": one.reason} for one in found.refused],
        "dry_run": dry_run,
    }


def repair_rows(found: Repair) -> Iterator[dict[str, Any]]:
    """Yield one row per value."""
    record = repair_record(found, dry_run=False)
    for one in record["repaired"]:
        yield {**one, "action": "put back"}
    for one in record["refused"]:
        yield {**one, "action": "refused"}


REPAIR_COLUMNS = plain_columns(
    *("action", "checkpoint_ns", "checkpoint_id", "step", "channel", "version"),
    *("reducer", "evidence", "bytes", "replaces", "value", "reason"),
)


def repair_lines(found: Repair, width: int) -> Iterator[StyledLine]:
    """Yield what a repair would do."""
    yield line(("thread   ", "dim"), (safe_text(found.thread_id), "head"))
    for one in found.rebuilt:
        yield line(("restore  ", "add"), *_named(one.place))
        what = "replaces an unreadable value" if one.replaces else "fills in a missing value"
        how = f"{one.reducers[0]}, evidence {one.evidence}" if one.reducers else "as in the parent"
        yield line(f"         {size(one.bytes)}, {what}; {how}")
        yield line(f"         {summary(one.value, max(width - 9, 20), quote=True)}")
    yield from refused_lines(found)


def refused_lines(found: Repair) -> Iterator[StyledLine]:
    """Yield the values that cannot be restored, with the reasons."""
    for refusal in found.refused:
        yield line(("refused  ", "error"), *_named(refusal.place))
        yield line(f"         {safe_text(refusal.reason)}")


def values_undo_record(found: ValuesUndo, *, dry_run: bool) -> dict[str, Any]:
    """Return the answer of `undo` of a repair that stored values again, as JSON."""
    return {
        "action": "undo",
        "thread_id": found.thread_id,
        "values": [
            {**asdict(one.place), "before": "missing" if one.before is None else "unreadable"}
            for one in found.values
        ],
        "dry_run": dry_run,
    }


VALUES_UNDO_COLUMNS = plain_columns(
    "checkpoint_ns", "checkpoint_id", "step", "channel", "version", "before"
)


def values_undo_lines(found: ValuesUndo) -> Iterator[StyledLine]:
    """Yield which restored values an undo takes back."""
    yield line(("thread   ", "dim"), (safe_text(found.thread_id), "head"))
    for one in found.values:
        yield line(("removes  ", "remove"), *_named(one.place))
        if one.before is not None:
            yield line("         the unreadable value is stored again")


def _named(place: DamagedValue) -> tuple[tuple[str, Any], ...]:
    ns = f" in {safe_text(place.checkpoint_ns)}" if place.checkpoint_ns else ""
    return (
        (safe_text(place.channel), "head"),
        (f" of step {step_number(place.step)}{ns}  ", "plain"),
        (safe_text(place.checkpoint_id), "id"),
    )
