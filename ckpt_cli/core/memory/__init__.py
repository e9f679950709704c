"""Filter, check and edit items of long-term memory."""
