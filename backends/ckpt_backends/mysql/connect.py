"""Connects to MySQL and MariaDB. All queries run inside a transaction.

A connection for reading has a read-only transaction with one snapshot. No statement is prepared on
the server. The protocol allows only one unfinished result at a time, so the rest of a long result
is read into memory when another query is sent.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from configparser import Error, RawConfigParser
from contextlib import closing, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pymysql
from pymysql.connections import Connection, MySQLResult
from pymysql.constants import CLIENT, FIELD_TYPE
from pymysql.converters import conversions
from pymysql.cursors import SSCursor
from pymysql.protocol import MysqlPacket

from ckpt_backends.errors import MissingDependency, StoreUnavailable, Unsupported, UsageError
from ckpt_backends.installing import install_command
from ckpt_backends.servers import (
    NETWORK,
    first_line,
    is_local,
    known_failure,
    warn_unencrypted,
    warn_unverified,
)
from ckpt_backends.sql.database import QueryRow
from ckpt_backends.url import StoreUrl, split_url

# PyMySQL's connection, which does not give the password away.
#
# A server chooses how a user authenticates. So a hostile server, or somebody between it and this
# machine, could ask for the password in clear text.


MALFORMED, INSECURE, WANTS_FILE = -1, -2, -3
"""Codes of errors that PyMySQL does not detect. Servers have positive codes only."""
_CLEAR = ("mysql_clear_password", "dialog", "mysql_old_password")
"""Methods that send the password in clear text, or almost so."""
_ADVICE = "add ?ssl_mode=verify_identity to the URL"


class _Refusal:
    """Replaces an authentication method."""

    def __init__(self, connection: GuardedPyMySQL) -> None:
        self._connection = connection

    def authenticate(self, _: MysqlPacket) -> None:
        self._connection.refuse("the server asks for the password in clear text")


_Driver: Any = Connection


class GuardedPyMySQL(_Driver):  # type: ignore[misc]
    """A connection that sends the password in clear text only where nobody else can read it.

    That is to a server with a verified certificate and host name, or through a Unix socket.
    """

    def __init__(self, **settings: Any) -> None:
        context = settings.get("ssl")
        is_verified = isinstance(context, ssl.SSLContext) and context.check_hostname
        self._is_safe = is_verified or bool(settings.get("unix_socket"))
        self._is_local = self._is_safe or is_local(settings["host"])
        self._is_let_in = False
        self._public_key: bytes | None = None
        super().__init__(
            **settings,
            auth_plugin_map={} if self._is_safe else dict.fromkeys(_CLEAR, _Refusal),
            conv={**conversions, FIELD_TYPE.DECIMAL: _decimal, FIELD_TYPE.NEWDECIMAL: _decimal},
            local_infile=False,
            defer_connect=True,
        )

    def connect(self, sock: Any = None) -> None:
        """Connect. `connect_timeout` covers the wait for the server's first byte, too."""
        with parsed():
            if sock is None and not self.unix_socket:
                sock = self._greeted()
            super().connect(sock)
        self._is_let_in = True

    def _greeted(self) -> socket.socket:
        """A connection on which the server speaks; PyMySQL would wait for `read_timeout`."""
        found = socket.create_connection((self.host, self.port), self.connect_timeout)
        try:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            found.recv(1, socket.MSG_PEEK)
        except BaseException:
            found.close()
            raise
        return found

    def refuse(self, reason: str) -> None:
        raise pymysql.OperationalError(INSECURE, reason)

    @property
    def server_public_key(self) -> bytes | None:
        """The key with which a password is encrypted if there is no TLS."""
        return self._public_key

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        # The server sends it, so somebody between can send another one.
        if key is not None and not self._is_local:
            self.refuse("the server asks for the password without TLS")
        self._public_key = key

    def write_packet(self, payload: bytes) -> None:
        if self.password and not self._is_safe and not self._is_let_in:
            self._check(payload)
        super().write_packet(payload)

    def _check(self, payload: bytes) -> None:
        """Refuse to send the password as it is, or warn of it."""
        is_encrypted = self.ssl and self.server_capabilities & CLIENT.SSL
        if not is_encrypted and not self._is_local:
            warn_unencrypted(self.host, _ADVICE)
        clear = self.password + b"\0"
        # Alone, or with its length behind the user's name.
        if payload != clear and b"\0%c%b" % (len(clear) % 256, clear) not in payload:
            return
        if not is_encrypted:
            self.refuse("the server asks for the password in clear text")
        if not self._is_local:
            warn_unverified(self.host, _ADVICE)


