"""Short refs name one id each and cannot be taken for anything else."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.core.refs import short_refs

HEX_IDS = st.lists(st.text("0123456789abcdef-", min_size=1, max_size=12), unique=True)
ANY_IDS = st.lists(st.text(min_size=1, max_size=8), unique=True)


def test_a_single_id_gets_its_last_four_characters() -> None:
    assert short_refs(["1f1e5fa1-9b4d-6402-bfff-2dc576aa1dfe"]) == {
        "1f1e5fa1-9b4d-6402-bfff-2dc576aa1dfe": "1dfe"
    }


def test_ids_with_a_common_end_get_longer_refs() -> None:
    assert short_refs(["xx-a1bcde", "xx-b1bcde", "xx-ffaabb"]) == {
        "xx-a1bcde": "a1bcde",
        "xx-b1bcde": "b1bcde",
        "xx-ffaabb": "aabb",
    }


def test_an_id_that_another_one_ends_with_keeps_its_full_length() -> None:
    assert short_refs(["abcdef", "xxabcdef"]) == {"abcdef": "abcdef", "xxabcdef": "xabcdef"}


def test_durations_numbers_dates_and_words_are_lengthened() -> None:
    refs = short_refs(
        ["aab1234", "abc150d", "ab2026-04-07", "one-head", "a-now", "ab~1", "q step:1", "x1d2h"]
    )
    assert refs == {
        "aab1234": "b1234",
        "abc150d": "c150d",
        "ab2026-04-07": "4-07",
        "one-head": "e-head",
        "a-now": "a-now",
        "ab~1": "ab~1",
        "q step:1": "ep:1",
        "x1d2h": "x1d2h",
    }


def test_a_ref_does_not_begin_another_id() -> None:
    refs = short_refs(["1f1e-0001-aaaa", "1f1e-0002-1f1e"])
    assert refs["1f1e-0002-1f1e"] == "2-1f1e"


def test_ids_shorter_than_four_characters_are_their_own_refs() -> None:
    assert short_refs(["1", "12", "abc", ""]) == {"1": "1", "12": "12", "abc": "abc", "": ""}


@given(st.one_of(HEX_IDS, ANY_IDS))
def test_every_ref_is_an_end_of_its_id_and_of_no_other(ids: list[str]) -> None:
    refs = short_refs(ids)
    assert set(refs) == set(ids)
    for full, ref in refs.items():
        assert full.endswith(ref)
        assert ref == full or len(ref) >= 4
        assert ref == full or [other for other in ids if other.endswith(ref)] == [full]
        assert ref == full or not [i for i in ids if i != full and i.startswith(ref)]
        assert ref == full or not re.fullmatch(
            r"\d{1,5}|\d{1,4}d|\d{1,9}(s|m|h|w|mo|y)|head", ref, re.ASCII
        )


def test_ten_thousand_ids_are_short() -> None:
    ids = [f"1f1e5fa1-9b4d-6402-8000-{(n * 2654435761) % 2**48:012x}" for n in range(1, 10_000)]
    refs = short_refs(ids)
    assert max(map(len, refs.values())) < 13


def test_an_id_that_looks_like_an_option_throughout_is_its_own_ref() -> None:
    assert short_refs(["-" * 1_000_000]) == {"-" * 1_000_000: "-" * 1_000_000}
