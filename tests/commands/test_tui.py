"""`tui` on the command line; the screen is tested in tests/screen."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("tui", 2, "cannot start the screen: not a terminal"),
    ("tui --page 1", 2, "no such option: --page"),
    ("tui --port 1", 2, "--port needs --serve"),
    ("tui --serve --write", 2, "a served screen is read-only"),
)
