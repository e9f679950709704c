"""Stores of single applications."""
