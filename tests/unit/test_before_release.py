"""The list of variants that wait for a release names tests that exist."""

from __future__ import annotations

import pytest

from tests.harness.before_release import STAYS
from tests.support import ROOT


@pytest.mark.parametrize("name", STAYS)
def test_a_listed_test_exists(name: str) -> None:
    path, _, function = name.partition("::")
    assert f"def {function}(" in (ROOT / path).read_text()
