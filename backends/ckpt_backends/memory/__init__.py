"""Long-term memory: its model, its interface, and names of namespaces."""
