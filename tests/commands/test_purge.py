"""`purge` on the command line; see test_apply.py and tests/retention."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("purge", 2, "nothing selected"),
    ("purge --older-than soon", 2, "'soon' is not a time"),
    ("purge --keep-last 0", 2, "--keep-last"),
    ("purge --plan plan --yes", 2, "hint: use `ckpt apply FILE`"),
    ("purge --expired", 2, "--expired needs to know how long"),
)
