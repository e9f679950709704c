"""`memory` on the command line; its stores are tested in tests/memory."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("memory list", 4, "no long-term memory in"),
    ("memory delete", 2, "nothing selected"),
    ("memory search", 2, "missing argument 'TEXT'"),
    ("memory edit key", 2, "missing option '--set'"),
    ("memory show --raw", 2, "--raw needs a key"),
)
