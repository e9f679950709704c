"""`export` on the command line; archives are tested in tests/copy."""

import json
from pathlib import Path

from tests.commands.words import refusals
from tests.kit.command import ckpt


def test_threads_are_archived_or_printed(sample: Path) -> None:
    folder = sample.with_name("archive")
    assert ckpt("-s", sample, "export", "refund-4711", "anna@example.com", "--to", folder).code == 0
    assert len(list(folder.iterdir())) == 2
    words = ("-s", sample, "export", "refund-4711", "--format", "jsonl")
    shown = [json.loads(line) for line in ckpt(*words).out.splitlines()]
    assert {one["thread_id"] for one in shown} == {"refund-4711"}
    hidden = ckpt(*words, "--redact").out
    assert ("89.00" in ckpt(*words).out, "89.00" in hidden) == (True, False)


test_wrong_words_are_refused = refusals(
    ("export", 2, "name the threads in one way"),
    ("export nobody --to new", 3, "no thread 'nobody'"),
    ("export trip-to-kyoto --format xml", 2, "'xml' is not one of 'bundle'"),
)