@contextmanager
def parsed() -> Iterator[None]:
    """Turn what PyMySQL raises for a malformed answer into `pymysql.Error`."""
    try:
        yield
    except (pymysql.Error, OSError, MemoryError):
        raise
    except Exception as error:
        # PyMySQL needs another package for some kinds of passwords.
        if isinstance(error, RuntimeError) and "package is required" in str(error):
            raise
        if isinstance(error, RuntimeError) and "LOAD_LOCAL" in str(error):
            raise pymysql.OperationalError(WANTS_FILE, "LOCAL INFILE") from error
        raise pymysql.InternalError(MALFORMED, "malformed answer") from error


def _decimal(text: str) -> Decimal:
    """A number with digits only. `int` would compute for hours on 1e999999999."""
    if not text.removeprefix("-").replace(".", "", 1).isdecimal():
        raise ValueError("not a number of a sum")
    return Decimal(text)


# Converts a store URL to the settings of the driver: user, password, TLS.


_PORT = 3306
_CONNECT_SECONDS, _READ_SECONDS = 10, 600
_HOST = re.compile(r"(?:\[(?P<six>[^\]]*)\]|(?P<host>[^:]*))(?::(?P<port>\d*))?")
_TLS = ("ssl_ca", "ssl_cert", "ssl_key")
_ALL_TLS = ("ssl_mode", *_TLS)
_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
PARAMS = ("layout", "connect_timeout", "read_timeout", "unix_socket", *_ALL_TLS)
"""The URL parameters. The `ssl_` parameters have the same names as in MySQL's client."""
_OWN_FILE = "~/.my.cnf"


def settings_of(url: StoreUrl) -> dict[str, Any]:
    """The arguments for `pymysql.connect`. Raises `UsageError`."""
    unknown = sorted(url.params.keys() - set(PARAMS))
    if "tables" in unknown:
        raise Unsupported(
            f"cannot open '{url}': tables with other names are not read from MySQL",
            hint="`tables` works for PostgreSQL and SQLite",
        )
    if unknown:
        raise UsageError(
            f"unknown URL parameter '{unknown[0]}' for MySQL", hint=f"known: {', '.join(PARAMS)}"
        )
    parts = split_url(url.raw)
    host = _HOST.fullmatch(parts.hosts)
    database = unquote(parts.path.removeprefix("/"))
    if host is None:
        raise UsageError(
            f"cannot read the URL '{url}'", hint="write mysql://USER@HOST:PORT/DATABASE"
        )
    if not database:
        raise UsageError(f"'{url}' names no database", hint="write mysql://USER@HOST:PORT/DATABASE")
    seconds = _seconds(url, "read_timeout") or _READ_SECONDS
    found: dict[str, Any] = {
        "host": unquote(host["six"] or host["host"] or "localhost"),
        "port": int(host["port"] or _PORT),
        "database": database,
        "charset": "utf8mb4",
        "program_name": "ckpt",
        "connect_timeout": _seconds(url, "connect_timeout") or _CONNECT_SECONDS,
        "read_timeout": seconds,
        "write_timeout": seconds,
    }
    # The driver would take more from the file, such as a socket in place of the URL's host.
    own = _own_settings()
    found |= _tls({**{name: own[name] for name in _ALL_TLS if name in own}, **url.params})
    if socket := url.params.get("unix_socket") or (own.get("socket") if not parts.hosts else None):
        found["unix_socket"] = socket
    if user := unquote(parts.user or "") or own.get("user"):
        found["user"] = user
    password = os.environ.get("MYSQL_PWD") if parts.password is None else unquote(parts.password)
    if password := password or own.get("password"):
        # Pass bytes in UTF-8: PyMySQL would encode text as Latin-1.
        found["password"] = password.encode()
    return found


