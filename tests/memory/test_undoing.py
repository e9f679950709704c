"""What removed, restored or copied items of long-term memory is taken back on each layout."""

from __future__ import annotations

from pathlib import Path

from tests.kit.command import ckpt
from tests.kit.memory.benches import Bench
from tests.kit.memory.contents import exported, fill


def run(bench: Bench, *words: str | Path) -> None:
    done = ckpt("-s", bench.url, *words, "--yes")
    assert done.code == 0, done.err


def test_removed_and_restored_items_are_taken_back(bench: Bench, tmp_path: Path) -> None:
    fill(bench)
    first, vectors, archive = exported(bench), bench.vectors(), tmp_path / "archive"
    run(bench, "memory", "delete", "--match", "*p*", "--archive", archive)
    left = exported(bench)
    assert left != first
    planned = ckpt("-s", bench.url, "undo", "--dry-run", "-o", "table").out
    assert f"{len(first) - len(left)} items" in planned.splitlines()[0]
    run(bench, "undo")
    assert (exported(bench), bench.vectors()) == (first, vectors)
    run(bench, "redo")
    assert exported(bench) == left
    (bundle,) = archive.iterdir()
    run(bench, "memory", "import", bundle)
    assert exported(bench) == first
    run(bench, "undo")
    assert exported(bench) == left


def test_items_that_were_used_since_stay(bench: Bench, tmp_path: Path) -> None:
    fill(bench, {(("n",), "k"): {"text": "x"}, (("n",), "m"): {"text": "y"}})
    run(bench, "memory", "delete", "k", "m", "--archive", tmp_path)
    (bundle,) = tmp_path.glob("memory-*")
    run(bench, "memory", "import", bundle)
    with bench.store() as store:
        store.put(("n",), "k", {"text": "used"})
    used = exported(bench)
    undone = ckpt("-s", bench.url, "undo", "--yes")
    assert undone.code == 6, undone.err
    assert "cannot undo: item 'n/k' was used since" in undone.err
    assert exported(bench) == used
