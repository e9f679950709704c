"""`export` on the command line; archives are tested in tests/copy."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("export", 2, "name the threads in one way"),
    ("export trip-to-kyoto --as-of 1s", 2, "a bundle holds rows as they are now"),
    ("export nobody --to new", 3, "no thread 'nobody'"),
    ("export trip-to-kyoto --format xml", 2, "'xml' is not one of 'bundle'"),
    ("export --all --format parquet", 2, "--format parquet requires --to"),
    *(
        ("export trip-to-kyoto --to x " + one, 2, "for tables")
        for one in ("--jobs 2", "--table threads")
    ),
)
