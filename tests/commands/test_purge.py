"""`purge` on the command line; what it removes is tested in tests/retention."""

from pathlib import Path

from tests.commands.words import asks_first, refusals
from tests.kit.command import ckpt


def test_old_threads_go_and_those_that_wait_stay(sample: Path) -> None:
    asks_first(sample, "purge --older-than 0s")
    left = ckpt("-s", sample, "threads", "list", "-o", "json").json
    assert {one["status"] for one in left} == {"error", "interrupted", "pending"}


def test_old_checkpoints_go_and_threads_stay(sample: Path) -> None:
    asks_first(sample, "purge --keep-last 2 --match trip-*")
    counts = {
        one["thread_id"]: one["checkpoints"]
        for one in ckpt("-s", sample, "threads", "list", "-o", "json").json
    }
    assert (len(counts), counts["trip-to-kyoto"], counts["refund-4711"]) == (8, 2, 5)


def test_nothing_may_be_old_enough(sample: Path) -> None:
    answer = ckpt("-s", sample, "purge", "--older-than", "9999d", "--yes")
    assert (answer.code, "nothing" in answer.out + answer.err) == (0, True)


test_wrong_words_are_refused = refusals(
    ("purge", 2, "nothing selected"),
    ("purge --older-than soon", 2, "'soon' is not a time"),
    ("purge --keep-last 0", 2, "--keep-last"),
    ("purge --expired", 2, "--expired needs to know how long"),
)
