"""A JSON body that is joined from fields and values is that of the whole, spelled at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import CHANNELS
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.bodies import OpenBody, close_body, spelled

NAMES = st.text(max_size=20)
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=9)
FIELDS = st.recursive(VALUES, lambda one: st.lists(one) | st.dictionaries(NAMES, one), max_leaves=9)


@given(st.dictionaries(NAMES.filter(lambda name: name != CHANNELS), FIELDS), st.booleans())
def test_fields_and_values_are_in_order(fields: dict[str, object], has_values: bool) -> None:
    values: dict[str, object] = {
        "note": "a",
        "x": None,
        "status": {},
        "ä": [1, {"long": 2, "b": 3}],
    }
    found = OpenBody(
        dict(fields), {name: TypedBytes("json", spelled(one)) for name, one in values.items()}
    )
    whole = fields | ({CHANNELS: values} if has_values else {})
    closed = close_body(found, "json", "it", has_values=has_values, in_order=True)
    assert closed == TypedBytes("json", spelled(whole))
