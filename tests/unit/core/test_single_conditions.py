"""A text that is one condition means the same with and without the parser of the grammar."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from ckpt_backends.errors import CkptError
from ckpt_cli.core.filters import parse
from ckpt_cli.core.filters.grammar import single_condition
from ckpt_cli.core.filters.parse import parse_filter
from ckpt_cli.core.filters.terms import FilterTerms

TERMS = FilterTerms(now=datetime(2026, 1, 1, tzinfo=UTC))
FIELDS = ("status", "metadata.x", "thread", 'values["a b"].c', "step", "last_at", "not", "and", "x")
SIGNS = ("=", "<", " like ", "like", " LIKE", "~", ">=", "!", " in ", " not like ")
PARTS = (
    *("error", "a4%", "2h", "2026-04-07", "10MiB", "null", "a=b", "é", "and", "like", "@a", "\\"),
    *('"a b"', "'x'", '""', '"', "'", ".", "[0]", "(", ")", ",", " ", "\n", "\x85", "\u2028"),
)


def some_text(chance: random.Random) -> str:
    def blank() -> str:
        return chance.choice(["", "", " ", "\n", "\xa0"])

    field, sign = chance.choice(FIELDS), chance.choice(SIGNS)
    value = "".join(chance.choices(PARTS, k=chance.choice([1, 1, 1, 2, 3])))
    return f"{blank()}{field}{blank()}{sign}{blank()}{value}{blank()}"


def meaning(text: str) -> object:
    try:
        return parse_filter(text, TERMS)
    except CkptError as error:
        return type(error), str(error), error.hint


def test_one_condition_means_the_same_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(33)
    texts = [one for one in (some_text(chance) for _ in range(4000)) if single_condition(one)]
    assert len(texts) > 500
    found = [meaning(one) for one in texts]
    monkeypatch.setattr(parse, "single_condition", lambda _: None)
    for text, one in zip(texts, found, strict=True):
        assert meaning(text) == one, text


@pytest.mark.parametrize(
    "text",
    ["not = 3", "@a", "@a = 3", "a = b c", "a in (b)", "a not like b", "(a = b)", "a = 'b", "a ="],
)
def test_all_other_texts_are_left_to_the_parser(text: str) -> None:
    assert single_condition(text) is None
