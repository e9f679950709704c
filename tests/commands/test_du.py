"""`du` on the command line; its sums are tested in the conformance suite."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("du --by colour", 2, "'colour' is not one of 'thread', 'channel'"),
    ("du --top 0", 2, "--top"),
    ("du nobody", 3, "no thread 'nobody'"),
    ("du trip-to-kyoto --match t*", 2, "cannot be combined with --match"),
)
