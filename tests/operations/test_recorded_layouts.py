"""On each layout, what copies and removals record gives the rows of before back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.transfer.copying import refusal
from ckpt_backends.transfer.form import Language
from tests.kit.command import ckpt
from tests.kit.harness.tiers import FAST
from tests.kit.opening import empty_store
from tests.kit.pairs import PYTHON

CHAT, DIGEST = "support-live-chat", "weekly-digest"


def layouts() -> Iterator[Any]:
    """Yield the layouts to which SQLite can be copied; commands on SQLite have their own tests.

    kagent's cannot hold these threads, in which tasks ran at the same time.
    """
    for kind in PYTHON.values():
        name = kind.name
        if name not in {"sqlite", "kagent"} and not refusal("sqlite", name, Language.PYTHON):
            is_quick = name in FAST - {"dynamodb"}
            mark = pytest.mark.engines if is_quick else pytest.mark.slow
            yield pytest.param(kind, id=name, marks=mark)


def rows(url: str) -> list[str]:
    with open_store(url) as store:
        found = [row for name in (CHAT, DIGEST) for row in store.rows(name)]
    return sorted(repr((row.table, sorted(row.cells.items()))) for row in found)


def run(*words: str | Path) -> None:
    done = ckpt(*words, "--yes")
    assert done.code == 0, done.err


def undo(url: str) -> None:
    (one,) = ckpt("-s", url, "ops", "list", "-o", "json", "--limit", "1").json
    assert one["undoable"], one["why_not"]
    run("-s", url, "undo", one["op"])


@pytest.mark.parametrize("kind", list(layouts()))
def test_the_rows_of_before_come_back(
    request: pytest.FixtureRequest, kind: type[Harness], sample: Path, tmp_path: Path
) -> None:
    copy = ("-s", sample, "copy", CHAT, DIGEST, "--to")
    with empty_store(kind, request, tmp_path) as harness:
        url = harness.url
        drive(harness.kept_saver, SCENARIOS["chat"])  # it makes the tables
        run(*copy, url)
        first = rows(url)
        assert first
        undo(url)
        assert rows(url) == []
        run(*copy, url)
        for number, removal in enumerate(
            (["threads", "delete", CHAT, DIGEST], ["purge", "--match", CHAT, "--keep-last", "1"])
        ):
            run("-s", url, *removal, "--archive", tmp_path / str(number))
            assert rows(url) != first
            undo(url)
            assert rows(url) == first
        run("-s", sample, "rollback", CHAT, "--steps", "2")
        run(*copy, url)
        assert rows(url) != first
        undo(url)
        assert rows(url) == first
