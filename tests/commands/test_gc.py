"""`gc` on the command line; what it removes is tested in tests/retention."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("gc", 2, "no scope given"), ("gc --scope nothing", 2, "'nothing' is not one of 'blobs'")
)
