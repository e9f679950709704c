"""The screen in a browser, for `ckpt tui --serve`."""

SERVED = "CKPT_SERVED"
"""The variable with the arguments of a served screen: other users can read a command line."""
