"""Values and their differences, on one line or in full."""
