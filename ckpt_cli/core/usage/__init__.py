"""The tokens that messages cost, and their prices."""
