"""Copying a store to another engine, beside programs that read the same rows and load them in bulk.

Those consist of libraries only. They convert bodies and values as the saver of the target stores
them, and read all rows back to compare them. They know one form of each row, and neither go on
after an error nor record what they did.
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


_COPY = Beside("raw copy", python(raw_copy.TO_POSTGRES, "{prepared}"), _MOST)
_INSERT = Beside("raw copy", python(raw_copy.TO_SQLITE, "{prepared}"), _MOST)
SUBJECT = Subject(
    "copy",
    "copy between engines",
    [
        _copy("copy to postgres", "copy, SQLite to PostgreSQL", _COPY),
        _copy("copy to sqlite", "copy, PostgreSQL to SQLite", _INSERT),
    ],
)
