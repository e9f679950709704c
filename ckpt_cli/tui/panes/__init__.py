"""The widgets that show lines: lists, trees, documents, and their filters and searches."""
