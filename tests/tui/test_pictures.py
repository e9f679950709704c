"""The screen as it was last looked at, in the pictures that the documents show."""

from __future__ import annotations

import pytest

from tests.kit.command import later
from tests.packaging.pictures import FOLDER, PICTURES, Picture, take


@pytest.mark.parametrize(
    "picture", [*PICTURES[:3], *later(*PICTURES[3:])], ids=lambda one: one.name
)
def test_the_screen_looks_as_in_its_picture(picture: Picture) -> None:
    kept = (FOLDER / f"{picture.name}.svg").read_text(encoding="utf-8")
    # Not compared by pytest, which would look for the difference of long lines for minutes.
    is_same = take(picture) == kept
    assert is_same, "if this is meant: python -m tests.packaging.pictures"
