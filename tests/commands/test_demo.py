"""`demo` writes the sample store."""

from pathlib import Path

from tests.commands.words import refusals
from tests.kit.command import SAMPLE, ckpt


def test_the_sample_store_is_written_once(tmp_path: Path) -> None:
    target = tmp_path / "new.db"
    answer = ckpt("demo", target)
    assert (answer.code, answer.out) == (0, "")
    assert f"ckpt -s {target} threads list" in answer.err
    assert target.read_bytes() == SAMPLE.read_bytes()
    again = ckpt("demo", target)
    assert (again.code, "the file exists" in again.err) == (5, True)


test_wrong_words_are_refused = refusals(("demo", 2, "missing argument 'PATH'"))
