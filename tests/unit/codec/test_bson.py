"""Documents of MongoDB that are put together without its driver are those that it makes."""

from typing import Any

import bson
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.bson import plain
from tests.kit.strategies import few

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
WHOLE = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3)
DOCUMENTS = st.dictionaries(
    WORDS,
    st.recursive(
        st.none() | st.booleans() | WHOLE | WORDS,
        lambda inner: st.dictionaries(WORDS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@few
@given(DOCUMENTS)
def test_plain_values_are_those_of_the_driver(document: dict[str, Any]) -> None:
    # Before the document stands the byte of its kind.
    assert plain(document)[1:] == bson.encode(document)
