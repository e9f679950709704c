"""`ops` on the command line; what is recorded is tested in tests/operations."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("ops show", 2, "missing argument 'OP'"),
    ("ops show abc", 3, "no operation 'abc'"),
    *((f"ops {one} 3f2a", 2, f"hint: use `ckpt {one} OP`") for one in ("undo", "redo")),
    ("ops verify", 2, "no audit file given"),
    ("ops verify none.log", 2, "none.log"),
    ("ops verify none.log --head abc", 2, "--head takes a whole hash"),
)
