"""The stores on which threads travel."""

from tests.kit.travelling import filled, quietly, stores

__all__ = ["filled", "quietly", "stores"]
