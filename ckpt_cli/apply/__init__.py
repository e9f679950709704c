"""Carry out plans. No other room opens a store for writing."""
