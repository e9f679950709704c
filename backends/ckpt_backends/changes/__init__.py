"""What is written to a store, as data: changes, removals, rows, archives."""
