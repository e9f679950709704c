"""`rekey` on the command line; what LangGraph reads afterwards is tested in tests/rekey."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("rekey", 2, "nothing to do"),
    ("rekey trip-to-kyoto --encrypt", 2, "no key to encrypt with"),
    ("rekey trip-to-kyoto --decrypt", 2, "no key to decrypt with"),
)
