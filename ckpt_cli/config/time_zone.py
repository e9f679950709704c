"""The time zone of this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path


def local_zone() -> tzinfo:
    """Return this machine's time zone with its daylight saving rules, not only today's offset."""
    from zoneinfo import ZoneInfo

    name = os.environ.get("TZ", "").removeprefix(":")
    with suppress(OSError, ValueError):
        if name:
            return ZoneInfo(name)
        with Path("/etc/localtime").open("rb") as file:
            return ZoneInfo.from_file(file)
    return datetime.now().astimezone().tzinfo or UTC
