"""A search through all values."""

from __future__ import annotations

from types import ModuleType

from tests.bench import raw, raw_postgres
from tests.bench.declared import Asked, Beside, Made, Measurement, Subject, ckpt, python

_ABSENT = "zebra finch"
_ABSENT_NUMBER = "98765432101"


def _no_hit(_: Made, ask: Asked) -> None:
    assert ask("grep", "-F", _ABSENT, "--head-only") == []


def _hit(_: Made, ask: Asked) -> None:
    found = ask("grep", "-F", "Lorem ipsum", "--limit", "1")
    assert len(found) == 1


def _search(store: str, engine: ModuleType, most: float, *words: str) -> Measurement:
    beside = Beside("stream of values", python(engine.VALUES), most, python(engine.START))
    return Measurement(
        what=f"grep {' '.join(words)}, no hit",
        store=store,
        ours=ckpt("grep", *words, "-o", "json"),
        beside=[beside],
        check=_hit if "deep" in store else _no_hit,
        rounds=3,
    )


SUBJECT = Subject(
    "grep",
    "grep without a hit",
    [
        _search("sqlite", raw, 3, "-F", _ABSENT),
        _search("sqlite", raw, 10, "-F", _ABSENT_NUMBER),
        _search("sqlite", raw, 10, "z.bra f[i]nch"),
        _search("sqlite deep", raw, 3, "-F", _ABSENT),
        _search("sqlite states", raw, 3, "-F", _ABSENT),
        _search("postgres filtered", raw_postgres, 3, "-F", _ABSENT),
        _search("postgres filtered", raw_postgres, 10, "-F", _ABSENT_NUMBER),
    ],
)
