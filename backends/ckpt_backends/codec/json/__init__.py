"""Decodes and encodes JSON, in the forms of each serializer."""
