"""Compute the tasks of a checkpoint: which nodes ran, which are next, what they wait for."""
