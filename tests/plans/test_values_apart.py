"""Saved plans of values that an engine stores apart from checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_backends.changes import Change
from ckpt_backends.model import BlobKey
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.url import parse_url
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.command import ckpt
from tests.kit.planting.steps import THREAD, talk
from tests.repair.test_engines import place

__all__ = ["place"]  # a fixture

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("words", [["repair", "values"], ["replay", "--repair"]], ids=" ".join)
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_value_is_stored_again_and_taken_back_by_plans(
    place: Harness, tmp_path: Path, words: list[str]
) -> None:
    plan = tmp_path / "plan.ndjson"
    talk(place.kept_saver, turns=2)
    whole = place.rows(THREAD)
    with open_store(place.url) as store:
        reader = ThreadReader(store, THREAD)
        heads = {"": reader.head("") or ""}
        version = str(reader.stored("", heads[""]).body.versions["log"])
    with open_writable(parse_url(place.url)) as writable:
        writable.apply(Change(THREAD, heads, removed_blobs=(BlobKey("", "log", version),)))
    damaged = place.rows(THREAD)
    for command, rows in ((words, whole), (["undo"], damaged)):
        before = place.rows(THREAD)
        saved = ckpt("-s", place.url, *command, THREAD, "--plan-out", plan)
        assert (saved.code, place.rows(THREAD)) == (0, before), saved.err
        done = ckpt("-s", place.url, "apply", plan, "--yes")
        assert (done.code, place.rows(THREAD)) == (0, rows), done.err
        again = ckpt("-s", place.url, "apply", plan, "--yes")
        assert (again.code, place.rows(THREAD)) == (6, rows), again.err
