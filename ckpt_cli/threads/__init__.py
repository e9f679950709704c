"""Read threads: find the thread and checkpoint that a ref names, and read states and tasks."""
