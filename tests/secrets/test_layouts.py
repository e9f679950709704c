"""On each layout, the same secrets are found where its official saver stored them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.harness import Harness
from tests.kit.command import ckpt
from tests.kit.harness import HARNESSES
from tests.kit.opening import empty_store
from tests.secrets.credentials import credentials
from tests.secrets.filling import run

TOKENS = [credentials(seed)["github-token"] for seed in range(8)]
PLANTED: dict[str, Any] = {
    "config": {"db": {"password": "Tr0ub4dor&3"}, "keys": {TOKENS[0]: "in a key"}},
    "input": f"my key is {TOKENS[1]}, keep it",
    "answer": "ok",
    "args": {"auth": {"key": TOKENS[2]}},
    "result": f"<{TOKENS[3]}>",
    "line": TOKENS[4],
    "blob": b"\x00" + TOKENS[5].encode(),
    "question": [TOKENS[6]],
    "metadata": TOKENS[7],
}
AT_HEAD = {
    *("config.db.password", "config.keys", "log[0]", "blob", "messages[0].content"),
    *("messages[1].tool_calls[0].args.auth.key", "messages[2].content"),
}
NO_METADATA = {"kaflow", "redis", "redis-shallow"} | {
    one.name for one in HARNESSES if one.values_only
}
"""The savers of these layouts store no metadata of their users."""
# On SQLite, the other tests are about the same.
LAYOUTS = [one for one in HARNESSES if one.recording is None and one.name != "sqlite"]


@pytest.mark.engines
@pytest.mark.parametrize("kind", LAYOUTS, ids=lambda one: one.name)
def test_secrets_are_found_in_each_layout(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        with harness.saver() as saver:
            run(saver, PLANTED, **kind.run_options)
        before = harness.fingerprint()
        answer = ckpt("-s", harness.url, "secrets", "-o", "json")
        assert harness.fingerprint() == before
    assert answer.code == 1, answer.err
    for token in TOKENS:
        assert token[-12:] not in answer.out + answer.err
    found: dict[str, set[str]] = {}
    for one in answer.json:
        found.setdefault(one["place"], set()).add(one["path"])
    assert found["value"] >= AT_HEAD
    assert found.get("metadata", set()) == (set() if kind.name in NO_METADATA else {"session"})
    if kind.has_writes and not kind.values_only:
        assert "__interrupt__[0].value.draft[0]" in found["write"]
