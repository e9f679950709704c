"""Arranges a thread as rows to draw: branches, forks, tips, folded steps, subgraph calls."""
