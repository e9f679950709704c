"""Decodes, measures, splits and changes msgpack."""
