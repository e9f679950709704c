"""`doctor` on the command line; each fault that it finds is tested in tests/doctor."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.commands.words import refusals
from tests.kit.command import ckpt


def test_a_sound_store_has_no_findings_and_a_damaged_one_fails_the_check(sample: Path) -> None:
    sound = ckpt("-s", sample, "doctor", "-o", "json")
    assert (sound.code, sound.json["findings"]) == (0, [])
    assert ckpt("-s", sample, "doctor").err.endswith("35 values: no findings\n")
    with closing(sqlite3.connect(sample)) as db, db:
        db.execute("UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = 'refund-4711'")
    found = ckpt("-s", sample, "doctor", "-o", "json")
    assert found.code == 1
    assert {(one["code"], one["thread_id"]) for one in found.json["findings"]} == {
        ("body-unreadable", "refund-4711")
    }
    assert ckpt("-s", sample, "doctor", "trip-to-kyoto").code == 0


test_wrong_words_are_refused = refusals(
    ("doctor nobody", 3, "no thread 'nobody'"), ("doctor --fix", 2, "no such option: --fix")
)
