"""A table of cases at a test, a case a line."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest


def cases(
    names: str, *rows: Any, ids: Sequence[str] | Callable[[Any], object] | None = None
) -> pytest.MarkDecorator:
    """Run a test for each row; `names` are the parameters that it fills, with spaces between."""
    return pytest.mark.parametrize(names.replace(" ", ","), rows, ids=ids)
