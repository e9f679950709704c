"""`erase` on the command line; what is left of a person is tested in tests/erase."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("erase", 2, "nothing selected"),
    ("erase --value trip-to-kyoto", 2, "'trip-to-kyoto' names no value"),
)
