"""`copy` on the command line; its copies are tested in tests/copy and in the conformance suite."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("copy trip-to-kyoto", 2, "no target given"),
    ("copy trip-to-kyoto --as trip-to-kyoto", 5, "already exists"),
    ("copy nobody --as new", 3, "no thread 'nobody'"),
)
