"""Compute plans: what a change would do, from what was read. Nothing here writes to a store."""
