"""`erase` on the command line; what is left of a person is tested in tests/erase."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("erase", 2, "nothing selected"),
    ("erase --value trip-to-kyoto", 2, "'trip-to-kyoto' names no value"),
    ("erase trip-to-kyoto --ns x", 2, "--ns belongs to --value"),
    ("erase trip-to-kyoto --match x", 2, "--where and --match cannot be combined"),
    ("erase trip-to-kyoto --memory-namespace x", 2, "belongs to --subject"),
    ("erase --verify r.json trip-to-kyoto", 2, "--verify takes no other selection"),
    *(
        (
            f"erase --value trip-to-kyoto:k {one}",
            2,
            "takes no other selection, and writes no receipt",
        )
        for one in ("trip-to-kyoto", "--verify r", "--receipt r", "--archives .", "--match x")
    ),
)
