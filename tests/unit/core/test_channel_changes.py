"""Whether a step changed a channel."""

from __future__ import annotations

from typing import Any

import pytest

from ckpt_backends.codec.values import Cut, Value
from ckpt_cli.core.diff import changed
from ckpt_cli.core.state import Body


def _body(values: dict[str, Value], **versions: Any) -> Body:
    return Body(4, None, values, versions, {}, None)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (_body({"a": 1}, a=1), _body({"a": 1}, a=1), False),
        (_body({"a": 1}, a=1), _body({"a": 2}, a=2), True),
        (_body({"a": [1]}, a=1), _body({"a": [1]}, a=2), False),
        (_body({"a": 1}, a=1), _body({"a": True}, a=2), True),
        # Layouts without versions.
        (_body({"a": 1}), _body({"a": 1}), False),
        (_body({"a": 1}), _body({"a": 2}), True),
        (_body({"a": 1}), _body({}), True),
        # Values that are rebuilt from writes.
        (_body({}, a=1), _body({}, a=2), True),
        (_body({}, a=1), _body({}, a=1), False),
        (_body({}), _body({}), False),
        # It is new.
        (_body({}), _body({"a": None}, a=1), True),
        (None, _body({"a": 1}, a=1), True),
        (None, _body({}), False),
        # Values that are stored apart.
        (_body({"a": Cut(None, 9, "")}, a=1), _body({"a": Cut(None, 9, "")}, a=1), False),
        (_body({"a": Cut(None, 9, "")}, a=1), _body({"a": Cut(None, 8, "")}, a=2), True),
        (_body({"a": Cut(None, 9, "")}, a=1), _body({"a": Cut(None, 9, "")}, a=2), None),
        (
            _body({"a": Cut(None, 1 << 20, "")}, a=1),
            _body({"a": Cut(None, 1 << 20, "")}, a=2),
            True,
        ),
    ],
)
def test_a_version_may_differ_with_an_equal_value(
    before: Body | None, after: Body, verdict: bool | None
) -> None:
    assert changed("a", before, after) is verdict
