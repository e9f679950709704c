"""The time zone of this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path


def local_zone() -> tzinfo:
    """Return this machine's time zone with its daylight saving rules, not only today's offset.

    It can be sent to other processes.
    """
    from zoneinfo import ZoneInfo

    from ckpt_cli.config.zone_file import zone_of_file

    name = os.environ.get("TZ", "").removeprefix(":")
    with suppress(OSError, ValueError):
        if name:
            return ZoneInfo(name)
        return zone_of_file(Path("/etc/localtime").read_bytes())
    return datetime.now().astimezone().tzinfo or UTC
