"""Moves threads between layouts: the parts of a thread, and their conversion between forms."""
