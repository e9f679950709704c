"""Removing, archiving and bringing back, on every store: the official saver is the judge."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ckpt_backends.archive import check_bundle, write_bundle
from ckpt_backends.changes import Removal
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Cell, Row
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.library import EmptyStore
from ckpt_backends.url import parse_url

NEIGHBOURS = [
    *("us*r", "us.r", "u[s]er", "user%", "user", "User", "user-1", "user:1", "user$1", "user,1"),
    *("user}:1", "user#1"),
]
"""Thread ids that a careless pattern would take for one another, which comes later."""
VALUES_ONLY = False
"""What is recorded in three tables is read back from memory by its saver: test_threetable.py
removes from them."""


@pytest.fixture
def emptied(empty_store: EmptyStore) -> Iterator[EmptyStore]:
    """The store, without threads before and after the test."""
    with quiet():
        yield empty_store
    empty_store.clear()


def test_delete_takes_a_thread_and_no_neighbour(emptied: EmptyStore) -> None:
    """The rows of each are compared just before it goes, so that no deletion of another thread has
    changed one.
    """
    neighbours = [one for one in NEIGHBOURS if emptied.harness.accepts_thread_id(one)]
    emptied.fill(*neighbours, "stays")
    rows = rows_of(emptied, [*neighbours, "stays"])
    for number, name in enumerate(neighbours, 1):
        assert rows_of(emptied, [name]) == {name: rows[name]}
        check_deletion(emptied, name, {*neighbours[number:], "stays"})
    for name in {*NEIGHBOURS} - {*neighbours}:
        assert emptied.ckpt("threads", "delete", name, "--yes").code == 3
    assert rows_of(emptied, ["stays"]) == {"stays": rows["stays"]}


def rows_of(store: EmptyStore, threads: Sequence[str]) -> dict[str, list[str]]:
    """Return the rows of threads, by their ids. Nothing of another thread is read with them."""
    with open_store(store.url) as opened:
        for one in threads:
            read = {each.key.thread_id for each in opened.checkpoints(one)}
            assert read | {each.key.thread_id for each in opened.writes(one)} == {one}
        return {one: sorted(map(repr, opened.rows(one))) for one in threads}


def check_deletion(emptied: EmptyStore, name: str, others: set[str]) -> None:
    """Delete a thread. Check what is told, and that it is gone and the others are listed."""
    receipt = emptied.ckpt("threads", "delete", name, "--yes", "-o", "json").json
    assert receipt["removed"]["threads"] == 1
    assert receipt["before"]["checkpoints"] > 0
    removed = receipt["removed"]["rows"]
    kinds = emptied.harness.row_kinds
    apart = sum(number for table, number in removed.items() if kinds[table] == "value")
    assert receipt["before"]["blobs"] == apart
    assert receipt["threads"][0]["blobs"] == receipt["before"]["blobs"]
    assert receipt["after"] == {"checkpoints": 0, "writes": 0, "blobs": 0, "bytes": 0}
    assert (emptied.read(name), emptied.rows(name)) == ([], [])
    listed = emptied.ckpt("threads", "list", "--all", "-o", "json").json
    assert {row["thread_id"] for row in listed} == others


def test_an_erasure_tells_what_was_done_and_what_remains(emptied: EmptyStore) -> None:
    emptied.fill("erased-thread", "neighbour")
    rows, url = rows_of(emptied, ["neighbour"]), parse_url(emptied.url)
    with open_store(url) as store:
        thread = store.thread("erased-thread")
        assert thread is not None
        writes = store.size("erased-thread").writes
    removal = Removal("erased-thread", thread.last_at, thread.checkpoints, writes)
    steps: list[str] = []
    with open_writable(url) as writable:
        writable.begin_erasure()
        assert not writable.remove([removal])[0].skipped
        remains = writable.erase_remains(progress=steps.append)
    assert rows_of(emptied, ["neighbour"]) == rows
    assert emptied.rows("erased-thread") == []
    # Every engine has a place that no program can reach, such as backups.
    assert any(not one.is_reachable for one in remains.places)
    texts = [*steps, *remains.done, *(f"{one.place}: {one.reason}" for one in remains.places)]
    assert all(texts)
    assert not any("erased-thread" in one for one in texts)


def test_an_archived_thread_comes_back_row_for_row(emptied: EmptyStore, tmp_path: Path) -> None:
    emptied.fill("back", "stays")
    emptied.fill("asking", asks=True)
    names = ("back", "asking")
    before = {name: (emptied.rows(name), emptied.read(name)) for name in names}
    assert emptied.ckpt("threads", "delete", *names, "--archive", str(tmp_path), "--yes").code == 0
    assert emptied.rows("back") == emptied.read("asking") == []
    bundles = sorted(tmp_path.iterdir())
    assert len(bundles) == 2
    assert all(one["added"] == one["rows"] > 0 for one in emptied.imported(*bundles).json)
    for name in names:
        assert (emptied.rows(name), emptied.read(name)) == before[name]
    again = emptied.imported(*bundles).json
    assert all(one["there"] == one["rows"] and not one["added"] for one in again)
    assert emptied.library.answer("asking", "this")["items"] == ["in", "first this", "second"]


def test_what_was_pruned_comes_back_from_its_archive(emptied: EmptyStore, tmp_path: Path) -> None:
    emptied.fill("pruned", "stays")
    before = emptied.rows("pruned"), emptied.read("pruned")
    words = ["purge", "--match", "pruned", "--keep-last", "1", "--archive", str(tmp_path)]
    done = emptied.ckpt(*words, "--yes", "-o", "json").json
    if not emptied.harness.has_history:
        assert done["removed"]["pruned"] == 0
        return
    assert done["removed"]["pruned"] == 1
    assert emptied.rows("pruned") != before[0]
    assert emptied.read("pruned")[0] == before[1][0]
    restored = emptied.imported(*tmp_path.iterdir())
    assert restored.code == 0, restored.err
    assert (emptied.rows("pruned"), emptied.read("pruned")) == before


def test_an_archive_brings_no_pickle_unless_allowed(emptied: EmptyStore, tmp_path: Path) -> None:
    # A question is a value with a type of its own, also where checkpoints are plain JSON.
    emptied.fill("a", asks=True)
    emptied.fill("stays")
    before = emptied.rows("a")
    assert emptied.ckpt("export", "a", "--to", tmp_path).code == 0
    (bundle,) = tmp_path.iterdir()
    found = check_bundle(bundle)
    rows = [pickled(row) for row in found.rows()]
    if not emptied.harness.stores_pickles:
        assert emptied.ckpt("import", bundle, "--dry-run").code == 0
        if rows == [*found.rows()]:
            pytest.skip("stores no msgpack")
        write_bundle(bundle, found.header, rows)
    emptied.library.forget("a")
    for words in (["--yes"], ["--dry-run"]):
        refused = emptied.ckpt("import", bundle, *words)
        assert refused.code == 5, refused.err
        assert " pickle" in refused.err
        assert "hint: --allow-pickle if you made the archive" in refused.err
    assert emptied.rows("a") == []
    done = emptied.ckpt("import", bundle, "--allow-pickle", "--yes")
    assert done.code == 0, done.err
    assert (emptied.rows("a") == before) == emptied.harness.stores_pickles


def pickled(row: Row) -> Row:
    """A row whose values say that they are pickles, in as many letters, wherever it says so."""

    def said(cell: Cell) -> Cell:
        if isinstance(cell, bytes):
            return cell.replace(b"msgpack", b"pickle+")
        return cell.replace("msgpack", "pickle+") if isinstance(cell, str) else cell

    return replace(row, cells={name: said(cell) for name, cell in row.cells.items()})


def test_a_plan_that_was_reviewed_is_carried_out(emptied: EmptyStore, tmp_path: Path) -> None:
    emptied.fill("a", "b", "c")
    plan = tmp_path / "plan.ndjson"
    assert emptied.ckpt("purge", "--match", "[abc]", "--plan-out", str(plan)).code == 0
    assert emptied.read("a") != []
    kept = [text for text in plan.read_text().splitlines() if '"thread_id":"b"' not in text]
    plan.write_text("\n".join(kept) + "\n")
    emptied.library.run("c", "more")
    went_on = emptied.rows("c")
    done = emptied.ckpt("apply", plan, "--skip-changed", "--yes", "-o", "json").json
    assert [one["thread_id"] for one in done["threads"]] == ["a"]
    assert [one["thread_id"] for one in done["skipped"]] == ["c"]
    assert emptied.read("a") == []
    assert emptied.read("b") != []
    assert emptied.rows("c") == went_on


@pytest.mark.engines
def test_two_purges_at_once_share_the_work(emptied: EmptyStore) -> None:
    names = [f"t{number}" for number in range(12)]
    emptied.fill(*names, "other")
    words = ["-s", emptied.url, "purge", "--match", "t*", "--batch", "2", "--yes", "-o", "json"]
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "ckpt_cli", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    ended = [(one.communicate(), one.returncode) for one in both]
    removed = 0
    for (out, err), code in ended:
        assert code in {0, 5}, err
        if code == 0:
            removed += json.loads(out)["removed"]["threads"]
    assert removed == len(names)
    assert emptied.read("other") != []
    assert all(emptied.read(name) == [] for name in names)


def test_copy_is_a_thread_of_its_own(emptied: EmptyStore) -> None:
    emptied.fill("a", asks=True)
    done = emptied.ckpt("copy", "a", "--as", "copy-of-a", "--yes", "-o", "json")
    if not emptied.harness.has_history:
        assert (done.code, "hint" in done.err) == (4, True)
        return
    emptied.made.append("copy-of-a")
    assert done.code == 0, done.err
    assert emptied.read("copy-of-a") == emptied.read("a")
    assert emptied.ckpt("copy", "a", "--as", "copy-of-a", "--yes").code == 5
    assert emptied.library.answer("copy-of-a", "it")["items"] == ["in", "first it", "second"]
    assert emptied.library.next("a") == ["first"]
