"""`erase --value` on each layout: the secret is in no row, and the official graph goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.harness import Harness
from tests.erase.value_canary import (
    OTHER,
    SECRET,
    THREAD,
    TWIN,
    ask,
    erase,
    history,
    places_of,
    replaced,
    resumed,
    skeleton,
)
from tests.harness import HARNESSES
from tests.harness.opening import empty_store
from tests.support import ckpt


def _layouts() -> list[Any]:
    return [
        pytest.param(kind, id=kind.name, marks=pytest.mark.engines)
        for kind in HARNESSES
        if kind.name != "sqlite" and not kind.read_only and kind.recording is None
    ]


@pytest.mark.parametrize("kind", _layouts())
def test_a_secret_is_in_no_row_and_the_graph_goes_on(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        for thread, secret in ((THREAD, SECRET), (OTHER, SECRET), (TWIN, "[erased]")):
            ask(harness, thread, secret)
        rows = harness.rows(OTHER)
        before, ids = history(harness, THREAD), skeleton(harness.url, THREAD)
        assert places_of(harness.url, THREAD)
        assert before[0][1]["card"]
        done = erase(harness.url, f"{THREAD}:card.password")
        assert done["places"]
        assert places_of(harness.url, THREAD) == []
        assert skeleton(harness.url, THREAD) == ids
        assert harness.rows(OTHER) == rows
        assert ckpt("-s", harness.url, "doctor", "--deep", THREAD).code == 0
        if not harness.values_only:  # else the library has its own copy
            assert history(harness, THREAD) == replaced(before)
            if harness.has_writes:
                assert resumed(harness, THREAD) == resumed(harness, TWIN)