def _own_settings() -> dict[str, str]:
    """The section `[client]` of `~/.my.cnf`, with `_` in the names. Raises `UsageError`."""
    file = Path(_OWN_FILE).expanduser()
    if not file.is_file():
        return {}
    parser = RawConfigParser(allow_no_value=True, strict=False)
    try:
        parser.read_string(file.read_text("utf-8"))
    except (OSError, UnicodeError, Error) as error:
        raise UsageError(f"cannot read '{_OWN_FILE}': not an option file of MySQL") from error
    given = parser.items("client") if parser.has_section("client") else []
    return {name.replace("-", "_"): _unquoted(value) for name, value in given if value}


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value


def _seconds(url: StoreUrl, name: str) -> int | None:
    text = url.params.get(name)
    if text is None:
        return None
    if not text.isdecimal() or not 0 < int(text) <= 31536000:
        raise UsageError(f"invalid URL parameter '{name}': not a number of seconds")
    return int(text)


def _tls(options: Mapping[str, str]) -> dict[str, Any]:
    """The TLS settings, with the same meaning of the options as in MySQL's client.

    If a TLS option is given, the connection must use TLS, except with `ssl_mode=disabled`.
    """
    given = {name: options[name] for name in _TLS if name in options}
    mode = options.get("ssl_mode", "verify_identity" if "ssl_ca" in given else "")
    mode = mode.lower() or ("required" if given else "preferred")
    if mode not in _MODES:
        raise UsageError(f"unknown ssl_mode '{mode}'", hint=f"known: {', '.join(_MODES)}")
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and not given:
        return {}
    try:
        context = ssl.create_default_context(cafile=given.get("ssl_ca"))
        context.check_hostname = mode == "verify_identity"
        if not mode.startswith("verify"):
            context.verify_mode = ssl.CERT_NONE
        if "ssl_cert" in given:
            context.load_cert_chain(given["ssl_cert"], given.get("ssl_key"))
    except (OSError, ValueError) as error:
        raise UsageError(
            "cannot read a file of ssl_ca, ssl_cert or ssl_key", hint="they must be PEM files"
        ) from error
    return {"ssl": context}


_LOCK_SECONDS = 5
"""How long to wait for a locked row or table."""
_SESSION = """
    SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
        lock_wait_timeout = %(seconds)s, innodb_lock_wait_timeout = %(seconds)s
"""
"""Replaces the server's SQL modes, which could change the meaning of quotes and backslashes."""
_REFUSE_WRITES = "SET SESSION TRANSACTION READ ONLY"
_READING = (
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "START TRANSACTION",
)
"""Ways to begin. The next one is used if the server refuses the first, as TiDB does."""
_WRITING = ("START TRANSACTION",)
Values = Mapping[str, object] | Sequence[object]

DUPLICATE = 1062
DENIED = frozenset({1044, 1142, 1143, 1227, 1370})
READ_ONLY_CODES = frozenset({1290, 1792, 1836})
UNSUPPORTED = frozenset({1064, 1105, 1193, 1235, 1305})
"""What servers answer that only speak MySQL's protocol: a syntax error, an unknown one (of Vitess),
an unknown variable, not supported yet (of TiDB), an unknown function."""
UNFIT = frozenset({1062, 1264, 1366, 1406, 3140, 3141, 3144, 3156, 3158, 4025})
"""What servers answer to a row that they cannot store: a key that is equal in the collation, a
number out of range, text that the character set lacks, too long text, and no JSON (three of MySQL's
codes, and the one of MariaDB's check)."""
OF_DRIVER: Mapping[int, tuple[str, str]] = {
    MALFORMED: ("the server's answer is malformed", ""),
    WANTS_FILE: (
        "the server asks for a file of this machine (LOCAL INFILE); none was sent",
        "do not trust this server",
    ),
    INSECURE: (
        "the server asks for the password in clear text, and it was not sent",
        "add ?ssl_mode=verify_identity, so that only the right server gets the password",
    ),
}
"""What the driver detects: by error code, the reason to print and a hint."""


