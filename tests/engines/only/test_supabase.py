"""SupabaseSaver's tables: the saver goes on from what was changed, and what else is in there."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.types import Command

from ckpt_backends.testing.library import config_of_thread, graph_of
from tests.kit.command import ckpt
from tests.kit.savers.supabase import made, saver_on
from tests.kit.servers import Server, postgres_database

pytestmark = pytest.mark.engines


@pytest.fixture
def url(postgres_server: Server) -> Iterator[str]:
    with postgres_database(postgres_server) as database:
        yield made(database)


def run(url: str, thread_id: str, *, asks: bool = False) -> None:
    with saver_on(url) as saver:
        graph_of(saver, asks=asks).invoke({"items": ["in"]}, config_of_thread(thread_id))


def rows(url: str, query: str, *values: Any) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(query.encode(), values)
        return found.fetchall() if found.description else []


def test_the_saver_answers_the_question_to_which_a_rollback_leads(url: str) -> None:
    run(url, "asking", asks=True)
    with saver_on(url) as saver:
        graph = graph_of(saver, asks=True)
        expected = graph.invoke(Command(resume="an answer"), config_of_thread("asking"))
        begun = rows(url, "SELECT now()")
        question = next(
            one
            for one in graph.get_state_history(config_of_thread("asking"))
            if any(task.interrupts for task in one.tasks)
        )
        at = question.config["configurable"]["checkpoint_id"]
        done = ckpt("-s", url, "rollback", "asking", "--at", at, "--yes", "-o", "json")
        assert done.code == 0, done.err
        assert graph.get_state(config_of_thread("asking")).next == question.next
        assert graph.invoke(Command(resume="an answer"), config_of_thread("asking")) == expected
        assert [one.checkpoint["id"] for one in saver.list(config_of_thread("asking"))]
    query = "SELECT created_at FROM langgraph_checkpoints WHERE checkpoint_id = %s"
    # A job that removes old rows must not take the new head for one of them.
    assert rows(url, query, done.json["checkpoint_id"]) > begun


def test_langgraphs_tables_beside_them_are_chosen_by_layout(url: str) -> None:
    run(url, "of supabase")
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        graph_of(saver).invoke({"items": ["in"]}, config_of_thread("of langgraph"))
    for store, thread_id in ((url, "of langgraph"), (f"{url}?layout=supabase", "of supabase")):
        found = ckpt("-s", store, "threads", "list", "-o", "json").json
        assert [one["thread_id"] for one in found] == [thread_id]


def test_rows_that_no_saver_writes_are_shown_as_what_they_are(url: str) -> None:
    run(url, "one")
    query = """UPDATE langgraph_checkpoints SET checkpoint = %s::jsonb
               WHERE parent_checkpoint_id IS NULL"""
    for stored in (
        *("[]", '"x"', "{}", '{"data": "YQ=="}', '{"type": 1, "data": {"a": 1}}'),
        '{"type": "msgpack", "data": "abcde"}',
    ):
        rows(url, query, stored)
        for words in (["history", "one"], ["show", "one@~0"], ["threads", "list"], ["du"]):
            assert ckpt("-s", url, *words).code == 0, (stored, words)
        found = ckpt("-s", url, "doctor", "--deep", "-o", "json").json
        assert "body-unreadable" in json.dumps(found), stored
    rows(url, """UPDATE langgraph_checkpoint_writes SET write = '{"type": null}', channel = 'x'""")
    assert ckpt("-s", url, "show", "one", "--tree").code == 0
    assert ckpt("-s", url, "threads", "delete", "one", "--yes").code == 0
    assert rows(url, "SELECT 1 FROM langgraph_checkpoint_writes") == []


def test_tables_with_other_columns_are_only_read_or_refused(url: str) -> None:
    run(url, "one")
    rows(url, "ALTER TABLE langgraph_checkpoints ADD COLUMN owner uuid")
    assert ckpt("-s", url, "show", "one").code == 0
    refused = ckpt("-s", url, "threads", "delete", "one", "--yes")
    assert refused.code == 4
    assert "langgraph_checkpoints.owner" in refused.err
    rows(url, "ALTER TABLE langgraph_checkpoint_writes DROP COLUMN write")
    refused = ckpt("-s", url, "threads", "list")
    assert refused.code == 4
    assert "missing langgraph_checkpoint_writes.write" in refused.err
