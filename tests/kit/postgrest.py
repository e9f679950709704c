"""A server in the place of PostgREST, of which no package has a binary.

It answers the requests that `SupabaseSaver` sends, and refuses all others: rows chosen by `eq`,
`lt`, `in` and `cs`, ordered and limited; rows added with `on_conflict`; rows removed. As in
PostgREST, the database turns the JSON of a request into rows and rows into JSON, all in one
statement for each request, so text, types, defaults and collations are those of PostgreSQL.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import psycopg
from psycopg import sql
from psycopg_pool import ConnectionPool

from tests.kit.json_server import JsonHandler, serving

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
