"""Connects to PostgreSQL. All queries run inside a transaction.

A connection for reading has a read-only transaction with one snapshot. No statement is prepared on
the server, and settings are made inside the transaction, so it works with pgbouncer in transaction
mode. The server's `statement_timeout` is respected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any
from urllib.parse import unquote

import psycopg
from psycopg import DataError, IsolationLevel, errors, pq
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import Diagnostic, NotNullViolation, ProgramLimitExceeded, StatementTooComplex

from ckpt_backends.declaration import param_form
from ckpt_backends.errors import StoreUnavailable, UsageError
from ckpt_backends.servers import (
    NETWORK,
    Reason,
    first_line,
    is_local,
    known_failure,
    warn_unencrypted,
)
from ckpt_backends.sql.database import Loaded, QueryRow, RowRefused, Values
from ckpt_backends.url import MASK, StoreUrl, split_url

# psycopg's connection, which does not give the password away, and does not wait for ever.
#
# A server chooses how a user authenticates. So a hostile server, or somebody between it and this
# machine, could ask for the password in clear text.


_REQUIRE_AUTH = 160000
"""The version of libpq that can refuse to send the password in clear text."""
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_ADVICE = "add ?sslmode=verify-full to the URL"


class TooSlow(psycopg.OperationalError):
    """An answer did not arrive in time."""


class GuardedPsycopg(psycopg.Connection):
    """A connection that gives up an answer after some time, which libpq has no setting for."""

    seconds: float | None = None
    """How long to wait for an answer, from its first byte to its last; None: for ever."""

    def wait(self, gen: Any, *given: Any, **named: Any) -> Any:
        return super().wait(self._limited(gen), *given, **named)

    def _limited(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        since = monotonic()
        try:
            state = next(gen)
            while True:
                ready = yield state
                if self.seconds is not None and monotonic() - since > self.seconds:
                    # psycopg would read the rest of the answer first.
                    self.pgconn.finish()
                    raise TooSlow("the server does not answer")
                state = gen.send(ready)
        except StopIteration as end:
            return end.value


class _TimeInUtc(Loader):
    """Loads a time in UTC; psycopg loads it in the time zone of the session."""

    format = pq.Format.BINARY

    def load(self, data: Any) -> datetime:
        return _EPOCH + timedelta(microseconds=int.from_bytes(data, "big", signed=True))


def open_driver(settings: Mapping[str, Any]) -> GuardedPsycopg:
    """Connect. Raises `psycopg.Error`.

    The password is sent in clear text only to a server with a verified certificate and host name,
    or to this machine, unless `require_auth` says otherwise.
    """
    known = _resolved(settings)
    asked = dict(settings)
    if not known.get("require_auth") and not _may_ask(known) and pq.version() >= _REQUIRE_AUTH:
        asked["require_auth"] = "!password"
    with parsed():
        # Pass separate settings: an error of libpq about a URL would show the whole URL.
        driver = GuardedPsycopg.connect(**asked, prepare_threshold=None)
    is_encrypted = driver.pgconn.ssl_in_use or known.get("gssencmode") == "require"
    if driver.pgconn.used_password and not is_encrypted and not is_local(driver.info.host):
        warn_unencrypted(driver.info.host, _ADVICE)
    driver.adapters.register_loader("timestamptz", _TimeInUtc)
    return driver


def _resolved(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings with those of service files and environment variables, as libpq sees them."""
    # libpq refuses this value before it looks for the host.
    given = make_conninfo("", **{**settings, "target_session_attrs": "none"})
    found = pq.PGconn.connect_start(given.encode())
    try:
        return {
            one.keyword.decode(): (one.val or b"").decode("utf-8", "replace") for one in found.info
        }
    finally:
        found.finish()


def _may_ask(known: Mapping[str, str]) -> bool:
    """Whether a server may ask for the password in clear text."""
    hosts = known.get("hostaddr") or known.get("host") or ""
    return known.get("sslmode") == "verify-full" or all(map(is_local, hosts.split(",")))


@contextmanager
def parsed() -> Iterator[None]:
    """Turn what psycopg raises for a malformed answer into `psycopg.Error`."""
    try:
        yield
    except (psycopg.Error, UnicodeEncodeError, MemoryError):
        raise
    except Exception as error:
        raise psycopg.DataError("the server's answer is malformed") from error


