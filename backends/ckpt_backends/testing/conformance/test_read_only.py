"""A layout that `ckpt` can only read refuses every change, and stays as it is."""

from pathlib import Path

from ckpt_backends.testing.command_line import ckpt
from ckpt_backends.testing.filling import FilledStore

READ_ONLY = True
CHANGES = [
    ["rollback", "linear", "head", "--yes"],
    ["fork", "linear", "head", "--yes"],
    ["copy", "linear@head", "--as", "new", "--yes"],
    ["copy", "linear", "--as", "new", "--yes"],
    ["threads", "delete", "linear", "--yes"],
    ["purge", "--match", "linear", "--yes"],
    ["purge", "--match", "linear", "--keep-last", "1", "--yes"],
    ["gc", "--scope", "all", "--grace", "0s", "--yes"],
]
SAID = ("read-only", "ckpt only reads", "keeps no history", "newest checkpoint only")
"""Words of the refusals."""


def test_a_change_is_refused(filled: FilledStore, tmp_path: Path) -> None:
    before, url = filled.harness.fingerprint(), filled.harness.url
    ckpt("-s", url, "export", "linear", "--to", tmp_path, code=0)
    (archive,) = tmp_path.iterdir()
    for words in (*CHANGES, ["import", str(archive), "--yes"]):
        answer = ckpt("-s", url, *words)
        # Nothing is opened for writing where there is nothing to remove.
        allowed = {0, 4} if words[0] == "gc" else {4}
        assert answer.code in allowed, f"{words} must be refused with exit code 4: {answer}"
        assert answer.code == 0 or any(said in answer.err for said in SAID), answer.err
        assert filled.harness.fingerprint() == before, f"{words} changed a store that is read-only"
