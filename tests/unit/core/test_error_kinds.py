"""Errors of one kind differ in numbers and ids only."""

from __future__ import annotations

import pytest

from ckpt_cli.core.tasks import error_kind, error_start, first_line


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("TimeoutError('no answer after 31.5 s')", "TimeoutError('no answer after … s')"),
        ("KeyError('0c5ee4a1-6f5f-4b45-9d2c-3b3b8f8d6d11')", "KeyError('…')"),
        ("ValueError('<Order object at 0x7f3a2c>')", "ValueError('<Order object at …>')"),
        ("OSError('cannot reach 10.0.0.3:5432')", "OSError('cannot reach …')"),
        ("Error: run 9f86d081884c7d65 failed", "Error: run … failed"),
        ("Error: deadbeef and added facade", "Error: deadbeef and added facade"),
        ("RuntimeError('first\\nsecond 2')", "RuntimeError('first …"),
        ("", ""),
    ],
)
def test_numbers_and_ids_are_left_out(text: str, kind: str) -> None:
    assert error_kind(text) == kind


def test_a_kind_is_short() -> None:
    assert len(error_kind("x " * 1_000_000)) == 200


def test_the_first_line_of_an_error() -> None:
    assert first_line("  one\ntwo") == "one …"
    assert first_line("E('one\\\\nstill one')") == "E('one\\\\nstill one')"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("ValueError('\\n  no route to Kyoto')", "ValueError(' ⏎ no route to Kyoto')"),
        (
            "1 validation error for Trip\ndays\n  Input should be a valid integer\n    More",
            "1 validation error for Trip ⏎ days ⏎ Input should be a valid integer …",
        ),
        ("E: " + "x" * 40 + "\nmore", "E: " + "x" * 40 + " …"),
        ("E('x')\n\n", "E('x')"),
        ("", ""),
    ],
)
def test_a_short_first_line_is_shown_with_the_next(text: str, start: str) -> None:
    assert error_start(text) == start
