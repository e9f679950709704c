"""`fork` on the command line; see test_apply.py and tests/travel."""

from tests.commands.words import refusals

test_wrong_words_are_refused = refusals(
    ("fork trip-to-kyoto", 2, "no checkpoint given"),
    ("fork trip-to-kyoto step:3 --set x=1", 3, "no channel 'x' in this thread"),
    ("fork trip-to-kyoto step:3 --set hotel", 2, "'hotel' is not CHANNEL=JSON"),
    ("fork nobody step:3", 3, "no thread 'nobody'"),
    ("fork trip-to-kyoto step:3 --as ''", 2, "the new thread id is empty"),
)
