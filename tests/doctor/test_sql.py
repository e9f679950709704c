"""Tables of PostgreSQL and MySQL: what is no fault, and what keeps a saver from loading them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from ckpt_backends.sql import health
from tests.doctor.asking import faults, only
from tests.doctor.engine_faults import run
from tests.kit.agents import steps as agent
from tests.kit.agents.steps import config_of
from tests.kit.harness import mysql
from tests.kit.servers import Server, postgres_database


def test_little_unused_space_and_a_small_part_are_no_fault() -> None:
    mib = 1 << 20
    assert list(health.unused_space("it", 60 * mib, 61 * mib, "")) == []
    assert list(health.unused_space("it", 100 * mib, 400 * mib, "")) == []
    (found,) = health.unused_space("it", 101 * mib, 400 * mib, "")
    assert found.detail == "101 of 400 MiB of it are unused"


@pytest.fixture(scope="module")
def shared_url(postgres_server: Server) -> Iterator[str]:
    """A database whose faults are mended again."""
    with postgres_database(postgres_server) as url:
        agent.fill(url, "trip")
        yield url


@pytest.mark.engines
def test_an_index_that_is_being_built_is_no_fault(shared_url: str) -> None:
    """`CREATE INDEX CONCURRENTLY` waits for the writer here, and its index is not valid yet."""
    from threading import Thread

    run(shared_url, "DROP INDEX checkpoint_writes_thread_id_idx")
    fix = only(shared_url).fix
    with psycopg.connect(shared_url) as writer:
        writer.execute("UPDATE checkpoint_writes SET idx = idx")
        builder = Thread(target=run, args=(shared_url, fix))
        builder.start()
        with psycopg.connect(shared_url, autocommit=True) as looking:
            while not looking.execute("SELECT 1 FROM pg_stat_progress_create_index").fetchall():
                pass
        with agent.role(shared_url) as url:
            assert faults(url) == []
    builder.join()
    assert faults(shared_url) == []


def test_nothing_is_expected_of_an_unknown_saver(postgres_url: str) -> None:
    agent.fill(postgres_url, "trip")
    run(
        postgres_url,
        "DROP INDEX checkpoints_thread_id_idx",
        "ALTER TABLE checkpoints ADD COLUMN created_at timestamptz",
    )
    assert faults(postgres_url) == []


def test_a_role_that_may_only_read_the_three_tables_sees_faults(shared_url: str) -> None:
    with agent.role(shared_url) as url:
        assert faults(url) == []
        run(shared_url, "DROP INDEX checkpoints_thread_id_idx")
        # An index of another name serves as well.
        run(shared_url, only(url).fix.replace("checkpoints_thread_id_idx", "another_name"))
        assert faults(url) == []


SIZE = 60_000
_WHOLE = SIZE // 3 * 4 + 2 * ((SIZE // 3 * 4 - 1) // 76) + len("document") + len("bytes") + 12
NEEDED = _WHOLE + len('["notes", "msgpack", "kad3cml0dGVu"]') + 1
"""Bytes of the JSON text that the saver parses."""


class Documents(TypedDict, total=False):
    document: bytes
    notes: list[str]


def written(saver: Any, size: int) -> Any:
    graph = StateGraph(Documents)
    graph.add_node("write", lambda _: {"document": b"x" * size, "notes": ["written"]})
    graph.add_edge(START, "write")
    return graph.compile(checkpointer=saver)


def fill_documents(url: str) -> None:
    with mysql.saver_of(url) as saver:
        written(saver, SIZE).invoke({"notes": []}, config_of("trip"))


def loaded(url: str) -> dict[str, Any]:
    """What the official saver loads. Raises its errors."""
    with mysql.saver_of(url) as saver:
        values = written(saver, 0).get_state(config_of("trip")).values
        return {**values}


@contextmanager
def settings(url: str, **values: int) -> Iterator[None]:
    """The server with other settings for new connections."""
    asked = ", ".join(f"@@GLOBAL.{name}" for name in values)
    (before,) = mysql.run(url, f"SELECT {asked}")
    mysql.run(url, *(f"SET GLOBAL {name} = {value}" for name, value in values.items()))
    try:
        yield
    finally:
        kept = zip(values, before, strict=True)
        mysql.run(url, *(f"SET GLOBAL {name} = {value}" for name, value in kept))


@pytest.mark.engines
@pytest.mark.parametrize("large", [{}, {"max_allowed_packet": 1 << 24}])
def test_a_limit_that_cuts_what_the_saver_loads_is_named_and_mended(
    mysql_url: str, large: dict[str, int]
) -> None:
    fill_documents(mysql_url)
    whole = loaded(mysql_url)
    assert [*whole] == ["document", "notes"]
    with settings(mysql_url, group_concat_max_len=NEEDED, **large):
        assert faults(mysql_url) == []
        assert loaded(mysql_url) == whole
        mysql.run(mysql_url, f"SET GLOBAL group_concat_max_len = {NEEDED - 1}")
        with pytest.raises(ValueError, match="line 1 column"):
            loaded(mysql_url)
        found = only(mysql_url)
        assert (found.code, found.thread_id) == ("saver-limit", None)
        needs = f"is {NEEDED - 1}, and the saver needs {NEEDED} bytes to load thread 'trip'"
        assert found.detail == f"group_concat_max_len {needs}"
        mysql.run(mysql_url, found.fix)
        assert faults(mysql_url) == []
        assert loaded(mysql_url) == whole


@pytest.mark.engines
def test_a_packet_that_is_too_short_for_a_value_is_named_and_mended(mysql_url: str) -> None:
    fill_documents(mysql_url)
    whole = loaded(mysql_url)
    with settings(mysql_url, max_allowed_packet=1 << 16):
        # The saver does not notice that the value is missing.
        assert loaded(mysql_url) == {"notes": whole["notes"]}
        found = only(mysql_url)
        assert found.code == "saver-limit"
        assert found.detail.startswith(f"max_allowed_packet is {1 << 16}, and the saver needs")
        mysql.run(mysql_url, found.fix)
        assert faults(mysql_url) == []
        assert loaded(mysql_url) == whole
