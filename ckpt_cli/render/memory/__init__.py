"""Long-term memory, as text and as records."""
