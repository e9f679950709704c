"""The title of a thread, and which ids need one."""

from __future__ import annotations

import pytest

from ckpt_backends.codec.values import Cut, Value
from ckpt_cli.core.conversation import says_nothing, title_of


@pytest.mark.parametrize(
    "thread_id",
    [
        "0c5ee4a1-6f5f-4b45-9d2c-3b3b8f8d6d11",
        "thread_0c5ee4a16f5f4b459d2c3b3b8f8d6d11",
        "9f86d081884c7d659a2feaa0c55ad015",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "9f86d081",
        "17",
        "2026-11-23_10:04",
        "1763890000.1234",
    ],
)
def test_these_ids_say_nothing(thread_id: str) -> None:
    assert says_nothing(thread_id)


@pytest.mark.parametrize(
    "thread_id",
    ["user-42", "anna@example.com", "trip-to-kyoto", "facade", "deadbeef", "", "a" * 10_000 + "!"],
)
def test_these_ids_say_something(thread_id: str) -> None:
    assert not says_nothing(thread_id)


def _said(role: str, content: Value) -> Value:
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ({"messages": [_said("system", "Be kind."), _said("user", " Hello  there\nall")]},
         "Hello there"),
        ({"messages": [_said("user", "  "), _said("user", "Hi")]}, "Hi"),
        ({"messages": [_said("ai", "Hello")], "log": [_said("user", "Hi")]}, None),
        ({"number": 1, "chat": [_said("human", "Hi")]}, "Hi"),
        ({"messages": [_said("ai", "a")] * 20 + [_said("user", "late")]}, None),
        ({"messages": [_said("user", "word " * 1000)]}, f"{('word ' * 40)[:199]}…"),
        ({"messages": Cut([_said("user", "Hi")], 9_000_000, "too large")}, "Hi"),
        ({"messages": Cut(None, 5, "not read")}, Cut(None, 5, "not read")),
        ({"messages": "Hi"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_title_is_the_first_line_that_a_person_said(
    values: dict[str, Value], title: str | Cut | None
) -> None:
    assert title_of(values) == title
