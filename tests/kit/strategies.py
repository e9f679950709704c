"""Values of every kind, for property tests."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from ckpt_backends.codec import Cut, Opaque, Tagged

# With lone surrogates, which text in a store may contain.
texts = (
    st.text(st.characters(), max_size=12)
    | st.sampled_from(["$type", "$", "$$x", "\ud83d\ude00"])
    | st.text("a \n\t\x1b\u202e日{}[]\"'=,:", max_size=60)
)
types = st.sampled_from(
    [
        *("builtins.set", "builtins.tuple", "builtins.bytearray", "datetime.datetime", "ext:9", ""),
        *("datetime.date", "datetime.timedelta", "decimal.Decimal", "uuid.UUID", "numpy.ndarray"),
        *("pathlib.PosixPath", "langchain_core.messages.ai.AIMessage", "\x1b[31m.evil\x07"),
        *("langgraph.types.Send", "langgraph.types.Interrupt"),
    ]
)
fields = st.sampled_from(
    [
        *("content", "type", "id", "name", "tool_calls", "args", "role", "text"),
        *("dtype", "shape", "data", "node", "value"),
    ]
)
"""Keys that make a map a message, a call, an array or a send."""
integers = st.integers() | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 10**3000, -(10**3000)])
scalars = st.none() | st.booleans() | integers | st.floats() | texts | st.binary(max_size=12)
opaques = st.builds(Opaque, texts, st.integers(0, 2**70), texts, texts)

# Keys that are equal in Python, such as 1 and True, cannot be in one dict together; NaN never
# equals itself.
keys = (
    texts
    | st.none()
    | st.integers(2)
    | st.floats(2.1, 2.9)
    | st.binary(max_size=4)
    | st.builds(Tagged, st.just("builtins.tuple"), st.lists(texts, max_size=2))
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(texts | fields, inner, max_size=4)
    return (
        st.lists(inner, max_size=4)
        | named
        | st.dictionaries(keys, inner, max_size=4)
        | st.builds(Tagged, types | texts, inner | named)
        | st.builds(Cut, inner, st.integers(0, 2**60), texts)
    )


values: st.SearchStrategy[Any] = st.recursive(scalars | opaques, _nested, max_leaves=20)
_plain = st.characters(exclude_categories=["Cs"])
packable: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(_plain, max_size=40)
    | st.binary(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.dictionaries(st.text(_plain, max_size=8) | st.integers(0, 99), inner, max_size=4)
    ),
    max_leaves=30,
)
"""Values that ormsgpack can store and read back unchanged."""
few = settings(max_examples=max(1, settings().max_examples // 4))
"""For properties that take long: a quarter of the examples of the profile."""
