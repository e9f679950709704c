"""Two `ckpt` processes that change the same thread at the same moment.

The store is afterwards as if one had run after the other, or as if only one had run.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ckpt_backends.errors import StoreChanged
from ckpt_backends.postgres.database import lock_number
from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import ScenarioStore, config_of
from ckpt_cli.commands.purge import RemovalRun
from ckpt_cli.plans.fork import heads_of
from ckpt_cli.plans.purge import PlanFile
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.command import ckpt
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store
from tests.kit.processes import at_once, leftovers, orders
from tests.kit.travelling import HARNESSES

OURS, NEW = "ours", "new"
SOURCE = "subgraph-stateful"
UNCHANGED = ("changed since the plan was made", "nothing to remove")
"""What a purge says that ends with 0 and left the thread alone, which had moved."""
TIERS: dict[tuple[str, str], Any] = {
    ("sqlite", "rollback, rollback"): (),
    ("sqlite", "purge, rollback"): pytest.mark.engines,
    ("postgres", "rollback, rollback"): pytest.mark.engines,
    ("redis", "rollback, rollback"): pytest.mark.engines,
}
"""What is tried by default and with `-m engines`; all else is slow. Other pairs wait for the same
locks, and MySQL and `langgraph dev` work as PostgreSQL and SQLite with locks of their own."""
ENGINES = ["sqlite", "postgres", "mysql", "mongodb", "redis", "redis-hash", "langgraph-dev"]


@pytest.fixture(scope="module")
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ScenarioStore]:
    """A store for this module alone: some commands change every thread."""
    with empty_store(
        HARNESSES[request.param], request, tmp_path_factory.mktemp("together")
    ) as harness:
        found = ScenarioStore(harness)
        found.thread(SOURCE)
        yield found


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


ROLLBACK = ["rollback", OURS, "step:1", "--yes"]
DELETE = ["threads", "delete", OURS, "--yes"]
PURGE = ["purge", "--match", OURS, "--older-than", "0s", "--include-pending", "--yes"]
EXPORT = ["export", "--to", "archive", "--", OURS]
IMPORT = ["import", "ARCHIVE", "--yes"]
FORK = ["fork", OURS, "--at", "step:1", "--yes"]
AT = ["copy", OURS, "--at", "step:1", "--as", NEW, "--yes"]
PAIRS: dict[str, tuple[list[list[str]], list[str], list[str]]] = {
    "rollback, rollback": ([], ROLLBACK, ROLLBACK),
    "copy of a checkpoint, copy of it": ([], AT, AT),
    "edit, edit": ([], [*FORK, "--replace", "who=1"], [*FORK, "--replace", "who=2"]),
    "undo, rollback": ([ROLLBACK], ["undo", OURS, "--yes"], ROLLBACK),
    "copy, delete": ([], ["copy", OURS, "--as", NEW, "--yes"], DELETE),
    "delete, delete": ([], DELETE, DELETE),
    "delete, rollback": ([], DELETE, ROLLBACK),
    "prune, rollback": ([], ["purge", "--match", OURS, "--keep-last", "1", "--yes"], ROLLBACK),
    "purge, rollback": ([], PURGE, ROLLBACK),
    "purge, import": ([EXPORT], PURGE, IMPORT),
    "import, import": ([EXPORT, DELETE], IMPORT, IMPORT),
    "gc, rollback": ([], ["gc", "--scope", "all", "--grace", "0s", "--yes"], ROLLBACK),
}
"""What goes before, and the two command lines."""


@pytest.mark.parametrize(
    ("filled", "pair"),
    [
        pytest.param(engine, pair, marks=TIERS.get((engine, pair), pytest.mark.nightly))
        for engine in ENGINES
        for pair in PAIRS
    ],
    indirect=["filled"],
)
def test_two_at_once_follow_each_other(filled: ScenarioStore, tmp_path: Path, pair: str) -> None:
    before, *lines = PAIRS[pair]
    alike = lines[0] == lines[1]
    serial = {
        tried: serially(filled, before, [lines[number] for number in tried])
        for tried in [(), (0,), (0, 1), *(() if alike else ((1,), (1, 0)))]
    }
    if alike:
        serial |= {(1,): serial[0,], (1, 0): serial[0, 1]}
    for _ in range(1 if (filled.harness.name, pair) in TIERS else 5):
        store = fresh(filled, before)
        both = at_once(*(["-s", store, *named(words)] for words in lines))
        changed = [
            one for one in both if not any(words in one.out + one.err for words in UNCHANGED)
        ]
        tried = orders([one.code if one in changed else 6 for one in both])
        assert state(filled) in [serial[one] for one in tried], (both, serial)
        assert leftovers(tmp_path) == []
        # Nobody holds a lock any more.
        ckpt("-s", fresh(filled, []), *ROLLBACK, code=0)
    forget(filled)


def serially(filled: ScenarioStore, before: list[list[str]], lines: list[list[str]]) -> Any:
    store = fresh(filled, before)
    for words in lines:
        ckpt("-s", store, *named(words)).ends_cleanly(0, 3, 5, 6)
    return state(filled)


def named(words: list[str]) -> list[str]:
    made = sorted(Path("archive").glob("*.ckpt.gz")) if "ARCHIVE" in words else []
    return [str(made[-1]) if word == "ARCHIVE" else word for word in words]


def fresh(filled: ScenarioStore, before: list[list[str]]) -> str:
    forget(filled)
    filled.harness.copy(SOURCE, OURS)
    for words in before:
        run(filled.harness.url, words)
    return filled.harness.url


def forget(filled: ScenarioStore) -> None:
    for name in (OURS, NEW):
        filled.harness.forget(name)


def run(store: str, words: list[str]) -> None:
    ckpt("-s", store, *words, code=0)


def state(filled: ScenarioStore) -> list[tuple[dict[str, int], int]]:
    """Return the number of rows of each thread by table, and of parents that are missing.

    The official saver must read every checkpoint, and the file must be whole.
    """
    found = []
    for name in (OURS, NEW):
        rows = {table: len(rows) for table, rows in filled.harness.rows(name).items()}
        stored: set[tuple[str, str]] = set()
        parents = []
        for one in filled.saver.list({"configurable": {"thread_id": name}}):
            here = one.config["configurable"]
            stored.add((here["checkpoint_ns"], here["checkpoint_id"]))
            if one.parent_config:
                parent = one.parent_config["configurable"]["checkpoint_id"]
                parents.append((here["checkpoint_ns"], parent))
        assert (filled.saver.get_tuple(config_of(name)) is None) == (not stored)
        found.append((rows, len([one for one in parents if one not in stored])))
    if isinstance(filled.harness, SqliteHarness):
        with closing(filled.harness.connection.execute("PRAGMA integrity_check")) as check:
            assert check.fetchall() == [("ok",)]
    return found


def test_a_delete_says_which_thread_it_keeps(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = RemovalRun.planned

    def make_and_move(*args: Any) -> PlanFile:
        plan = planned(*args)
        run(str(sample), ["rollback", "trip-to-kyoto", "--steps", "1", "--yes"])
        return plan

    monkeypatch.setattr(RemovalRun, "planned", make_and_move)
    answer = ckpt("-s", sample, "threads", "delete", "trip-to-kyoto", "refund-4711", "--yes")
    assert answer.code == 7, answer.err
    assert "not deleted: trip-to-kyoto changed meanwhile" in answer.err
    ckpt("-s", sample, "show", "trip-to-kyoto", code=0)


def test_a_plan_notices_that_the_thread_changed_while_it_was_read(sample: Path) -> None:
    with open_store(str(sample)) as store:
        reader = ThreadReader(store, "trip-to-kyoto")
        assert reader.head("") == heads_of(reader)[""]
        run(str(sample), ["rollback", "trip-to-kyoto", "--steps", "1", "--yes"])
        store.refresh()  # some engines have no snapshot to begin with
        with pytest.raises(StoreChanged):
            heads_of(reader)


def test_a_locked_file_is_waited_for(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_backends.sqlite.database._BUSY_SECONDS", 0.1)
    before = sample.read_bytes()
    with closing(sqlite3.connect(sample, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = ckpt("-s", sample, "rollback", "trip-to-kyoto", "step:1", "--yes")
    assert (answer.code, "another process is writing to it" in answer.err) == (4, True)
    assert sample.read_bytes() == before


@pytest.mark.parametrize("filled", ["postgres"], indirect=True)
def test_a_change_of_the_same_thread_is_waited_for(filled: ScenarioStore) -> None:
    place = filled.harness
    url = f"{fresh(filled, [])}?options=-clock_timeout%3D300"
    place.copy(SOURCE, NEW)
    with psycopg.connect(place.url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [lock_number(OURS)])
        before = place.rows(OURS)
        ckpt("-s", url, *ROLLBACK, code=4, says="another session holds a lock")
        assert place.rows(OURS) == before
        ckpt("-s", url, "rollback", NEW, "step:1", "--yes", code=0)
