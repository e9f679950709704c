"""`doctor` on the command line; each fault that it finds is tested in tests/doctor."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("doctor nobody", 3, "no thread 'nobody'"), ("doctor --fix", 2, "no such option: --fix")
)
