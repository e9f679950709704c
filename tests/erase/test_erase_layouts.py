"""`ckpt erase` removes a thread from every layout, and leaves its neighbour as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.url import parse_url
from tests.erase.canary import OTHER, THREAD, fill
from tests.kit.command import ckpt
from tests.kit.harness import HARNESSES
from tests.kit.opening import empty_store

pytestmark = pytest.mark.slow


@pytest.fixture(params=[one for one in HARNESSES if not one.read_only], ids=lambda one: one.name)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    with empty_store(request.param, request, tmp_path) as made:
        yield made


def test_a_thread_is_erased(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    rows = fill(harness)
    assert rows
    found = ckpt("-s", harness.url, "erase", THREAD, "--yes", "--rewrite", "-o", "json")
    assert found.code == 0
    with open_store(parse_url(harness.url)) as store:
        assert {one.thread_id for one in store.threads()} == {OTHER}
        assert not store.threads_with_rows([THREAD])
    assert harness.rows(OTHER) == rows
