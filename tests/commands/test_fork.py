"""`fork` on the command line; how threads go on is tested in tests/travel."""

from pathlib import Path

from tests.commands.words import asks_first, refusals
from tests.kit.command import ckpt


def test_a_fork_is_the_new_head_with_the_edit(sample: Path) -> None:
    asks_first(sample, """fork trip-to-kyoto step:3 --replace 'destination="Nara"'""")
    head, *_ = ckpt("-s", sample, "history", "trip-to-kyoto", "-o", "json").json
    assert (head["source"], head["step"]) == ("fork", 4)
    values = ckpt("-s", sample, "show", "trip-to-kyoto", "-o", "json").json["values"]
    assert values["destination"] == "Nara"


test_wrong_words_are_refused = refusals(
    ("fork trip-to-kyoto", 2, "no checkpoint given"),
    ("fork trip-to-kyoto step:3 --set x=1", 3, "no channel 'x' in this thread"),
    ("fork trip-to-kyoto step:3 --set hotel", 2, "'hotel' is not CHANNEL=JSON"),
    ("fork nobody step:3", 3, "no thread 'nobody'"),
)
