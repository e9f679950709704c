"""`trust` on the command line; what it allows is tested in tests/security."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("trust", 2, "no configuration file in this folder or above it"),
    ("trust none.toml", 2, "none.toml': no such file"),
)
