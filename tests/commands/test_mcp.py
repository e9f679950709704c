"""`mcp` on the command line; what it serves is tested in tests/doors."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("mcp nobody", 2, "unexpected extra argument"),
    ("mcp --bogus", 2, "no such option: --bogus"),
    ("mcp --values --redact", 2, "--redact hides all values"),
    ("mcp --channels messages --redact", 2, "--redact hides all values"),
)
