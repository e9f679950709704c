"""`copy` on the command line; the copies between layouts are tested in tests/copy."""

from pathlib import Path

from tests.commands.words import asks_first, refusals
from tests.kit.command import ckpt


def test_a_thread_is_copied_to_a_new_one(sample: Path) -> None:
    asks_first(sample, "copy refund-4711 --as again")
    old, new = (ckpt("-s", sample, "messages", it, "-o", "json") for it in ("refund-4711", "again"))
    assert new.json == old.json != []


def test_a_store_is_made_for_the_copy_if_it_is_asked_for(sample: Path) -> None:
    target = sample.with_name("new.db")
    words = ("-s", sample, "copy", "refund-4711", "--to", target, "--yes")
    assert (ckpt(*words).code, target.exists()) == (4, False)
    assert ckpt(*words, "--create").code == 0
    (copied,) = ckpt("-s", target, "threads", "list", "-o", "json").json
    assert copied["thread_id"] == "refund-4711"


test_wrong_words_are_refused = refusals(
    ("copy trip-to-kyoto", 2, "no target given"),
    ("copy trip-to-kyoto --as trip-to-kyoto", 5, "already exists"),
    ("copy nobody --as new", 3, "no thread 'nobody'"),
)
