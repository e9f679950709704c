"""Overwrites single texts and numbers in stored values. All other bytes stay as they are."""
