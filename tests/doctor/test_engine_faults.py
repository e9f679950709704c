"""Each fault of an engine is found in a store that the official saver filled, and nothing else; the
statement of the finding mends it."""

import sqlite3
from pathlib import Path
from time import sleep
from typing import Any

import psycopg
import pymysql
import pytest

from ckpt_backends.sql import health
from ckpt_backends.testing.harness import Harness
from tests.doctor.engine_faults import CHAT, ENGINE_FAULTS, LARGE, EngineFault
from tests.doctor.running_fixes import run_fix
from tests.kit.command import ckpt
from tests.kit.harness import HARNESSES
from tests.kit.opening import empty_store
from tests.kit.planting.planters import fill

KINDS = {kind.name: kind for kind in HARNESSES}
WITHOUT_SCHEMA = {"mongodb", "mongodb-js", "kaflow"}
MARKS: dict[str, Any] = {"sqlite": (), "supabase": pytest.mark.nightly}
"""The tables of Supabase are PostgreSQL's."""
_TRIES = 100


@pytest.mark.parametrize(
    ("layout", "fault"),
    [
        pytest.param(
            layout,
            fault,
            id=f"{layout}: {fault.code}, {fault.says}",
            marks=MARKS.get(layout, pytest.mark.engines),
        )
        for fault in ENGINE_FAULTS
        for layout in fault.layouts
    ],
)
def test_a_fault_of_an_engine_is_found_and_mended(
    layout: str,
    fault: EngineFault,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with empty_store(KINDS[layout], request, tmp_path) as harness:
        fill(harness, frozenset({CHAT}))
        assert ckpt("-s", harness.url, "doctor", "-o", "json").json["findings"] == []
        monkeypatch.setattr(health, "LARGE", LARGE)
        with fault.plant(harness) as words:
            found, others = _faults(words, fault.code, some=True)
            for fix in dict.fromkeys(one["fix"] for one in found if one["fix"]):
                run_fix(harness, fix)
            # A private copy of a file that was left has nothing to mend any more.
            again, _ = _faults(
                [one for one in words if one != "--copy"], fault.code, some=fault.stays
            )
        assert {one["thread_id"] for one in found} == {fault.thread}
        assert all(fault.says in one["detail"] for one in found), found
        assert others <= fault.follows
        assert bool(again) == fault.stays
        if fault.code in {"index-missing", "schema-old"} and layout not in WITHOUT_SCHEMA:
            with fault.plant(harness):
                # What keeps the saver from saving is an error.
                severity = "warning" if _can_save(harness) else "error"
            assert {one["severity"] for one in found} == {severity}


def _faults(words: list[str], code: str, *, some: bool) -> tuple[list[Any], set[str]]:
    """Return the findings of a code and the other codes, once there are `some` or none.

    Some servers report free space after a moment.
    """
    for _ in range(_TRIES):
        every = ckpt(*words, "doctor", "-o", "json").json["findings"]
        found = [one for one in every if one["code"] == code]
        if bool(found) == some:
            break
        sleep(0.1)
    return found, {one["code"] for one in every} - {code}


def _can_save(harness: Harness) -> bool:
    try:
        fill(harness, frozenset({"linear"}))
    except (psycopg.Error, pymysql.Error, sqlite3.Error):
        return False
    return True
