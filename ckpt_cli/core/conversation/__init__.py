"""Read chat messages from values, and turn them into a conversation."""
