"""What strict mode admits, as LangGraph itself says it."""

from __future__ import annotations

import runpy
from datetime import datetime

import pytest
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.model import TypedBytes
from ckpt_cli.core.doctor.types import (
    ADMITTED,
    ADMITTED_METHODS,
    NamedIn,
    TypeName,
    can_be_allowed,
    is_blocked,
    is_strict,
    type_names,
)


def test_the_lists_are_those_of_the_installed_library() -> None:
    assert ADMITTED == _msgpack.SAFE_MSGPACK_TYPES
    assert ADMITTED_METHODS == _msgpack.SAFE_MSGPACK_METHODS


@pytest.mark.parametrize(
    ("text", "form", "method", "blocked", "allowed"),
    [
        ("datetime.date", NamedIn.MSGPACK, "", False, True),
        ("app.Order", NamedIn.MSGPACK, "", True, True),
        ("os.system", NamedIn.MSGPACK, "", True, False),
        ("datetime.datetime", NamedIn.METHOD, "fromisoformat", False, False),
        ("pendulum.DateTime", NamedIn.METHOD, "fromisoformat", True, False),
        ("numpy.ndarray", NamedIn.ARRAY, "", False, False),
        ("app.Order", NamedIn.JSON, "", False, False),
        ("app.Order", NamedIn.PICKLE, "", False, False),
    ],
)
def test_what_is_blocked_and_what_a_list_admits(
    text: str, form: NamedIn, method: str, *, blocked: bool, allowed: bool
) -> None:
    module, _, name = text.rpartition(".")
    named = TypeName(module, name, form, method)
    assert is_blocked(named) is blocked
    assert can_be_allowed(named) is allowed


@pytest.mark.parametrize("value", ["", "0", "false", "no", "1", "true", "TRUE", "yes", "on", "2"])
def test_strict_mode_is_on_for_the_same_values(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", value)
    library = runpy.run_path(_msgpack.__file__)
    assert is_strict({"LANGGRAPH_STRICT_MSGPACK": value}) is library["STRICT_MSGPACK_ENABLED"]
    assert not is_strict({})


class Moment(datetime):
    """What the serializer stores as a call of a method."""


def test_a_method_is_never_admitted_not_even_without_strict_mode() -> None:
    stored = JsonPlusSerializer().dumps_typed(Moment(2026, 4, 7))
    (named,) = type_names(TypedBytes(*stored))
    assert (named.form, named.method) == (NamedIn.METHOD, "fromisoformat")
    assert is_blocked(named)
    assert not can_be_allowed(named)
    permissive = JsonPlusSerializer(allowed_msgpack_modules=True)
    assert permissive.loads_typed(stored) == "2026-04-07T00:00:00"


def test_the_printed_calls_exist() -> None:
    allowed = [("app.models", "Order")]
    serde = JsonPlusSerializer(allowed_msgpack_modules=allowed)
    assert serde.with_msgpack_allowlist([("app.models", "Item")]) is not serde
    from langgraph.checkpoint.memory import InMemorySaver

    assert InMemorySaver(serde=serde).with_allowlist(allowed).serde is serde
