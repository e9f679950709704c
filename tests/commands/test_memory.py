"""`memory` on the command line; its stores are tested in tests/memory."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.store.sqlite import SqliteStore

from tests.commands.words import asks_first, refusals
from tests.kit.command import ckpt


@pytest.fixture
def items(path: Path) -> Path:
    """A SQLite file with two items."""
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        store.put(("users", "anna"), "profile", {"tea": "green"})
        store.put(("users", "bob"), "profile", {"tea": "none"})
    return path


def test_items_are_listed_shown_found_and_deleted(items: Path) -> None:
    def memory(*words: str) -> Any:
        return ckpt("-s", items, "memory", *words, "-o", "json").json

    assert [one["namespace"] for one in memory("list")] == [["users", "anna"], ["users", "bob"]]
    assert [one["namespace"] for one in memory("list", "--user", "bob")] == [["users", "bob"]]
    assert memory("list", "--user", "profile") == []
    assert memory("show", "users/anna/profile")["value"] == {"tea": "green"}
    assert [one["namespace"] for one in memory("search", "green")] == [["users", "anna"]]
    asks_first(items, "memory delete users/anna/profile")
    assert [one["namespace"] for one in memory("list")] == [["users", "bob"]]


test_wrong_words_are_refused = refusals(
    ("memory list", 4, "no long-term memory in"),
    ("memory delete", 2, "nothing selected"),
    ("memory search", 2, "missing argument 'TEXT'"),
    ("memory edit key", 2, "missing option '--set'"),
)
