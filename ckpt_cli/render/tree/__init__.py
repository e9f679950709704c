"""The tree of a thread, as lines of text and as Mermaid."""
