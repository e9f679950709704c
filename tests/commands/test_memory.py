"""`memory` on the command line; its stores are tested in tests/memory."""

from pathlib import Path

from langgraph.store.sqlite import SqliteStore

from tests.commands.words import refusals
from tests.kit.command import ckpt


def test_items_of_a_user_are_listed(path: Path) -> None:
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        store.put(("users", "anna"), "profile", {"tea": "green"})
        store.put(("users", "bob"), "profile", {"tea": "none"})
    for user, places in (("bob", [["users", "bob"]]), ("profile", [])):
        found = ckpt("-s", path, "memory", "list", "--user", user, "-o", "json").json
        assert [one["namespace"] for one in found] == places


test_wrong_words_are_refused = refusals(
    ("memory list", 4, "no long-term memory in"),
    ("memory delete", 2, "nothing selected"),
    ("memory search", 2, "missing argument 'TEXT'"),
    ("memory edit key", 2, "missing option '--set'"),
)
