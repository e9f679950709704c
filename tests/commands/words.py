"""What command lines do with the sample store."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.command import ckpt


def refuses(store: Path | str, words: str, code: int, said: str) -> None:
    """Fail the test unless `ckpt` refuses a command line, as in a shell, in one line with at most a
    hint.
    """
    answer = ckpt("-s", store, *shlex.split(words))
    lines = [line for line in answer.err.splitlines() if not line.startswith("note: ")]
    assert (answer.code, answer.out) == (code, ""), answer.err
    assert [line.partition(": ")[0] for line in lines] in (["ckpt"], ["ckpt", "hint"]), answer.err
    assert said.lower() in answer.err.lower()


def refusals(*rows: tuple[str, int, str]) -> Callable[[Path, str, int, str], None]:
    """Return a test that the sample store gets these command lines refused: each with its exit code
    and a part of what is said.
    """

    @pytest.mark.parametrize(("words", "code", "said"), rows)
    def test(sample: Path, words: str, code: int, said: str) -> None:
        refuses(sample, words, code, said)

    return test
