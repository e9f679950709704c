"""The time zone of this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo


class ZoneOfFile(ZoneInfo):
    """A time zone that can be sent to another process, with its rules."""

    data: bytes
    """A file of time zone rules."""

    def __reduce__(self) -> tuple[object, ...]:
        return zone_of_file, (self.data,)


def zone_of_file(data: bytes) -> ZoneOfFile:
    """Return the zone of a file. Raises `ValueError` if it is none."""
    zone = ZoneOfFile.from_file(BytesIO(data))
    zone.data = data
    return zone


_LOCAL = Path("/etc/localtime")


def local_zone() -> tzinfo:
    """Return this machine's time zone with its daylight saving rules, not only today's offset.

    It can be sent to other processes.
    """
    from zoneinfo import ZoneInfo

    name = os.environ.get("TZ", "").removeprefix(":")
    with suppress(OSError, ValueError):
        if name:
            return ZoneInfo(name)
        return zone_of_file(_LOCAL.read_bytes())
    return datetime.now().astimezone().tzinfo or UTC


def zone_name(zone: tzinfo) -> str:
    """Return the name of a time zone in the tz database; `UTC` if it has none there."""
    from zoneinfo import ZoneInfo

    name = getattr(zone, "key", None)
    if name is None and isinstance(zone, ZoneInfo):
        # That of this machine, which was read from a file.
        _, _, name = str(_LOCAL.resolve()).partition("/zoneinfo/")
    with suppress(OSError, ValueError):
        if name:
            return ZoneInfo(name).key
    return "UTC"
