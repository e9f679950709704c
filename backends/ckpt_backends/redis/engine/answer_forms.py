"""The form that the answer to each command must have, after the driver has read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any


def has_form(name: object, answer: Any) -> bool:
    """Whether an answer to a command has the form of Redis's answers."""
    form = _FORMS.get(name)
    return form is None or form(answer)


def _is_text(answer: Any) -> bool:
    return answer is None or isinstance(answer, bytes)


def _is_number(answer: Any) -> bool:
    return answer is None or isinstance(answer, int)


def _are_texts(answer: Any) -> bool:
    return isinstance(answer, list) and set(map(type, answer)) <= {bytes, NoneType}


def _are_names(answer: Any) -> bool:
    return isinstance(answer, list) and set(map(type, answer)) <= {bytes}


def _are_fields(answer: Any) -> bool:
    return isinstance(answer, dict) and all(
        isinstance(name, bytes) and isinstance(one, bytes) for name, one in answer.items()
    )


def _turn_of(form: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def fits(answer: Any) -> bool:
        return len(answer) == 2 and isinstance(answer[0], int) and form(answer[1])

    return fits


_FORMS: Mapping[object, Callable[[Any], bool]] = {
    **dict.fromkeys(("GET", "GETRANGE", "HGET", "JSON.GET", "LINDEX", "TYPE"), _is_text),
    **dict.fromkeys(("EXISTS", "HSTRLEN", "LPOS", "MEMORY USAGE", "STRLEN"), _is_number),
    **dict.fromkeys(("PEXPIRETIME", "PTTL"), _is_number),
    **dict.fromkeys(("HMGET", "JSON.MGET", "MGET"), _are_texts),
    **dict.fromkeys(("FT._LIST", "HKEYS", "LRANGE"), _are_names),
    "HGETALL": _are_fields,
    "SCAN": _turn_of(_are_names),
    "HSCAN": _turn_of(_are_fields),
}
"""Commands with answers of several forms are left out; their readers check them."""
