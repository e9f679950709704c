"""A layout that `ckpt` can only read refuses every change, and stays as it is."""

from pathlib import Path

import pytest

from ckpt_backends.testing.command_line import ckpt
from ckpt_backends.testing.filling import FilledStore

READ_ONLY = True
CHANGES = {
    "rollback": ["rollback", "linear", "head", "--yes"],
    "fork": ["fork", "linear", "head", "--yes"],
    "copy --at REF --as": ["copy", "linear@head", "--as", "new", "--yes"],
    "copy --as": ["copy", "linear", "--as", "new", "--yes"],
    "threads delete": ["threads", "delete", "linear", "--yes"],
    "purge": ["purge", "--match", "linear", "--yes"],
    "purge --keep-last": ["purge", "--match", "linear", "--keep-last", "1", "--yes"],
    "gc": ["gc", "--scope", "all", "--grace", "0s", "--yes"],
}
SAID = ("read-only", "ckpt only reads", "keeps no history", "newest checkpoint only")
"""Words of the refusals."""


@pytest.mark.parametrize("command", CHANGES)
def test_a_change_is_refused(filled: FilledStore, command: str) -> None:
    before = filled.harness.fingerprint()
    answer = ckpt("-s", filled.harness.url, *CHANGES[command])
    # Nothing is opened for writing where there is nothing to remove.
    allowed = {0, 4} if command == "gc" else {4}
    assert answer.code in allowed, f"{command} must be refused with exit code 4: {answer}"
    assert answer.code == 0 or any(words in answer.err for words in SAID), answer.err
    assert filled.harness.fingerprint() == before, f"{command} changed a store that is read-only"


def test_an_import_is_refused(filled: FilledStore, tmp_path: Path) -> None:
    before = filled.harness.fingerprint()
    exported = ckpt("-s", filled.harness.url, "export", "linear", "--to", tmp_path)
    assert exported.code == 0, exported.err
    (archive,) = tmp_path.iterdir()
    answer = ckpt("-s", filled.harness.url, "import", archive, "--yes")
    assert answer.code == 4, answer
    assert any(words in answer.err for words in SAID), answer.err
    assert filled.harness.fingerprint() == before
