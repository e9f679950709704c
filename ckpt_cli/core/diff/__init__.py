"""Compute the differences of values and states."""
