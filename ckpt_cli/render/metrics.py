"""Print the metrics of a store, as OpenMetrics text and as a record.

All are gauges: with that the text is also what Prometheus's older text format allows, which the
textfile collector of node_exporter reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ckpt_backends.model import Status
from ckpt_cli.queries.metrics import StoreMetrics
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.units import optional_iso

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Gauge:
    """One metric; its name ends with its unit, if it has one."""

    name: str
    help: str
    value: float | Mapping[str, int] | None
    """A number, or one for each value of the label `status`; None leaves the metric out."""
    unit: str | None = None


def metrics_record(found: StoreMetrics) -> dict[str, Any]:
    """Return the metrics as JSON."""
    return {
        "store": found.url,
        "layout": found.layout,
        "threads": found.threads,
        "statuses": None if found.statuses is None else _by_status(found.statuses),
        "checkpoints": found.checkpoints,
        "bytes": found.bytes,
        "newest_at": optional_iso(found.newest_at),
        "open_questions": found.questions,
        "oldest_question_at": optional_iso(found.oldest_question_at),
        "failed_tasks": found.failed,
        "seconds": round(found.seconds, 3),
    }


def metrics_text(found: StoreMetrics | None, store: str, now: datetime) -> str:
    """Return the metrics as OpenMetrics text; None is a store that could not be read."""
    up = Gauge("ckpt_up", "Whether the store could be read: 1 or 0.", int(found is not None))
    gauges = [up] if found is None else [up, *_gauges(found, now)]
    lines = [line for one in gauges for line in _lines(one, safe_text(store))]
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def _gauges(found: StoreMetrics, now: datetime) -> Iterator[Gauge]:
    yield Gauge("ckpt_threads", "Threads in the store.", found.threads)
    by_status = None if found.statuses is None else _by_status(found.statuses)
    yield Gauge("ckpt_threads_by_status", "Threads by the status of their head.", by_status)
    yield Gauge("ckpt_checkpoints", "Checkpoints in the store.", found.checkpoints)
    yield Gauge("ckpt_store_size_bytes", "What the store uses on disk.", found.bytes, unit="bytes")
    yield Gauge(
        "ckpt_newest_checkpoint_timestamp_seconds",
        "When the newest checkpoint was saved, in Unix time.",
        None if found.newest_at is None else found.newest_at.timestamp(),
        unit="seconds",
    )
    yield Gauge("ckpt_open_questions", "Questions that wait for a person.", found.questions)
    asked = found.oldest_question_at
    yield Gauge(
        "ckpt_oldest_question_age_seconds",
        "How long the oldest of these questions waits. Absent if there is none.",
        None if asked is None else max((now - asked).total_seconds(), 0.0),
        unit="seconds",
    )
    yield Gauge("ckpt_failed_tasks", "Failed tasks that wait for a retry.", found.failed)
    yield Gauge(
        "ckpt_scrape_duration_seconds",
        "How long it took to read these numbers.",
        found.seconds,
        unit="seconds",
    )


def _by_status(counts: Mapping[Status, int]) -> dict[str, int]:
    """Return the number for each status, 0 too, so that no time series ends when it is reached."""
    return {status.value: counts.get(status, 0) for status in Status}


def _lines(gauge: Gauge, store: str) -> Iterator[str]:
    if gauge.value is None:
        return
    yield f"# HELP {gauge.name} {gauge.help}"
    yield f"# TYPE {gauge.name} gauge"
    if gauge.unit is not None:
        yield f"# UNIT {gauge.name} {gauge.unit}"
    label = f'store="{store.translate(_ESCAPES)}"'
    if isinstance(gauge.value, Mapping):
        for status, number in gauge.value.items():
            yield f'{gauge.name}{{{label},status="{status}"}} {number}'
    else:
        yield f"{gauge.name}{{{label}}} {_number(gauge.value)}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}"
