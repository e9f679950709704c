"""`rollback` on the command line; see test_apply.py and tests/travel."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("rollback", 2, "no thread given"),
    ("rollback trip-to-kyoto", 2, "no checkpoint given for thread 'trip-to-kyoto'"),
    ("rollback trip-to-kyoto --steps 0", 2, "--steps"),
    ("rollback trip-to-kyoto --steps 99", 3, "its head has 13 earlier checkpoints"),
    ("rollback trip-to-kyoto ~1 --steps 1", 2, "a REF cannot be combined with --steps"),
    ("rollback nobody --steps 1", 3, "no thread 'nobody'"),
)
