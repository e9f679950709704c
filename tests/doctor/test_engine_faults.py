"""Each fault of an engine is found in a store that the official saver filled, and nothing else; the
statement of the finding mends it."""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import Any

import pytest

from ckpt_backends.sql import health
from tests.doctor.engine_faults import ENGINE_FAULTS, LARGE
from tests.doctor.running_fixes import run_fix
from tests.kit.command import ckpt
from tests.kit.harness import HARNESSES
from tests.kit.opening import empty_store
from tests.kit.planting.filling import fill

KINDS = {kind.name: kind for kind in HARNESSES}
CHAT = "chat"
_TRIES = 100
MARKS: dict[str, Any] = {
    "sqlite": (),
    **{name: pytest.mark.slow for name in KINDS if name.endswith("-shallow")},
}
"""The tiers of layouts, if not `engines`: a shallow layout has the health of the other one of its
engine."""


@pytest.mark.parametrize(
    ("layout", "code"),
    [
        pytest.param(layout, code, marks=MARKS.get(layout, pytest.mark.engines))
        for layout, code in ENGINE_FAULTS
    ],
)
def test_a_fault_of_an_engine_is_found(
    layout: str,
    code: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with empty_store(KINDS[layout], request, tmp_path) as harness:
        fill(harness, frozenset({CHAT}))
        assert ckpt("-s", harness.url, "doctor", "-o", "json").json["findings"] == []
        monkeypatch.setattr(health, "LARGE", LARGE)
        with ENGINE_FAULTS[layout, code](harness) as words:
            found, others = _faults(words, code, some=True)
            for fix in dict.fromkeys(one["fix"] for one in found if one["fix"]):
                run_fix(harness, fix)
            # A private copy of a file that was left has nothing to mend any more.
            again, _ = _faults([one for one in words if one != "--copy"], code, some=False)
    assert {one["thread_id"] for one in found} == {CHAT if code == "index-stale" else None}
    # Values that the saver does not find.
    assert others <= ({"value-missing"} if code == "index-stale" else set())
    # A damaged file stays; what it holds is saved in another one.
    assert bool(again) == (code == "file-damaged")


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
