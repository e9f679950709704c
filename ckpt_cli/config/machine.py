"""What this machine tells of its user: the folders of the XDG specification, and the time zone."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo

from ckpt_backends.errors import UsageError


def user_folder(variable: str, otherwise: str) -> Path | None:
    """Return a folder of the XDG specification, which ignores a relative path; None if unknown."""
    for text in (os.environ.get(variable, ""), os.path.expanduser(otherwise)):
        if os.path.isabs(text):
            return Path(text)
    return None


def state_folder(name: str) -> Path:
    """Return a folder for what `ckpt` records about this user. Raises `UsageError`."""
    state = user_folder("XDG_STATE_HOME", "~/.local/state")
    if state is None:
        raise UsageError("cannot find your state folder", hint="export XDG_STATE_HOME=FOLDER")
    return state / "ckpt" / name


def history_file() -> Path:
    """Return the file of what was typed at the prompt of `ckpt sql`. Raises `UsageError`."""
    return state_folder("sql") / "history"


def old_history(path: Path) -> Path:
    """Return the name of the former history while an erasure writes it anew."""
    return path.with_name(".history.old")


_LOCAL = Path("/etc/localtime")


def zone_of_file(data: bytes) -> tzinfo:
    """Return the zone of a file of rules, which can be sent to another process.

    Raises `ValueError` if it is none.
    """

    class ZoneOfFile(ZoneInfo):
        def __reduce__(self) -> tuple[object, ...]:
            return zone_of_file, (data,)

    return ZoneOfFile.from_file(BytesIO(data))


def local_zone() -> tzinfo:
    """Return this machine's time zone with its daylight saving rules, not only today's offset.

    It can be sent to other processes.
    """
    name = os.environ.get("TZ", "").removeprefix(":")
    with suppress(OSError, ValueError, KeyError):
        if name:
            return ZoneInfo(name)
        return zone_of_file(_LOCAL.read_bytes())
    return datetime.now().astimezone().tzinfo or UTC


def zone_name(zone: tzinfo) -> str:
    """Return the name of a time zone in the tz database; `UTC` if it has none there."""
    name = getattr(zone, "key", None)
    if name is None and isinstance(zone, ZoneInfo):
        # That of this machine, which was read from a file.
        _, _, name = str(_LOCAL.resolve()).partition("/zoneinfo/")
    with suppress(OSError, ValueError, KeyError):
        if name:
            return ZoneInfo(name).key
    return "UTC"
