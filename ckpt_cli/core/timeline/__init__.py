"""How long the steps of a thread took, from the times of its checkpoints."""
