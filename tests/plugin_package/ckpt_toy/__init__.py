"""A backend of another package: files with one thread as JSON."""
