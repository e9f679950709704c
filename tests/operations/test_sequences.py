"""Random sequences of changes, undos and redos: the rows are those that a model expects."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from ckpt_backends.testing.chance import Chance
from tests.kit.command import SAMPLE, CommandResult, ckpt
from tests.kit.rows import Rows, rows_of

THREADS = ("refund-4711", "weekly-digest", "trip-to-kyoto")
CHANGES = [
    *(f"rollback {{}} --steps {steps}" for steps in (1, 2, 3)),
    *("rollback {} step:5", "repair messages {}", "fork {} ~1"),
    *(f"copy {{}} --at ~1 --as {name}" for name in ("new", "other")),
    "purge --match {} --include-interrupted --include-error --include-pending",
    *(f"purge --match {{}} --keep-last {number}" for number in (1, 2, 4)),
]
_REFUSED = {3, 5, 6}


class Changes(RuleBasedStateMachine):
    """A store, its rows before each operation, and what each operation added and removed."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp())
        self._state = os.environ["XDG_STATE_HOME"]
        os.environ["XDG_STATE_HOME"] = str(self._folder / "state")
        self._store = self._folder / "store.db"
        shutil.copyfile(_few(), self._store)
        self._rows = self._first = rows_of(self._store)
        self._before: list[tuple[str, Rows]] = []
        """Each operation, with the rows before it."""
        self._delta: dict[str, tuple[Rows, Rows]] = {}
        """What each operation added and removed."""
        self._archives = 0

    def teardown(self) -> None:
        try:
            self._undo_all()
        finally:
            os.environ["XDG_STATE_HOME"] = self._state
            shutil.rmtree(self._folder)

    def _ckpt(self, *words: str | Path) -> CommandResult:
        return ckpt("-s", self._store, *words)

    def _newest(self) -> str | None:
        found = self._ckpt("ops", "list", "-n", "1", "-o", "json").json
        return found[0]["op"] if found else None

    def _change(self, *words: str | Path) -> CommandResult:
        """Run a command, and note what it did."""
        known = self._before[-1][0] if self._before else None
        answer = self._ckpt(*words, "--yes")
        after, newest = rows_of(self._store), self._newest()
        if newest == known:
            assert after == self._rows, "a change that is not recorded"
            assert answer.code in {0, *_REFUSED}, answer.err
            return answer
        assert answer.code in {0, 7}, answer.err
        assert newest is not None
        self._before.append((newest, self._rows))
        self._delta[newest] = after - self._rows, self._rows - after
        self._rows = after
        return answer

    def _archive(self) -> Path:
        self._archives += 1
        return self._folder / f"archive{self._archives}"

    def _take_back(self, op: str, *words: str | Path) -> bool:
        """Take back an operation, as the model does."""
        before, answer = self._rows, self._change(*words)
        if answer.code not in {0, 7}:
            return False
        (undo,) = self._ckpt("ops", "list", "-n", "1", "-o", "json").json
        added, removed = (
            {row for row in rows if row[1] in undo["threads"]} for rows in self._delta[op]
        )
        assert self._rows == (before - added) | removed
        return answer.code == 0

    @rule(thread=st.sampled_from(["*-*", "new", *THREADS]), words=st.sampled_from(CHANGES))
    def change(self, thread: str, words: str) -> None:
        archive = ("--archive", self._archive()) if words.startswith("purge") else ()
        self._change(*words.format(thread).split(), *archive)

    @precondition(lambda self: self._archives)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, self._archives))
        self._change("import", self._folder / f"archive{number}")

    @precondition(lambda self: self._before)
    @rule()
    def undo_newest(self) -> None:
        answer = self._ckpt("undo", "--dry-run", "-o", "json")
        if answer.code == 0:
            self._take_back(answer.json["undoes"], "undo")

    @precondition(lambda self: self._before)
    @rule(data=st.data())
    def undo_any(self, data: st.DataObject) -> None:
        op, _ = data.draw(st.sampled_from(self._before))
        self._take_back(op, "undo", op)

    @precondition(lambda self: self._before)
    @rule()
    def redo_newest(self) -> None:
        answer = self._ckpt("redo", "--dry-run", "-o", "json")
        if answer.code == 0:
            self._take_back(answer.json["undoes"], "redo")

    @precondition(lambda self: self._before)
    @rule(thread=st.sampled_from(THREADS))
    def undo_thread(self, thread: str) -> None:
        self._change("undo", thread)

    def _undo_all(self) -> None:
        """Take back every operation, also undos, the newest first: each time the rows return."""
        for op, before in reversed(self._before):
            assert self._take_back(op, "undo", op), op
            assert self._rows == before
        assert self._rows == self._first


def _few() -> Path:
    """Return a store with few threads."""
    path = Path(tempfile.gettempdir()) / f"ckpt-few-{os.getpid()}.db"
    if not path.exists():
        shutil.copyfile(SAMPLE, path)
        with closing(sqlite3.connect(path)) as connection, connection:
            for table in ("checkpoints", "writes"):
                connection.execute(f"DELETE FROM {table} WHERE thread_id NOT IN {THREADS}")
    return path


@pytest.mark.nightly
def test_random_sequences(chance: Chance) -> None:
    bounded = settings(max_examples=4, stateful_step_count=25, deadline=None, database=None)
    for dice in chance.rounds(60):

        class Seeded(Changes):
            """Has a seed of its own."""

        run_state_machine_as_test(seed(dice.getrandbits(32))(Seeded), settings=bounded)
