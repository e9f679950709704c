"""Decodes and edits BSON."""
