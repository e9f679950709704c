"""`redo` on the command line; what it makes again is tested in tests/operations."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("redo", 3, "nothing to redo"), ("redo trip-to-kyoto", 3, "no operation 'trip-to-kyoto'")
)