class MySQLConnection:
    """A connection with one transaction at a time.

    Its methods raise `StoreUnavailable`, except `change`, `alone` and `commit`.
    """

    def __init__(self, driver: GuardedPyMySQL, url: StoreUrl, ways: Sequence[str]) -> None:
        """`ways` are statements that begin a transaction, of which the server supports one."""
        self.driver = driver
        self.url = url
        self.ways = ways
        self.begun = False
        """Whether there is a transaction."""
        self.enforces_read_only = False
        """Whether the server refuses writes, as far as it accepted all statements that ask so."""
        self._unfinished: _Answer | None = None

    def rows(self, sql: str, values: Values | None = None) -> list[QueryRow]:
        """All rows of a short result."""
        with explained(self.url):
            return self._execute(sql, values)

    def _execute(self, sql: str, values: Values | None = None) -> list[QueryRow]:
        self._ready()
        with self.driver.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return not self.driver.open

    def attempt(
        self, sql: str, values: Values | None = None, *, expected: Collection[int] = UNSUPPORTED
    ) -> list[QueryRow] | None:
        """All rows of a short result; None if the server does not support the query.

        `expected` are the error codes that say so.
        """
        with explained(self.url):
            try:
                return self._execute(sql, values)
            except pymysql.Error as error:
                if code_of(error) not in expected:
                    raise
                return None

    def stream(
        self,
        sql: str,
        values: Values,
        at_once: int = 1,  # noqa: ARG002 - rows come one by one
    ) -> Iterator[QueryRow]:
        """The rows of a long result, one by one as they arrive.

        If another query is sent before the end, the remaining rows are read into memory first.
        """
        with explained(self.url):
            self._ready()
            cursor = self.driver.cursor(SSCursor)
            cursor.execute(sql, values or None)
        answer = self._unfinished = _Answer(cursor)
        # The rest of an unwanted result is read later, by `_ready`. The `finally` block may run in
        # the garbage collector, in the middle of another query.
        try:
            while True:
                with explained(self.url):
                    row = answer.next()
                if row is None:
                    return
                yield row
        finally:
            answer.wanted = False

    def _ready(self) -> None:
        """Finish an unfinished result, and begin the transaction if there is none."""
        if self._unfinished is not None:
            answer, self._unfinished = self._unfinished, None
            answer.put_aside()
        if not self.begun:
            self._begin()
            self.begun = True

    def _begin(self) -> None:
        """Begin a transaction. Remembers the way that the server supports."""
        while True:
            try:
                self.driver.query(self.ways[0])
                return
            except pymysql.Error as error:
                if len(self.ways) == 1 or code_of(error) not in UNSUPPORTED:
                    raise
                self.ways, self.enforces_read_only = self.ways[1:], False

    def change(self, sql: str, values: Values | None = None) -> int:
        """Run a statement. Returns the number of changed rows. Raises `pymysql.Error`."""
        with parsed():
            self._ready()
            with self.driver.cursor() as cursor:
                return int(cursor.execute(sql, values or None))

    def send(self, statement: bytes) -> None:
        """Run a statement without parameters. Raises `pymysql.Error`."""
        with parsed():
            self._ready()
            self.driver.query(statement)

    def alone(self, sql: str) -> list[QueryRow]:
        """Run a statement outside of any transaction. Raises `pymysql.Error`."""
        self.restart()
        with parsed(), self.driver.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def optimize(self, table: str) -> list[QueryRow]:
        """Write a table anew, which can take hours. Raises `pymysql.Error`.

        Uses a connection of its own, because that of PyMySQL has one time limit for good.
        """
        self.restart()
        with parsed(), closing(_driver(self.url, read_timeout=None)) as driver:
            cursor = driver.cursor()
            cursor.execute(f"OPTIMIZE TABLE {table}")
            return list(cursor.fetchall())

    def restart(self) -> None:
        """Roll the transaction back. The next query begins a new one."""
        with explained(self.url):
            if self.begun:
                self._ready()
                self.driver.rollback()
            self.begun = False

    def restart_quietly(self) -> None:
        """Roll the transaction back after an error. Ignores a lost connection."""
        with suppress(pymysql.Error, OSError), parsed():
            self.driver.rollback()
        self.begun = False

    def commit(self) -> None:
        """Commit the transaction. Raises `pymysql.Error`."""
        with parsed():
            self.driver.commit()
        self.begun = False

    def close(self) -> None:
        """Close the connection, which rolls the transaction back."""
        if self._unfinished is not None:
            self._unfinished.forget()
        with suppress(pymysql.Error, OSError):
            self.driver.close()


