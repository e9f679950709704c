"""The main screen, and the screens that open over it."""
