"""Finds text in values."""
