"""`demo` writes the sample store."""

from tests.commands.words import refusals
from tests.kit.command import SAMPLE

test_wrong_words_are_refused = refusals(
    ("demo", 2, "missing argument 'PATH'"), (f"demo {SAMPLE}", 5, "the file exists")
)
