"""Tables of SupabaseSaver, in separate databases.

The tables of `SupabaseSaver`, and the saver on a server in the place of PostgREST.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import psycopg
from langgraph_checkpoint_supabase import SupabaseSaver
from postgrest.exceptions import APIError
from psycopg import sql
from psycopg_pool import ConnectionPool

from ckpt_backends.testing.harness import Harness, Refusal, TestServer
from tests.kit.harness.listing import EveryNamespace
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.json_server import JsonHandler, serving

# A server in the place of PostgREST, of which no package has a binary.

_ROOT = "/rest/v1/"
_OPERATORS = {"eq": "=", "lt": "<", "cs": "@>"}
_STATUS = {"21": 500, "23": 409}
"""By the class of an error of PostgreSQL, the status of the answer, if it is not 400."""
_OPTIONS = ("select", "order", "limit", "columns", "on_conflict")


class Handler(JsonHandler):
    pool: Any

    def do_GET(self) -> None:
        self._answer(_select)

    def do_POST(self) -> None:
        self._answer(_upsert)

    def do_DELETE(self) -> None:
        self._answer(_delete)

    def _answer(self, make: Any) -> None:
        parts = urlsplit(self.path)
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        body = self.body()
        prefer = str(self.headers.get("Prefer", ""))
        table = sql.Identifier(parts.path.removeprefix(_ROOT))
        try:
            query, values = make(table, given, body.decode(), prefer)
            with self.pool.connection() as connection:
                (rows,) = connection.execute(query, values).fetchone()
            status, text = 201 if self.command == "POST" else 200, rows
        except psycopg.Error as error:
            code, said = error.sqlstate or "", error.diag.message_primary or str(error)
            told = {"code": code, "message": said, "details": error.diag.message_detail}
            status, text = _STATUS.get(code[:2], 400), json.dumps({**told, "hint": None})
        self.answer(status, text)


def _as_json(query: sql.Composable) -> sql.Composed:
    return sql.SQL("WITH r AS ({}) SELECT coalesce(json_agg(r), '[]')::text FROM r").format(query)


def _column(name: str) -> sql.Composable:
    column, arrow, key = name.partition("->>")
    if not arrow:
        return sql.Identifier(column)
    return sql.SQL("{} ->> {}").format(sql.Identifier(column), sql.Literal(key))


def _where(given: Sequence[tuple[str, str]]) -> tuple[sql.Composable, list[Any]]:
    """The condition of the filters, such as `thread_id=eq.one`, and its values."""
    conditions: list[sql.Composable] = [sql.SQL("true")]
    values: list[Any] = []
    for name, condition in given:
        if name in _OPTIONS:
            continue
        operator, _, value = condition.partition(".")
        if operator == "in":
            conditions.append(sql.SQL("{} = ANY(%s)").format(_column(name)))
            values.append(re.findall(r'"((?:[^"\\]|\\.)*)"|([^",()]+)', value))
            values[-1] = [re.sub(r"\\(.)", r"\1", one) or other for one, other in values[-1]]
        else:
            conditions.append(sql.SQL(f"{{}} {_OPERATORS[operator]} %s").format(_column(name)))
            values.append(value)
    return sql.SQL(" AND ").join(conditions), values


def _select(table: Any, given: Any, body: str, prefer: str) -> Any:
    del body, prefer
    options, (where, values) = dict(given), _where(given)
    names = options["select"].split(",")
    listed = [sql.SQL("*") if one == "*" else sql.Identifier(one) for one in names]
    query = sql.SQL("SELECT {} FROM {} WHERE {}").format(sql.SQL(", ").join(listed), table, where)
    if "order" in options:
        column, _, direction = options["order"].partition(".")
        assert direction == "desc"
        query += sql.SQL(" ORDER BY {} DESC").format(sql.Identifier(column))
    if "limit" in options:
        query += sql.SQL(" LIMIT {}").format(sql.Literal(int(options["limit"])))
    return _as_json(query), values


def _upsert(table: Any, given: Any, body: str, prefer: str) -> Any:
    options, rows = dict(given), json.loads(body)
    if "columns" in options:
        named = [one.strip('"') for one in options["columns"].split(",")]
    else:
        named, body = list(rows), f"[{body}]"
    keys = [sql.Identifier(one) for one in options["on_conflict"].split(",")]
    columns = sql.SQL(", ").join(map(sql.Identifier, named))
    action: sql.Composable = sql.SQL("NOTHING")
    if "resolution=merge-duplicates" in prefer:
        pairs = (sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(one)) for one in named)
        action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(pairs))
    query = sql.SQL(
        "INSERT INTO {table} ({columns}) SELECT {columns}"
        " FROM json_populate_recordset(NULL::{table}, %s::json)"
        " ON CONFLICT ({keys}) DO {action} RETURNING *"
    ).format(table=table, columns=columns, keys=sql.SQL(", ").join(keys), action=action)
    return _as_json(query), [body]


def _delete(table: Any, given: Any, body: str, prefer: str) -> Any:
    del body, prefer
    where, values = _where(given)
    query = sql.SQL("DELETE FROM {} WHERE {} RETURNING *").format(table, where)
    return _as_json(query), values


@contextmanager
def serving_database(database: str) -> Iterator[str]:
    """Serve a database; yields the address for `supabase.create_client`."""
    # Clients that are never closed keep no connection of the database.
    with (
        ConnectionPool(database, min_size=1, max_size=8, kwargs={"autocommit": True}) as pool,
        serving(type("PoolHandler", (Handler,), {"pool": pool})) as address,
    ):
        yield address


_Saver: Any = SupabaseSaver
"""Typed where it is installed; a subclass is checked alike everywhere."""
_WRITES = "langgraph_checkpoint_writes"

TABLES = """
    create table langgraph_checkpoints (
        thread_id text not null, checkpoint_ns text not null default '',
        checkpoint_id text not null, parent_checkpoint_id text, checkpoint jsonb not null,
        metadata jsonb not null default '{}'::jsonb, created_at timestamptz not null default now(),
        primary key (thread_id, checkpoint_ns, checkpoint_id));
    create table langgraph_checkpoint_writes (
        thread_id text not null, checkpoint_ns text not null default '',
        checkpoint_id text not null, task_id text not null, task_path text not null default '',
        idx integer not null, channel text not null, write jsonb not null,
        created_at timestamptz not null default now(),
        primary key (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
    create index langgraph_checkpoints_thread_idx
        on langgraph_checkpoints (thread_id, checkpoint_ns, checkpoint_id desc);
    create index langgraph_checkpoint_writes_lookup_idx
        on langgraph_checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id);
"""
"""What `sql/schema.sql` of langgraph-checkpoint-supabase 0.1.0 makes, which its wheel lacks."""
_KEY = "e30.e30.e30"
"""Three empty parts, as the client's keys have."""


class SeeingSaver(EveryNamespace, _Saver):  # type: ignore[misc]
    """The official saver, whose `list` returns all namespaces if none is asked for."""

    def namespaces(self, config: Any) -> Iterable[str]:
        query = self.client.table("langgraph_checkpoints").select("checkpoint_ns")
        found = query.eq("thread_id", config["configurable"]["thread_id"]).execute().data
        return sorted({one["checkpoint_ns"] for one in found})


class OrderedSaver(SeeingSaver):
    """The saver with writes by task paths; the official one sorts them by task ids."""

    def get_tuple(self, config: Any) -> Any:
        return self._ordered(super().get_tuple(config))

    def list(self, config: Any, **options: Any) -> Iterator[Any]:
        yield from map(self._ordered, super().list(config, **options))

    def _ordered(self, found: Any) -> Any:
        if found is None or not found.pending_writes:
            return found
        query = self.client.table(_WRITES).select("task_id,task_path")
        for name, value in found.config["configurable"].items():
            query = query.eq(name, value)
        paths = {one["task_id"]: one["task_path"] for one in query.execute().data}
        writes = sorted(found.pending_writes, key=lambda one: (paths[one[0]], one[0]))
        return found._replace(pending_writes=writes)


class SupabaseHarness(PostgresHarness):
    """langgraph-checkpoint-supabase, on a server in the place of PostgREST."""

    TABLES: tuple[str, ...] = ("langgraph_checkpoints", "langgraph_checkpoint_writes")
    name: ClassVar[str] = "supabase"
    besides: ClassVar[tuple[str, ...]] = ()
    values_as_text: ClassVar[bool] = True
    row_kinds: ClassVar[Mapping[str, str]] = dict(zip(TABLES, ("checkpoint", "write"), strict=True))
    failing_scenarios: ClassVar[frozenset[str]] = frozenset({"interrupt-twice-answered"})
    """The saver sends the first answer of a task twice with the second one, in one statement that
    PostgreSQL refuses. JSON and base64 hold what PostgreSQL's JSON cannot."""
    scenario_errors: ClassVar[Refusal] = APIError
    rows, count = Harness.rows, Harness.count

    @cached_property
    def kept_saver(self) -> Any:
        return self.corrected_saver(self.stack.enter_context(self.saver()))

    def create(self, folder: Path, server: TestServer | None) -> str:
        url = super().create(folder, server)
        with psycopg.connect(url) as connection:
            connection.execute(TABLES)
        return url

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with serving_database(self.url) as address:
            yield SeeingSaver.from_conn_info(url=address, key=_KEY)

    def corrected_saver(self, saver: Any) -> Any:
        return OrderedSaver(saver.client)
