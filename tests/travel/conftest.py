"""The stores on which threads travel."""

from __future__ import annotations

from tests.kit.travelling import filled, quietly, stores

__all__ = ["filled", "quietly", "stores"]
