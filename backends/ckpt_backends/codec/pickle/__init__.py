"""Reads pickles without running them."""
