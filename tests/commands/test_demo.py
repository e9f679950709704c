"""`demo` writes the sample store."""

from pathlib import Path

import pytest

from tests.commands.words import refuses
from tests.kit.command import SAMPLE, ckpt


def test_the_sample_store_is_written_once(tmp_path: Path) -> None:
    target = tmp_path / "new.db"
    answer = ckpt("demo", target)
    assert (answer.code, answer.out) == (0, "")
    assert f"ckpt -s {target} threads list" in answer.err
    assert target.read_bytes() == SAMPLE.read_bytes()
    again = ckpt("demo", target)
    assert (again.code, "the file exists" in again.err) == (5, True)


@pytest.mark.parametrize(("words", "code", "said"), [("demo", 2, "missing argument 'PATH'")])
def test_wrong_words_are_refused(sample: Path, words: str, code: int, said: str) -> None:
    refuses(sample, words, code, said)
