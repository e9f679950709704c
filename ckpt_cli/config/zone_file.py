"""A time zone that is known by its rules only: /etc/localtime has no name."""

from __future__ import annotations

from io import BytesIO
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
