"""`secrets` on the command line; what it finds is tested in tests/secrets."""

from pathlib import Path

from tests.commands.words import refusals
from tests.kit.command import ckpt


def test_a_store_without_secrets_says_so(sample: Path) -> None:
    clean = ckpt("-s", sample, "secrets", "-o", "json")
    assert (clean.code, clean.json, clean.err) == (0, [], "note: searched 8 threads: no secrets\n")


test_wrong_words_are_refused = refusals(
    ("secrets nobody", 3, "no thread 'nobody'"),
    ("secrets --rules none.toml", 2, "no such option: --rules"),
)
