"""Records as lines of JSON."""

from __future__ import annotations

import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.output import Output

_TEXT = st.text(max_size=8)
_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


def written(*records: object) -> str:
    stream = io.StringIO()
    Output("ndjson", color="never", pager=False, stream=stream).lines(records)  # type: ignore[arg-type]
    return stream.getvalue()


@given(st.lists(st.dictionaries(_TEXT, _PLAIN, max_size=3), max_size=3))
def test_a_line_is_the_shortest_json_of_a_record(records: list[dict[str, object]]) -> None:
    lines = written(*records).split("\n")[:-1]
    assert [json.loads(line) for line in lines] == records
    ascii_only = [one for one in records if json.dumps(one, ensure_ascii=False).isascii()]
    expected = [json.dumps(one, separators=(",", ":")) + "\n" for one in ascii_only]
    assert written(*ascii_only) == "".join(expected)


def test_no_line_holds_what_json_does_not_know() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        written({"value": math.nan})
    with pytest.raises(TypeError, match="not JSON serializable"):
        written({"value": {1}})
