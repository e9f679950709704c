"""The saver's tables under names that an application gave them.

They are read as before. No row is added or removed, and the reason says what `ckpt` does not know.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.harness import Harness
from tests.engines.answers import refuses, succeeds
from tests.kit.agents.steps import talk
from tests.kit.command import ckpt, later
from tests.kit.savers.three_table import connected

QUESTIONS = (
    *(["threads", "list"], ["show", "trip"], ["show", "trip", "--tree"], ["history", "trip"]),
    *(["diff", "trip@~2", "trip"], ["grep", "from"], ["replay", "trip"]),
)
CHANGES = (
    *(["rollback", "trip", "--steps", "1"], ["fork", "trip", "head"]),
    *(["threads", "delete", "trip"], ["purge", "--older-than", "0s"]),
)
REASON = "tables with other names"
OWN = {
    "sqlite": ("Agent Checkpoints", "agent_writes"),
    "postgres": ("Agent Checkpoints", "agent_values", "agent_writes"),
}


def answers(store: str) -> list[Any]:
    found = []
    for words in QUESTIONS:
        answer = succeeds(store, *words, "-o", "json")
        found.append(without_sizes(answer.json))
    return found


def without_sizes(found: Any) -> Any:
    """Answers without what depends on the types and names of columns, and on the time."""
    if isinstance(found, list):
        return [without_sizes(one) for one in found]
    if isinstance(found, dict):
        left_out = ("bytes", "size", "free", "store", "sources")
        return {name: without_sizes(one) for name, one in found.items() if name not in left_out}
    return found


@pytest.mark.parametrize("place", ["sqlite", *later("postgres")], indirect=True)
def test_tables_with_other_names(place: Harness, tmp_path: Path) -> None:
    talk(place.kept_saver, "trip")
    before, own = answers(place.url), OWN[place.name]
    usual = {"sqlite": ("checkpoints", "writes")}.get(
        place.name, ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    )
    with connected(place.url) as execute:
        for name, new in zip(usual, own, strict=True):
            execute(f'ALTER TABLE {name} RENAME TO "{new}"', [])
        if place.name == "sqlite":
            # A table of the application that has the saver's name.
            execute("CREATE TABLE checkpoints (id int)", [])
    url = place.url if "://" in place.url else f"sqlite:///{place.url}"
    listed = ",".join(own)
    store = f"{url}?tables={listed.replace(' ', '%20')}"
    assert answers(store) == before
    if place.name == "sqlite":
        assert answers(f"{store}&copy=1") == before
    else:
        assert "found 'Agent Checkpoints', agent_values" in ckpt("-s", url, "du").err
    config = tmp_path / "ckpt.toml"
    config.write_text(f'[stores.own]\nurl = "{url}"\ntables = "{listed}"\n')
    assert ckpt("--config", config, "-s", "own", "show", "trip").code == 0
    assert f"note: ckpt only reads this store: {REASON}" in ckpt("-s", store, "show", "trip").err
    for words in CHANGES:
        refuses(store, *words, "--yes", says=f"': {REASON}\nhint: ckpt only reads it; `ckpt copy")
    # The hint helps: the copy goes on.
    target = tmp_path / "copy.db"
    succeeds(store, "copy", "trip", "--to", target, "--create", "--yes")
    assert ckpt("-s", target, "rollback", "trip", "--steps", "1", "--yes").code == 0
    refuses(re.sub(r"Agent[^,]*", "one", store), "du", says="no table 'one'")
    refuses(f"{url}?tables=agent_writes", "du", says=", ".join(usual), code=2)
