"""The matrix of the docs: each cell is tried on a store of the layout."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from ckpt_backends.declaration import known_backends, layouts
from ckpt_backends.plugins import check_declaration, missing_functions
from ckpt_backends.registry import open_store
from ckpt_backends.testing.command_line import CommandResult, ckpt
from ckpt_backends.testing.filling import FilledStore
from ckpt_cli.core.support_matrix import LIMITS, Limit, limit
from ckpt_cli.output import Output

WORDS: Mapping[str, list[str]] = {
    "threads list": ["threads", "list"],
    "show": ["show", "chat"],
    "show --tree": ["show", "chat", "--tree"],
    "history": ["history", "chat"],
    "diff": ["diff", "chat"],
    "messages": ["messages", "chat"],
    "grep": ["grep", "a"],
    "blame": ["blame", "chat", "messages"],
    "bisect": ["bisect", "chat", "values.nothing = null"],
    "tail": ["tail", "chat", "-n", "1", "-o", "ndjson"],
    "du": ["du", "chat"],
    "interrupts": ["interrupts"],
    "errors": ["errors", "--history"],
    "stats": ["stats"],
    "stats --by model": ["stats", "--by", "model"],
    "timeline": ["timeline", "chat"],
    "report": ["report", "chat", "--all-ns"],
    "diff --writes": ["diff", "chat", "--writes"],
    "replay": ["replay", "chat"],
    "rollback": ["rollback", "chat", "head", "--dry-run"],
    "fork": ["fork", "chat", "head", "--dry-run"],
    "copy --at REF --as": ["copy", "chat@head", "--as", "new", "--dry-run"],
    "undo": ["undo", "chat", "--dry-run"],
    "repair messages": ["repair", "messages", "chat", "--dry-run"],
    "repair values": ["repair", "values", "chat", "--dry-run"],
    "repair writes": ["repair", "writes", "chat", "--dry-run"],
    "copy --as": ["copy", "chat", "--as", "new", "--dry-run"],
    "memory sessions": ["memory", "sessions"],
    "export": ["export", "chat", "--to"],
    "purge": ["purge", "--match", "chat", "--dry-run"],
    "purge --keep-last": ["purge", "--match", "chat", "--keep-last", "1", "--dry-run"],
    "threads delete": ["threads", "delete", "chat", "--dry-run"],
    "gc": ["gc", "--scope", "all", "--dry-run"],
}


def test_the_declaration_is_complete_and_says_what_makes_the_matrix(filled: FilledStore) -> None:
    with open_store(filled.harness.url) as store:
        info = store.describe()
    assert info.capabilities == layouts(known_backends())[info.layout]
    (declared,) = (one for one in known_backends() if info.layout in one.layouts)
    assert (check_declaration(declared), missing_functions(declared)) == ([], [])


def test_each_command_does_what_its_cell_says(filled: FilledStore, tmp_path: Path) -> None:
    with open_store(filled.harness.url) as store:
        capabilities = store.describe().capabilities
    before = filled.harness.fingerprint()
    for command in LIMITS:
        words = [*WORDS[command], *([str(tmp_path)] if command == "export" else [])]
        _check_cell(filled, command, words, limit(command, capabilities))
        assert filled.harness.fingerprint() == before, f"{command} must not change the store"


def _check_cell(filled: FilledStore, command: str, words: list[str], lacks: Limit | None) -> None:
    answer = _begun(filled, words) if command == "tail" else ckpt("-s", filled.harness.url, *words)
    if lacks is not None and lacks.cell == "no":
        assert (answer.code, answer.out) == (4, ""), (command, answer)
        assert lacks.why in answer.err, command
        assert "hint: " in answer.err, command
    elif command == "undo":  # Nothing was added yet: it looks, and finds so.
        assert (answer.code, "nothing to undo" in answer.err) == (3, True), (command, answer)
    elif command.startswith("repair "):
        assert (answer.code, "nothing to repair" in answer.err) == (3, True), (command, answer)
    else:
        assert answer.code == 0, (command, answer.err)
        assert answer.out or command == "export", command


def _begun(filled: FilledStore, words: list[str]) -> CommandResult:
    """What a command prints that goes on until it is stopped."""
    with patch.object(Output, "wait", side_effect=EOFError):
        answer = ckpt("-s", filled.harness.url, *words)
    return replace(answer, code=0) if answer.raw else answer
