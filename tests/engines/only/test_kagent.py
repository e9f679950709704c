"""kagent's layout: whose threads there are, what is softly deleted, and what else is in there."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.registry import open_store
from ckpt_backends.testing.library import graph_of
from tests.engines.answers import succeeds
from tests.kit.agents.steps import config_of
from tests.kit.command import ckpt
from tests.kit.harness.kagent import USER, made, saver_on
from tests.kit.servers import Server, postgres_database

pytestmark = pytest.mark.engines


@pytest.fixture
def url(postgres_server: Server) -> Iterator[str]:
    with postgres_database(postgres_server) as database:
        yield made(database)


def run(url: str, thread_id: str, user: str = "", *, asks: bool = False) -> None:
    config = config_of(thread_id, **({"user_id": user} if user else {}))
    with saver_on(url) as saver:
        graph_of(saver, asks=asks).invoke({"items": ["in"]}, config)


def rows(url: str, query: str, *values: Any) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(query.encode(), values)
        return found.fetchall() if found.description else []


def users(url: str, thread_id: str) -> set[str]:
    tables = ("lg_checkpoint", "lg_checkpoint_write")
    query = " UNION ".join(f"SELECT user_id FROM {one} WHERE thread_id = %s" for one in tables)
    return {user for (user,) in rows(url, query, thread_id, thread_id)}


def listed(url: str, *words: str) -> dict[str, str]:
    """The threads that `ckpt` lists, with their users."""
    found = ckpt("-s", url, "threads", "list", *words, "-o", "json").json
    return {one["thread_id"]: one.get("user") for one in found}


def test_threads_have_their_users(url: str) -> None:
    run(url, "anna's", "anna")
    run(url, "nobody's")
    assert listed(url) == {"anna's": "anna", "nobody's": USER}
    anna = f"{url}?user_id=anna"
    assert "?user_id=anna" in ckpt("-s", anna, "stores", "-o", "json").json[0]["url"]
    assert listed(anna) == listed(url, "--user", "anna") == {"anna's": "anna"}
    assert listed(f"{url}?user_id=nobody") == {}


def test_new_rows_are_of_the_threads_user(url: str) -> None:
    run(url, "asking", "anna", asks=True)
    for words in (["fork", "asking", "--at", "~1"], ["copy", "asking", "--as", "copied"]):
        succeeds(url, *words, "--yes")
    assert [users(url, one) for one in ("asking", "copied")] == [{"anna"}] * 2
    assert not rows(url, "SELECT 1 FROM lg_checkpoint WHERE created_at IS NULL OR version <> 4")


def test_copies_get_the_named_user_and_archives_keep_theirs(url: str, tmp_path: Path) -> None:
    run(url, "one", "anna")
    file, ben = tmp_path / "copy.db", f"{url}?user_id=ben"
    assert ckpt("-s", url, "copy", "--all", "--to", file, "--create", "--yes").code == 0
    succeeds(url, "threads", "delete", "one", "--archive", tmp_path / "archive", "--yes")
    for target, user in ((ben, "ben"), (url, USER)):
        assert ckpt("-s", file, "copy", "--all", "--to", target, "--yes").code == 0
        assert users(url, "one") == {user}
        rows(url, "TRUNCATE lg_checkpoint, lg_checkpoint_write")
    refused = ckpt("-s", ben, "import", tmp_path / "archive", "--yes")
    assert refused.code != 0
    assert "user 'anna'" in refused.err
    assert ckpt("-s", url, "import", tmp_path / "archive", "--yes").code == 0
    assert users(url, "one") == {"anna"}


def test_what_is_softly_deleted_is_gone_and_goes_with_its_thread(url: str) -> None:
    run(url, "gone")
    run(url, "kept")
    with saver_on(url) as saver:
        for thread_id in ("gone", "kept"):
            saver.delete_thread(thread_id)
    run(url, "kept")
    assert listed(url) == {"kept": USER}
    assert ckpt("-s", url, "show", "gone").code == 3
    with saver_on(url) as saver, closing(open_store(url)) as store:
        own = [one.checkpoint["id"] for one in saver.list(config_of("kept"))]
        assert [one.key.checkpoint_id for one in store.checkpoints("kept")] == own
        assert {row.cells["deleted_at"] for row in store.rows("kept")} == {None}
    assert ckpt("-s", url, "doctor", "--deep").code == 0
    assert ckpt("-s", url, "threads", "delete", "kept", "--yes").code == 0
    assert users(url, "kept") == set()
    assert users(url, "gone") == {USER}


def test_two_tasks_that_wrote_the_same_number_are_refused(url: str, tmp_path: Path) -> None:
    file, config = tmp_path / "one.db", config_of("one")
    with SqliteSaver.from_conn_string(str(file)) as saver:
        graph_of(saver).invoke({"items": ["in"]}, config)
        head = saver.get_tuple(config)
        assert head is not None
        for task in "ab":
            saver.put_writes(head.config, [("items", task)], task)
    refused = ckpt("-s", file, "copy", "--all", "--to", url, "--yes")
    assert refused.code != 0
    assert "two tasks wrote number 0" in refused.err + refused.out
    assert users(url, "one") == set()
