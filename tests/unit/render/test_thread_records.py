"""Listed threads as records and as lines of JSON."""

from __future__ import annotations

from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.model import Status, Thread, make_id
from ckpt_cli.core.values import json_line
from ckpt_cli.queries.heads import Details, ListedThread
from ckpt_cli.render.threads import LISTED, thread_line

_TEXT = st.text(st.characters(), max_size=8)
_IDS = st.builds(make_id, st.integers(0, 2**60 - 1), st.integers(-1, 8191), st.integers(0, 99))
_CHECKPOINTS = st.none() | _TEXT | _IDS
_PLACES = _CHECKPOINTS | st.datetimes(timezones=st.just(UTC))
_NUMBERS = st.integers(0, 20_000)
_THREADS = st.builds(
    Thread, _TEXT, _CHECKPOINTS, _PLACES, _PLACES, _NUMBERS, _NUMBERS, st.none() | _TEXT
)
_DETAILS = st.just(Details((Status.EMPTY,), None, None))


@given(st.builds(ListedThread, _THREADS, st.none() | _DETAILS, st.none() | _TEXT))
def test_a_line_is_the_json_of_the_record(row: ListedThread) -> None:
    assert thread_line(row) == json_line(LISTED.record(row))
