"""The stores from which threads and checkpoints are removed."""

from tests.kit.travelling import filled, quietly, stores

__all__ = ["filled", "quietly", "stores"]
