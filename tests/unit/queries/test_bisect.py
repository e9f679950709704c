"""Searches along a line of verdicts, compared with the rule in words."""

from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.queries.bisect import Onset, OnsetSearch, Verdict, binary, linear

LINES = st.lists(st.sampled_from([True, False, None]), max_size=30)


def first_turn(verdicts: list[Verdict]) -> int | None:
    """Return the first place that holds after one that does not, or else the first that holds."""
    places = [n for n, one in enumerate(verdicts) if one]
    after = [n for n in places if False in verdicts[:n]]
    return next(iter([*after, *places]), None)


def unknown_before(verdicts: list[Verdict], place: int) -> tuple[int, ...]:
    start = place
    while start and verdicts[start - 1] is None:
        start -= 1
    return tuple(range(start, place))


@given(LINES)
def test_a_linear_search_finds_the_first_turn(verdicts: list[Verdict]) -> None:
    found = linear(verdicts)
    place = first_turn(verdicts)
    if place is None:
        assert found.onset is None
        assert (found.tried, found.skipped) == (len(verdicts), verdicts.count(None))
    else:
        is_from_start = False not in verdicts[:place]
        assert found.onset == Onset(place, is_from_start, unknown_before(verdicts, place))


def test_a_linear_search_stops_where_it_finds() -> None:
    def verdicts() -> object:
        yield from [True, None, False, None, True]
        raise AssertionError

    assert linear(verdicts()) == OnsetSearch(Onset(4, False, (3,)), 5, 2)  # type: ignore[arg-type]


@given(LINES)
def test_a_binary_search_finds_a_turn(verdicts: list[Verdict]) -> None:
    asked: list[int] = []

    def judge(place: int) -> Verdict:
        asked.append(place)
        return verdicts[place]

    found = binary(len(verdicts), judge)
    assert len(asked) == len(set(asked)) == found.tried
    known = [one for one in verdicts if one is not None]
    if not known or not (known[0] or known[-1]):
        assert found.onset is None
        return
    assert found.onset is not None
    place = found.onset.place
    assert verdicts[place] is True
    assert found.onset.skipped == unknown_before(verdicts, place)
    assert found.onset.from_start == known[0]
    if not known[0]:
        assert verdicts[place - len(found.onset.skipped) - 1] is False


@given(st.integers(1, 5000), st.data())
def test_a_binary_search_of_what_stays_asks_few(number: int, data: st.DataObject) -> None:
    turn = data.draw(st.integers(1, number))
    found = binary(number, lambda place: place >= turn)
    if turn == number:
        assert found == OnsetSearch(None, min(number, 2), 0)
    else:
        assert found.onset == Onset(turn, False, ())
        assert found.tried <= 2 + number.bit_length()
