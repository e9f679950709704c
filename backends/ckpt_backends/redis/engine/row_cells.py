"""The names of the cells in which rows have the contents of keys; see `key_rows.rows_of`."""

ABOUT = frozenset({"key", "type", "expires_at"})
"""Cells of a row that describe its key; all others are its contents."""
MEMBER = "."
"""Prefix of the cell names for fields of a hash, members of a sorted set, and places in a list."""
