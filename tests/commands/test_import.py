"""`import` on the command line; archives are tested in tests/copy."""

from pathlib import Path

from tests.commands.words import refusals
from tests.kit.command import ckpt


def test_a_store_is_made_if_it_is_asked_for(sample: Path) -> None:
    folder, other = sample.with_name("archive"), sample.with_name("other.db")
    history = ("history", "refund-4711", "-o", "json")
    ckpt("-s", sample, "export", "refund-4711", "--to", folder, code=0)
    for words in (("import", folder), ("copy", "refund-4711", "--to", other)):
        store = other if words[0] == "import" else sample
        assert (ckpt("-s", store, *words, "--yes").code, other.exists()) == (4, False)
        ckpt("-s", store, *words, "--create", "--yes", code=0)
        assert ckpt("-s", other, *history).json == ckpt("-s", sample, *history).json != []
        other.unlink()


test_wrong_words_are_refused = refusals(
    ("import", 2, "missing argument 'FILE'"), ("import none.gz", 4, "cannot read 'none.gz'")
)