class _Answer:
    """A result with rows that arrive one by one."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self._kept: deque[QueryRow] = deque()
        self._arrives = True
        self.wanted = True

    def next(self) -> QueryRow | None:
        """The next row; None at the end."""
        if self._kept:
            return self._kept.popleft()
        if not self._arrives:
            return None
        try:
            row: QueryRow | None = self._cursor.fetchone()
        except BaseException:
            self.forget()
            raise
        self._arrives = row is not None
        return row

    def put_aside(self) -> None:
        """Read the remaining rows, so that another query can be sent. Keep them if wanted."""
        if not self._arrives:
            return
        self._arrives = False
        try:
            if self.wanted:
                self._kept.extend(self._cursor.fetchall_unbuffered())
            self._cursor.close()
        except BaseException:
            self.forget()
            raise

    def forget(self) -> None:
        """Leave the rest in the connection, which is closed. PyMySQL would read it to its end."""
        for one in vars(self._cursor).values():
            if isinstance(one, MySQLResult):
                one.unbuffered_active = False


def connect(url: StoreUrl, *, writable: bool = False) -> MySQLConnection:
    """Connect with the settings of the URL, `MYSQL_PWD` and `~/.my.cnf`.

    For reading, all queries of a transaction see one snapshot (REPEATABLE READ). For changing, they
    see rows that others commit meanwhile (READ COMMITTED). Raises `StoreUnavailable`, `UsageError`
    or `MissingDependency`.
    """
    is_read_only = False
    level = "READ COMMITTED" if writable else "REPEATABLE READ"
    try:
        driver = _driver(url)
        with parsed(), driver.cursor() as cursor:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
            if not writable:
                is_read_only = _refuses_writes(cursor)
    except RuntimeError as error:
        # PyMySQL names the package that a kind of password needs.
        package = "pynacl" if "pynacl" in str(error) else "cryptography"
        raise MissingDependency(
            f"cannot open '{url}': this kind of password needs the package '{package}'",
            hint=install_command(package),
        ) from None
    except (pymysql.Error, OSError, UnicodeError, ValueError) as error:
        raise _refused(url, error) from None
    connection = MySQLConnection(driver, url, _WRITING if writable else _READING)
    connection.enforces_read_only = is_read_only
    return connection


def _driver(url: StoreUrl, **settings: Any) -> GuardedPyMySQL:
    """A new connection of the driver. Raises what `connect` explains."""
    driver = GuardedPyMySQL(**{**settings_of(url), **settings})
    driver.connect()
    with parsed(), driver.cursor() as cursor:
        cursor.execute(_SESSION, {"seconds": _LOCK_SECONDS})
    return driver


def _refuses_writes(cursor: Any) -> bool:
    """Ask the server to refuse writes. Returns whether it supports that."""
    try:
        cursor.execute(_REFUSE_WRITES)
    except pymysql.Error as error:
        if code_of(error) not in UNSUPPORTED:
            raise
        return False
    return True


@contextmanager
def explained(url: StoreUrl) -> Iterator[None]:
    """Turn the driver's errors into `StoreUnavailable`, without secrets."""
    try:
        with parsed():
            yield
    except (pymysql.Error, OSError) as error:
        raise unavailable(url, error) from None


