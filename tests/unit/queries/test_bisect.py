"""Searches along a line of verdicts."""

from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.queries.bisect import Onset, OnsetSearch, Verdict, binary, linear
from tests.kit.cases import cases

VERDICTS: dict[str, Verdict] = {"y": True, "n": False, "?": None}
Place = tuple[int, bool, tuple[int, ...]] | None


@cases(
    "line first halved",
    ("", None, None),
    ("???", None, None),
    ("nn?", None, None),
    ("?yy", (1, True, (0,)), (1, True, (0,))),
    ("yyn", (0, True, ()), (0, True, ())),
    ("ynny", (3, False, ()), (0, True, ())),
    ("nny", (2, False, ()), (2, False, ())),
    ("nyn", (1, False, ()), None),
    ("nynnny", (1, False, ()), (5, False, ())),
    ("n??yy", (3, False, (1, 2)), (3, False, (1, 2))),
    ("?n?y??", (3, False, (2,)), (3, False, (2,))),
)
def test_where_a_condition_begins_to_hold(line: str, first: Place, halved: Place) -> None:
    verdicts, asked = [VERDICTS[one] for one in line], list[int]()

    def judge(place: int) -> Verdict:
        asked.append(place)
        return verdicts[place]

    assert linear(verdicts).onset == (first and Onset(*first))
    found = binary(len(line), judge)
    assert found.onset == (halved and Onset(*halved))
    assert len(asked) == len({*asked}) == found.tried
    assert found.skipped == sum(verdicts[place] is None for place in asked)


def test_a_linear_search_stops_where_it_finds() -> None:
    def verdicts() -> object:
        yield from [True, None, False, None, True]
        raise AssertionError

    assert linear(verdicts()) == OnsetSearch(Onset(4, False, (3,)), 5, 2)  # type: ignore[arg-type]


@given(st.integers(1, 5000), st.data())
def test_a_binary_search_of_what_stays_asks_few(number: int, data: st.DataObject) -> None:
    turn = data.draw(st.integers(1, number))
    found = binary(number, lambda place: place >= turn)
    if turn == number:
        assert found == OnsetSearch(None, min(number, 2), 0)
    else:
        assert found.onset == Onset(turn, False, ())
        assert found.tried <= 2 + number.bit_length()
