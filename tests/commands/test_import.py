"""`import` on the command line; archives are tested in tests/copy."""

from pathlib import Path

from tests.commands.words import refusals
from tests.kit.command import ckpt


def test_what_is_exported_is_imported_as_it_was(sample: Path) -> None:
    folder, other = sample.with_name("archive"), sample.with_name("other.db")
    history = ("history", "refund-4711", "-o", "json")
    assert ckpt("-s", sample, "export", "refund-4711", "--to", folder).code == 0
    assert (ckpt("-s", other, "import", folder, "--yes").code, other.exists()) == (4, False)
    assert ckpt("-s", other, "import", folder, "--create", "--yes").code == 0
    assert ckpt("-s", other, *history).json == ckpt("-s", sample, *history).json != []


test_wrong_words_are_refused = refusals(
    ("import", 2, "missing argument 'FILE'"), ("import none.gz", 4, "cannot read 'none.gz'")
)
