"""Finds credentials in texts and values."""
