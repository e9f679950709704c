"""The layouts that keep each checkpoint in a hash."""
