"""`repair` on the command line; what it mends is tested in tests/repair."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("repair messages", 2, "no thread given"),
    ("repair messages nobody", 3, "no thread 'nobody'"),
    ("repair values nobody", 3, "no thread 'nobody'"),
    ("repair writes nobody", 3, "no thread 'nobody'"),
)
