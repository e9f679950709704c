"""`secrets` on the command line; what it finds is tested in tests/secrets."""

from pathlib import Path

from tests.commands.words import refusals
from tests.kit.command import ckpt


def test_a_store_without_secrets_says_so_and_one_with_a_key_names_its_place(sample: Path) -> None:
    clean = ckpt("-s", sample, "secrets", "-o", "json")
    assert (clean.code, clean.json, clean.err) == (0, [], "note: searched 8 threads: no secrets\n")
    key = "AKIA" + "IOSFODNN7EXAMPL2"
    words = ["fork", "trip-to-kyoto", "head", "--replace", f'destination="key {key}"', "--yes"]
    assert ckpt("-s", sample, *words).code == 0
    found = ckpt("-s", sample, "secrets", "-o", "json")
    assert {(one["thread_id"], one["channel"]) for one in found.json} == {
        ("trip-to-kyoto", "destination")
    }
    assert key not in found.out


test_wrong_words_are_refused = refusals(
    ("secrets nobody", 3, "no thread 'nobody'"),
    ("secrets --rules none.toml", 2, "no such option: --rules"),
)
