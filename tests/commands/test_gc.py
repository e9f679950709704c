"""`gc` on the command line; what it removes is tested in tests/retention."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.commands.words import asks_first, refusals
from tests.kit.command import ckpt

OLD = "1ef00000-0000-6000-8000-000000000000"
"""The id of a checkpoint that is not stored."""


def test_rows_that_nothing_refers_to_are_deleted(sample: Path) -> None:
    unused = ckpt("-s", sample, "gc", "--scope", "all", "--yes")
    assert (unused.code, unused.err) == (0, "note: nothing to remove\n")
    with closing(sqlite3.connect(sample)) as db, db:
        db.execute("UPDATE writes SET checkpoint_id = ? WHERE thread_id = 'refund-4711'", [OLD])
    asks_first(sample, "gc --scope writes")
    with closing(sqlite3.connect(sample)) as db:
        (left,) = db.execute("SELECT count(*) FROM writes WHERE checkpoint_id = ?", [OLD])
    assert left == (0,)


test_wrong_words_are_refused = refusals(
    ("gc", 2, "no scope given"), ("gc --scope nothing", 2, "'nothing' is not one of 'blobs'")
)