OWN_PARAMS = frozenset({"layout", "schema", "tables", "read_timeout"})
"""URL parameters for ckpt. All others are passed to libpq."""
_CONNECT_SECONDS = "10"
_READ_SECONDS = "600"
_AT_FIRST = 50
"""Rows of the first fetch, when their size is not known yet."""
_FETCH_BYTES = 16 << 20
"""Approximate maximum of bytes per fetch. At least one row is fetched."""
_TEXTS = (bytes, str)


@dataclass(frozen=True, slots=True)
class Notice:
    """What the server says about a statement that it carries out."""

    text: str
    is_warning: bool


_LOCK_TIMEOUT = "5s"
"""How long to wait for a locked table, if the server sets no limit."""
_START = """
    SELECT current_schemas(false),
           set_config('search_path', 'pg_catalog', true),
           CASE WHEN current_setting('jit', true) = 'on' THEN set_config('jit', 'off', true) END,
           CASE WHEN current_setting('cursor_tuple_fraction', true) IS NOT NULL
                THEN set_config('cursor_tuple_fraction', '1', true) END,
           CASE current_setting('lock_timeout')
                WHEN '0' THEN set_config('lock_timeout', %(lock_timeout)s, true) END,
           current_setting('transaction_read_only')
"""
"""Returns the schemas of the search path and whether the transaction is read-only, and sets the
search path to `pg_catalog`.

After that, no name in a query can refer to a function or type of a user. JIT is turned off, because
compiling takes longer than running these queries. (The server overestimates their cost: it expects
a hundred channels in each checkpoint.) Results are read to their end, so plans for a fast start of
a cursor are not wanted.
"""