def unavailable(url: StoreUrl, error: Exception) -> StoreUnavailable:
    """The error to print, without secrets."""
    reason, hint = server_words(error, url), None
    match code_of(error):
        case code if code in OF_DRIVER:
            reason, hint = OF_DRIVER[code]
        case 2006 | 2013 if "timed out" in str(error):
            reason = "the server does not answer"
            hint = "add ?read_timeout=SECONDS to wait longer"
        case 1969 | 3024:
            reason = "the server cancelled the query: it exceeded the time limit"
            hint = "read fewer threads, or raise max_statement_time or max_execution_time"
        case 1317:
            reason = "the server cancelled the query"
        case 1205 | 1213:
            reason = "another session holds a lock on its tables"
            hint = "a migration may be running; run the command again later"
        case code if code in DENIED:
            hint = "reading needs SELECT on the three checkpoint tables"
        case 1054 | 1146:
            hint = "the tables changed while they were read; run the command again"
        case 0 | 1053 | 1077 | 1927 | 2006 | 2013 | 2014 | 2055 | 4031:
            reason, hint = "the connection was lost", "run the command again; nothing was changed"
    return StoreUnavailable(f"cannot read '{url}': {reason}", hint=hint or None)


def code_of(error: Exception) -> int:
    """The error code of the server or the driver; 0 if it has none."""
    code = error.args[0] if isinstance(error, pymysql.Error) and error.args else 0
    return code if isinstance(code, int) else 0


_REFUSALS: Sequence[tuple[int, str, str, str]] = (
    *((code, "", reason, hint) for code, (reason, hint) in OF_DRIVER.items()),
    (2014, "", *OF_DRIVER[MALFORMED]),
    (1045, "", "wrong user or password", "a password can also come from MYSQL_PWD or ~/.my.cnf"),
    (1698, "", "wrong user or password", "a password can also come from MYSQL_PWD or ~/.my.cnf"),
    (1044, "", "the user has no rights on this database", "reading needs SELECT on its tables"),
    (1049, "", "no such database", "`mysql -e 'SHOW DATABASES'` lists a server's databases"),
    (1040, "", "the server has too many connections", "try again later"),
    (1203, "", "the user has too many connections", "try again later"),
    (1130, "", "the server refuses connections from this host", ""),
    (2026, "", "TLS failed", "see ssl_mode and ssl_ca"),
    (0, "certificate|ssl", "TLS failed", "see ssl_mode and ssl_ca"),
    (0, "timed out", "the server does not answer", "add ?connect_timeout=SECONDS to wait longer"),
    *((0, *one) for one in NETWORK),
    (0, "no such file", "no server listens on that socket", "check ?unix_socket=PATH"),
    (2013, "", "the server does not answer", "add ?connect_timeout=SECONDS to wait longer"),
)
"""An error code (0 for any), a pattern for the message, the reason to print, and a hint."""


def _refused(url: StoreUrl, error: Exception) -> StoreUnavailable | UsageError:
    if isinstance(error, UnicodeError | ValueError):
        return UsageError(f"cannot read the URL '{url}'")
    code = code_of(error)
    fitting = (reason[1:] for reason in _REFUSALS if reason[0] in {0, code})
    what = f"cannot open '{url}'"
    return known_failure(what, str(error), fitting) or StoreUnavailable(
        f"{what}: {server_words(error, url)}"
    )


def server_words(error: Exception, url: StoreUrl) -> str:
    """The first line of the message of the server or the driver."""
    return first_line(error, url, str(error.args[-1] if error.args else ""))
