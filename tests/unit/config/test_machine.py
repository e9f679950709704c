"""The time zone of this machine, however it is told."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from ckpt_cli.config.machine import local_zone, zone_name
from tests.kit.cases import cases

SUMMER = datetime(2026, 7, 1, 12, tzinfo=UTC)


@cases(
    "told offset name",
    ("Europe/Berlin", 2, "Europe/Berlin"),
    # A rule, and a word that names no zone: the C library reads them.
    ("XYZ-3", 3, "UTC"),
    ("Nowhere", 0, "UTC"),
)
def test_a_zone_is_told_by_its_name_by_a_rule_or_not_at_all(
    told: str, offset: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", told)
    time.tzset()
    try:
        zone = local_zone()
        assert SUMMER.astimezone(zone).utcoffset() == timedelta(hours=offset)
        assert zone_name(zone) == name
    finally:
        monkeypatch.undo()
        time.tzset()
