"""`undo` on the command line; what it takes back is tested in tests/operations."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("undo", 3, "nothing to undo"),
    ("undo nobody", 3, "no thread 'nobody'"),
    ("undo trip-to-kyoto", 3, "nothing"),
)
