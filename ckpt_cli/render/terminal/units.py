"""Format sizes and times, for people and for JSON."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache

from ckpt_backends.checkpoint_ids import TICKS_TO_1970, ticks_of

_AGES = ((365 * 86400, "y"), (30 * 86400, "mo"), (7 * 86400, "w"), (86400, "d"), (3600, "h"))


def size(n: int) -> str:
    """Return bytes in IEC units: `512 B`, `1.2 KiB`, `34 MiB`."""
    if n < 1024:
        return f"{n} B"
    value, units = n / 1024, ["TiB", "GiB", "MiB", "KiB"]
    # A number that rounds up to 1024 is shown in the next unit.
    while value >= 1023.5 and len(units) > 1:
        value /= 1024
        units.pop()
    unit = units[-1]
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def when(moment: datetime, now: datetime, zone: tzinfo) -> str:
    """Return a time in a zone, with the year if it is not the current one."""
    moment, now = moment.astimezone(zone), now.astimezone(zone)
    year = "" if moment.year == now.year else f" {moment.year}"
    return f"{moment:%b} {moment.day:2}{year} {moment:%H:%M:%S}"


def age(moment: datetime, now: datetime) -> str:
    """Return the time since a moment in one unit, rounded down: `45s`, `3h`; `in 5m` if it is
    future.
    """
    seconds = int((now - moment).total_seconds())
    if seconds < 0:
        return f"in {_span(-seconds)}"
    return _span(seconds)


def ago(now: datetime) -> Callable[[str], str]:
    """Return a function that shows the time of a record as `3h ago`."""
    return lambda text: f"{age(datetime.fromisoformat(text), now)} ago"


def left(now: datetime) -> Callable[[str], str]:
    """Return a function that shows the time of a record as `in 3h`."""
    return lambda text: age(datetime.fromisoformat(text), now)


def duration(seconds: float) -> str:
    """Return a duration in one or two units: `85ms`, `1.2s`, `38s`, `3m 05s`, `4d 03h`."""
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f}ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02}h"


def thousands(n: int) -> str:
    """Return a number in at most four characters: `842`, `1.2k`, `34k`, `5.6M`."""
    value, units = float(n), ["", "k", "M", "G"]
    # A number that rounds up to 1000 is shown in the next unit.
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.1f}{units[0]}" if units[0] and value < 9.95 else f"{value:.0f}{units[0]}"


def step_number(step: int | None) -> str:
    """Return the step of a checkpoint; `?` if its layout stores none."""
    return "?" if step is None else str(step)


def step_words(step: int | None, source: str | None) -> str:
    """Return step and source, such as `3 loop`; one `?` if neither is stored."""
    if step is None and source is None:
        return "?"
    return f"{step_number(step)} {source or '?'}"


def iso(moment: datetime) -> str:
    """Return a time in UTC as ISO 8601 with microseconds, for JSON."""
    if moment.tzinfo is not UTC:  # times from ids are in UTC already
        moment = moment.astimezone(UTC)
    # `isoformat` of a time with a zone takes twice as long.
    return "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ" % (  # noqa: UP031
        *(moment.year, moment.month, moment.day),
        *(moment.hour, moment.minute, moment.second, moment.microsecond),
    )


def optional_iso(moment: datetime | None) -> str | None:
    """Return the same; None for an unknown time."""
    return None if moment is None else iso(moment)


def iso_of(checkpoint_id: str) -> str | None:
    """Return the time in a checkpoint's id in the same form, or None if it contains none.

    Each row of a list has two times: without a `datetime`, they take half the time.
    """
    ticks = ticks_of(checkpoint_id)
    if ticks is None:
        return None
    minutes, ticks = divmod(ticks - TICKS_TO_1970, 600_000_000)
    days, minutes = divmod(minutes, 24 * 60)
    digits = str(1_000_000_000 + ticks)  # after the first, two of seconds and seven of a fraction
    return f"{_day(days)}T{_minute(minutes)}:{digits[1:3]}.{digits[3:9]}Z"


@lru_cache(1000)
def _day(days: int) -> str:
    """Return a day by its number since 1970, as ISO 8601."""
    return (date(1970, 1, 1) + timedelta(days)).isoformat()


@lru_cache(24 * 60)
def _minute(minutes: int) -> str:
    """Return a minute of a day, such as `09:05`."""
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _span(seconds: int) -> str:
    for length, unit in (*_AGES, (60, "m")):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