class PostgresConnection:
    """A connection with one transaction at a time.

    Its methods raise `StoreUnavailable`, except `change`, `alone` and `commit`.
    """

    def __init__(self, driver: GuardedPsycopg, url: StoreUrl) -> None:
        self.driver = driver
        self.url = url
        self.begun: list[str] | None = None
        """The schemas of the search path; None before the first query of a transaction."""
        self.enforces_read_only = False
        """Whether the server refuses writes in the transaction, as it said at its start."""
        self._cursors = 0
        self._abandoned: list[str] = []

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return self.driver.closed

    def schemas(self) -> list[str]:
        """The schemas to search."""
        with explained(self.url):
            found = self._begin()
        return [self.url.params["schema"]] if "schema" in self.url.params else found

    def _begin(self) -> list[str]:
        """Begin a transaction with safe settings, unless there is one. Returns its search path."""
        if self.begun is None:
            self.begun = []
            ((schemas, *_, read_only),) = self._execute(_START, {"lock_timeout": _LOCK_TIMEOUT})
            self.begun, self.enforces_read_only = list(schemas), read_only == "on"
        return self.begun

    def rows(self, sql: str, values: Values | None = None) -> list[QueryRow]:
        """All rows of a short result."""
        with explained(self.url):
            return self._execute(sql, values)

    def attempt(self, sql: str, values: Values | None = None) -> list[QueryRow] | None:
        """All rows of a short result; None if the server does not support the query.

        Servers that only speak PostgreSQL's protocol lack some functions. The transaction goes on.
        """
        with explained(self.url):
            self._execute("SAVEPOINT ckpt_attempt")
            try:
                return self._execute(sql, values)
            except (psycopg.ProgrammingError, psycopg.NotSupportedError):
                self._execute("ROLLBACK TO SAVEPOINT ckpt_attempt")
                return None

    def stream(self, sql: str, values: Values, at_once: int = 200) -> Iterator[QueryRow]:
        """The rows of a long result, from a cursor in the server.

        At most `at_once` rows are in memory at a time, and fewer if the rows are large.
        """
        with explained(self.url):
            self._close_abandoned()
            self._cursors += 1
            name = f"ckpt_{self._cursors}"
            self._execute(f"DECLARE {name} NO SCROLL CURSOR FOR {sql}", values)
        # The cursor of an unfinished result is closed later, by `_close_abandoned`. The `finally`
        # block may run in the garbage collector, in the middle of another query.
        number, done = min(at_once, _AT_FIRST), False
        try:
            while not done:
                with explained(self.url):
                    rows = self._execute(f"FETCH {number} FROM {name}")
                done = len(rows) < number
                length = max(map(_length, rows), default=0)
                yield from rows
                del rows
                number = max(1, min(at_once, 4 * number, _FETCH_BYTES // (length + 1)))
        finally:
            self._abandoned.append(name)

    def _close_abandoned(self) -> None:
        while self._abandoned:
            self._execute(f"CLOSE {self._abandoned.pop()}")

    def _execute(self, sql: str, values: Values | None = None) -> list[QueryRow]:
        self._begin()
        with self.driver.cursor(binary=True) as cursor:
            cursor.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def restart(self) -> None:
        """Roll the transaction back. The next query begins a new one."""
        with explained(self.url):
            self.begun = None
            self.driver.rollback()
            self._abandoned.clear()

    def change(self, sql: str, values: Values | None = None) -> int:
        """Run a statement. Returns the number of changed rows. Raises `psycopg.Error`."""
        with parsed():
            self._begin()
            with self.driver.cursor(binary=True) as cursor:
                cursor.execute(sql, values)
                return cursor.rowcount

    def load_rows(self, target: str, kinds: Sequence[str], rows: Sequence[Loaded]) -> None:
        """Add rows to a table; see `load_rows`. Raises `RowRefused` and `psycopg.Error`."""
        self._begin()
        load_rows(self.driver, target, kinds, rows)

    def alone(self, sql: str) -> list[Notice]:
        """Run a statement outside of any transaction, such as VACUUM. Raises `psycopg.Error`.

        Returns the notices of the server.
        """
        notices: list[Notice] = []

        def note(one: Diagnostic) -> None:
            # The server's text is freed afterwards.
            text = "\n".join(filter(None, (one.message_primary, one.message_detail)))
            notices.append(Notice(text, is_warning=one.severity_nonlocalized == "WARNING"))

        self.begun = None
        self.driver.rollback()
        self.driver.autocommit = True
        seconds, self.driver.seconds = self.driver.seconds, None
        self.driver.add_notice_handler(note)
        try:
            with parsed():
                self.driver.execute(sql)
        finally:
            self.driver.remove_notice_handler(note)
            self.driver.seconds = seconds
            if not self.driver.closed:
                self.driver.autocommit = False
        return notices

    def restart_quietly(self) -> None:
        """Roll the transaction back after an error. Ignores a lost connection."""
        self.begun = None
        with suppress(psycopg.Error), parsed():
            self.driver.rollback()

    def commit(self) -> None:
        """Commit the transaction. Raises `psycopg.Error`."""
        self.begun = None
        with parsed():
            self.driver.commit()

    def close(self) -> None:
        """Close the connection, which rolls the transaction back."""
        with suppress(psycopg.Error):
            self.driver.close()


def _length(row: QueryRow) -> int:
    """Approximate number of bytes in a row."""
    return sum(map(_length_of, row))


def _length_of(value: object) -> int:
    if isinstance(value, _TEXTS):
        return len(value)
    return sum(map(_length_of, value)) if isinstance(value, list) else 0


def connect(url: StoreUrl, *, writable: bool = False) -> PostgresConnection:
    """Connect with the settings of the URL, the `PG*` environment variables and `~/.pgpass`.

    For reading, all queries of a transaction see one snapshot (REPEATABLE READ). For changing, they
    see rows that others commit meanwhile (READ COMMITTED). Raises `StoreUnavailable` or
    `UsageError`.
    """
    settings, seconds = _settings(url), _read_seconds(url)
    try:
        driver = open_driver({**settings, "client_encoding": "utf8"})
    except (psycopg.Error, UnicodeError) as error:
        raise _refused(url, error) from None
    driver.seconds = seconds
    committed, repeatable = IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ
    driver.isolation_level = committed if writable else repeatable
    driver.read_only = not writable
    return PostgresConnection(driver, url)


def _settings(url: StoreUrl) -> dict[str, Any]:
    """The settings for libpq from the URL."""
    parts = split_url(url.raw)
    given = {name: value for name, value in url.params.items() if name not in OWN_PARAMS}
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    known -= {"replication"}  # a replication connection does not support parameters
    for name in given.keys() - known:
        if param_form(url.scheme, name) is not None:  # of an application's layout
            del given[name]
    unknown = sorted(given.keys() - known)
    if unknown:
        raise UsageError(
            f"unknown URL parameter '{unknown[0]}' for PostgreSQL",
            hint=f"known: {', '.join(sorted(OWN_PARAMS))}, and those of libpq such as sslmode",
        )
    try:
        # libpq itself reads lists of hosts, IPv6 addresses and sockets.
        settings: dict[str, Any] = dict(conninfo_to_dict(f"postgresql://{parts.hosts}{parts.path}"))
    except psycopg.Error:
        raise UsageError(f"cannot read the URL '{url}'") from None
    for name, text in (("user", parts.user), ("password", parts.password)):
        if text:
            settings[name] = unquote(text)
    if "PGCONNECT_TIMEOUT" not in os.environ:
        settings.setdefault("connect_timeout", _CONNECT_SECONDS)
    return {"fallback_application_name": "ckpt", **settings, **given}


def _read_seconds(url: StoreUrl) -> int:
    text = url.params.get("read_timeout", _READ_SECONDS)
    if not text.isdecimal() or not 0 < int(text) <= 31536000:
        raise UsageError("invalid URL parameter 'read_timeout': not a number of seconds")
    return int(text)


@contextmanager
def explained(url: StoreUrl) -> Iterator[None]:
    """Turn the driver's errors into `StoreUnavailable`, without secrets and without row data."""
    try:
        with parsed():
            yield
    except psycopg.Error as error:
        raise unavailable(url, error) from None


def unavailable(url: StoreUrl, error: psycopg.Error) -> StoreUnavailable:
    """The error to print, without secrets and without row data."""
    reason, hint = server_words(error, url), None
    match error:
        case TooSlow():
            reason = "the server does not answer"
            hint = "add ?read_timeout=SECONDS to wait longer"
        case errors.QueryCanceled():
            reason = "the server cancelled the query"
            if "statement timeout" in str(error):
                reason += ": it exceeded statement_timeout"
            hint = "read fewer threads, or add ?options=-cstatement_timeout%3D60s to the URL"
        case errors.LockNotAvailable():
            reason = "another session holds a lock on its tables"
            hint = "a migration may be running; run the command again later"
        case errors.InsufficientPrivilege():
            hint = "reading needs SELECT on its tables, and USAGE on their schema"
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.InvalidSchemaName():
            hint = "the tables changed while they were read; run the command again"
        case errors.InFailedSqlTransaction():
            reason = "an earlier query failed"
        case errors.IdleInTransactionSessionTimeout() | errors.AdminShutdown():
            reason = "the server ended the connection"
            hint = "run the command again; nothing was changed"
        case psycopg.OperationalError() if error.sqlstate is None:
            reason = "the connection was lost"
            hint = "run the command again; nothing was changed"
    return StoreUnavailable(f"cannot read '{url}': {reason}", hint=hint)


_REFUSALS: Sequence[Reason] = (
    (
        "invalid value for parameter|unrecognized configuration parameter|parameter .*cannot be"
        "|permission denied to set parameter|command-line argument|requires a value",
        "the server rejects a setting in `options`",
        "write each setting as options=-cNAME%3DVALUE",
    ),
    (
        "invalid .* value|invalid integer value|invalid port",
        "libpq rejects the value of a parameter",
        "check the parameters after the ? of the URL",
    ),
    (
        "server requested a cleartext password",
        "the server asks for the password in clear text, and it was not sent",
        "add ?sslmode=verify-full, so that only the right server gets the password",
    ),
    (
        "password authentication failed",
        "wrong user or password",
        "a password can also come from PGPASSWORD or ~/.pgpass",
    ),
    (
        "no password supplied",
        "the server asks for a password",
        "set PGPASSWORD, add it to ~/.pgpass, or put it in the URL",
    ),
    ("no pg_hba.conf entry", "the server refuses this user from this host (pg_hba.conf)", ""),
    ('database ".*" does not exist', "no such database", "`psql -l` lists a server's databases"),
    ('role ".*" does not exist', "no such role", ""),
    ("permission denied for database", "the role has no CONNECT right on this database", ""),
    ("too many|connection slots", "the server has too many connections", "try again later"),
    ("starting up", "the server is starting up", "run the command again in a moment"),
    ("shutting down", "the server is shutting down", ""),
    ("no such file", "no server listens on that socket", "name a host: postgresql://HOST/DATABASE"),
    (
        "timeout expired|timed out",
        "the server does not answer",
        "add ?connect_timeout=SECONDS to wait longer",
    ),
    *NETWORK,
    ("session is", "no server matches target_session_attrs", ""),
    (
        "certificate verify failed|certificate file|server certificate|root certificate",
        "the server's certificate is not trusted",
        "add ?sslrootcert=FILE with the certificate of its authority",
    ),
    (
        "SSL error|SSL SYSCALL|SSL connection|does not support SSL|SSL negotiation",
        "TLS failed",
        "add ?sslmode=require or ?sslmode=disable, as the server expects",
    ),
    (
        "unsupported startup parameter",
        "the connection pooler refuses a parameter of the URL",
        "remove it from the URL",
    ),
)
"""A pattern for libpq's message, the reason to print, and a hint.

Errors of a failed connection have no error code, so the message must be examined.
"""


def _refused(url: StoreUrl, error: Exception) -> StoreUnavailable | UsageError:
    if isinstance(error, psycopg.ProgrammingError):
        return UsageError(f"cannot read the URL '{url}': {server_words(error, url)}")
    if (known := known_failure(f"cannot open '{url}'", str(error), _REFUSALS)) is not None:
        return known
    # The server's message may quote parts of `options`, which may be secret.
    said, fatal, quoting = server_words(error, url).partition("FATAL:")
    said += fatal + re.sub('"[^"]*"', f'"{MASK}"', quoting)
    return StoreUnavailable(f"cannot open '{url}': {said}")


def server_words(error: Exception, url: StoreUrl) -> str:
    """The first line of the message. The detail is left out, because it may quote a row."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return first_line(error, url, said or None)


# Loads rows into a table with COPY, in PostgreSQL's binary format.


_SENT_AS = {"text": "text", "varchar": "text", "bpchar": "text"} | {
    name: name for name in ("int2", "int4", "int8", "bytea", "timestamptz")
}
_JSONB = "jsonb"
_VERSION = b"\x01"
"""The first byte of each `jsonb` in the binary format."""
_LINE = re.compile(r"COPY .*?, line (\d+)(?:, column (\w+))?")


def load_rows(
    driver: GuardedPsycopg, target: str, kinds: Sequence[str], rows: Sequence[Loaded]
) -> None:
    """Add rows to a table with columns, such as `"public"."t" ("a", "b")`, of these types.

    Raises `RowRefused` for a row that the server refuses, and `psycopg.Error`.
    """
    sent = ["bytea" if kind == _JSONB else _SENT_AS.get(kind, "") for kind in kinds]
    if not all(sent):
        raise psycopg.NotSupportedError(f"a column has the type {kinds[sent.index('')]}")
    last: Loaded = rows[0]
    try:
        statement = f"COPY {target} FROM STDIN (FORMAT BINARY)".encode()
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(sent)
            for last, row in zip(rows, _with_versions(kinds, rows), strict=True):  # noqa: B007
                copy.write_row(row)
    except (DataError, NotNullViolation, ProgramLimitExceeded, StatementTooComplex) as error:
        raise _row_refused(error, rows, last) from None
    except (UnicodeEncodeError, OverflowError) as error:
        raise RowRefused(last, str(error)) from None


def _with_versions(kinds: Sequence[str], rows: Sequence[Loaded]) -> Iterator[Sequence[Any]]:
    """The rows as COPY needs them: each JSON text after its version."""
    texts = [n for n, kind in enumerate(kinds) if kind == _JSONB]
    if not texts:
        yield from rows
        return
    for row in rows:
        cells: list[Any] = [*row]
        for n in texts:
            cells[n] = _VERSION + cells[n]
        yield cells


def _row_refused(error: psycopg.Error, rows: Sequence[Loaded], last: Loaded) -> RowRefused:
    """The error for the row that the server names; without a name, for the last one sent."""
    found = _LINE.search(error.diag.context or "")
    number = int(found[1]) - 1 if found else -1
    row = rows[number] if 0 <= number < len(rows) else last
    reason = error.diag.message_primary or str(error).partition("\n")[0]
    if found and found[2]:
        reason = f"{found[2]}: {reason}"
    return RowRefused(row, reason)
