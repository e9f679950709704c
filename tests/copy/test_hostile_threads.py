"""Hostile threads are copied as they are or skipped; nothing in them is run or breaks a line."""

from pathlib import Path

import pytest

from ckpt_backends.registry import open_store
from tests.kit.command import CommandResult, ckpt, first_now
from tests.kit.hostile.corpus import build_odd_store, build_store, hostile_rows
from tests.kit.hostile.watched import FORBIDDEN
from tests.kit.pairs import PYTHON, Places, creating

ENGINES = ("postgres", "mysql", "mongodb", "redis")

LACKING = {
    *("write: no type", "write: no value", "write: neither"),
    *("body: no type", "body: no body", "body: neither", "metadata: empty", "metadata: none"),
}
"""Rows without a type, a value or metadata, which become empty ones."""


def check(answer: CommandResult, marker: Path) -> None:
    answer.ends_cleanly(0, 4, 5, 7)
    for text in (answer.out, answer.err):
        assert FORBIDDEN.search(text) is None
    assert not marker.exists()


def copy(source: Path, target: str, marker: Path, *words: str) -> CommandResult:
    answer = ckpt("-s", source, "copy", "--all", "--to", target, "--yes", *words)
    check(answer, marker)
    return answer


@pytest.mark.parametrize("step", first_now([7, 1]))
def test_the_same_layout_takes_hostile_threads_as_they_are(step: int, tmp_path: Path) -> None:
    marker, source, target = tmp_path / "ran", tmp_path / "source.db", tmp_path / "target.db"
    threads = build_store(source, hostile_rows(marker)[::step])
    done = copy(source, str(target), marker, "--create", "-o", "json")
    assert done.code == 0
    with open_store(str(source)) as here, open_store(str(target)) as there:
        for thread_id in threads:
            if thread_id.removeprefix("hostile ") in LACKING:
                continue
            rows = [
                sorted(repr(sorted(row.cells.items())) for row in store.rows(thread_id))
                for store in (here, there)
            ]
            assert rows[0] == rows[1]
    assert ckpt("-s", source, "copy", "--all", "--to", target, "--yes").code == 0


@pytest.mark.parametrize("form", first_now(["table", "json", "tsv"]))
def test_rows_of_wrong_types_are_copied_or_skipped(tmp_path: Path, form: str) -> None:
    build_odd_store(tmp_path / "odd.db")
    target = tmp_path / "target.db"
    copy(tmp_path / "odd.db", str(target), tmp_path / "ran", "--create", "-o", form)
    copy(tmp_path / "odd.db", str(target), tmp_path / "ran", "--dry-run", "-o", form)


def _marks(name: str) -> list[pytest.MarkDecorator]:
    # Documents of Redis are JSON, of which hostile rows have 100 MB: 40 seconds.
    return [pytest.mark.engines, *([pytest.mark.nightly] if name == "redis" else [])]


@pytest.mark.in_ci("postgres")
@pytest.mark.parametrize(
    "name", ["langgraph-dev", *(pytest.param(one, marks=_marks(one)) for one in ENGINES)]
)
def test_other_layouts_take_what_they_can_hold(name: str, places: Places, tmp_path: Path) -> None:
    marker, source = tmp_path / "ran", tmp_path / "source.db"
    rows = hostile_rows(marker)
    # Every row goes to two of the engines.
    share = rows[::7] if name == "langgraph-dev" else rows[ENGINES.index(name) % 2 :: 2]
    build_store(source, share)
    with places(PYTHON[name]) as target:
        copy(source, target.url, marker, *creating(target), "-o", "table")
        copy(source, target.url, marker, "-o", "json")
