"""Parse times: `2h`, `1w2d`, `yesterday`, `last friday 14:00`, `2026-04-07T10:00`, `2026-W15`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from ckpt_backends.errors import UsageError

NEVER = datetime.min.replace(tzinfo=UTC)
"""Sorts before all times, for what has none."""
_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "mo": timedelta(days=30),
    "y": timedelta(days=365),
}
_DURATION = r"(?a)(?:\d{1,4}d|\d{1,9}(?:mo|[smhwy]))+"
"""At most 4 digits for days, because the end of a checkpoint id may look like a number of days."""
_PART = r"(?a)(\d+)(mo|[smhdwy])"
_DATE = r"(?as)\d{4}-(?:\d{2}-\d{2}|W\d{2}(?:-\d)?)(?:[T ].*)?"
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY = rf"(?a)(today|yesterday|(?:last )?(?:{'|'.join(_DAYS)}))(?: (\d{{1,2}}):(\d{{2}}))?"


def looks_like_time(text: str) -> bool:
    """Return whether a text is meant as a time, valid or not."""
    return text == "now" or any(re.fullmatch(form, text) for form in (_DURATION, _DATE, _DAY))


def parse_time(text: str, now: datetime, zone: tzinfo) -> datetime:
    """Parse a time: an age such as `2h`, a day, or ISO 8601 (in `zone` if it names no time zone).

    A day or a week means its beginning. A weekday is the last one that has begun, with a time of
    day the last one when it was so late; after `last`, it is not today. A month has 30 days and a
    year 365. Raises `UsageError` for any other text.
    """
    if re.fullmatch(_DURATION, text):
        return ago(text, now)
    if text == "now":
        return now
    if (day := re.fullmatch(_DAY, text)) is not None:
        return _on_day(day, now.astimezone(zone).replace(tzinfo=None), zone)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _not_a_time(text) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)


def _on_day(day: re.Match[str], now: datetime, zone: tzinfo) -> datetime:
    """Return a time on the last such day; `now` is the local time. Raises `UsageError`."""
    word, hour, minute = day.group(1), int(day.group(2) or 0), int(day.group(3) or 0)
    try:
        moment = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    except ValueError:
        raise _not_a_time(day.group()) from None
    name = word.removeprefix("last ")
    back = int(name == "yesterday")
    if name in _DAYS:
        back = (now.weekday() - _DAYS.index(name)) % 7
        if back == 0 and (name != word or moment > now):
            back = 7
    return (moment - timedelta(days=back)).replace(tzinfo=zone)


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as `90m` or `1d12h`. Raises `UsageError` for any other text."""
    if re.fullmatch(_DURATION, text) is None:
        raise UsageError(f"'{text}' is not a duration", hint="use 30s, 90m, 2h or 7d")
    try:
        return sum((_UNITS[unit] * int(n) for n, unit in re.findall(_PART, text)), timedelta())
    except OverflowError:
        raise UsageError(f"'{text}' is too long", hint="use 30s, 90m or 7d") from None


def ago(text: str, now: datetime) -> datetime:
    """Return the time this duration before `now`. Raises `UsageError`."""
    try:
        return now - parse_duration(text)
    except OverflowError:
        raise _not_a_time(text) from None


def _not_a_time(text: str) -> UsageError:
    hint = "use 2h, 7d, yesterday, friday 14:00, 2026-04-07 or 2026-04-07T10:00"
    return UsageError(f"'{text}' is not a time", hint=hint)
