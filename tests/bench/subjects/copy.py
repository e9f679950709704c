"""Copying a store to another engine, beside programs that read the same rows and load them in bulk.

Those read the rows of the source, convert nothing, load prepared rows, and do not look at the
result.
"""

from __future__ import annotations

from tests.bench import raw_copy
from tests.bench.declared import Beside, Measurement, Rate, Subject, ckpt, python

_MOST = 2
_WORDS = ("copy", "--all", "--to", "{target}", "--create", "--yes", "-o", "ndjson")
_RATE = Rate("checkpoints")


def _copy(store: str, what: str, beside: Beside, *words: str) -> Measurement:
    return Measurement(
        what=what,
        store=store,
        ours=ckpt(*_WORDS, *words),
        beside=[beside],
        rate=_RATE,
        changes=True,
        after=raw_copy.same_number,
        rounds=1,
    )


_COPY = Beside("read + COPY", python(raw_copy.TO_POSTGRES, "{prepared}", "{ready}"), _MOST)
_INSERT = Beside("read + executemany", python(raw_copy.TO_SQLITE, "{prepared}", "{ready}"), _MOST)
SUBJECT = Subject(
    "copy",
    "copy between engines",
    [
        _copy("copy to postgres", "copy, SQLite to PostgreSQL", _COPY),
        _copy("copy to sqlite", "copy, PostgreSQL to SQLite", _INSERT),
    ],
)
