"""Connects to a server or a cluster; allows only reading commands.

Redis has no read-only session, so the allowed commands are listed here. None of them changes a time
to live. Answers are bytes. The protocol is RESP2, because modules answer in other forms with RESP3.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any
from urllib.parse import unquote

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from ckpt_backends.errors import CkptError, StoreUnavailable, Unsupported, UsageError
from ckpt_backends.model import in_chunks
from ckpt_backends.servers import (
    NETWORK,
    first_line,
    is_local,
    misunderstood,
    understood,
    unexpected,
    warn_unencrypted,
)
from ckpt_backends.url import StoreUrl, split_url


def answers_of(driver: Any, commands: Sequence[Command]) -> list[Any]:
    """The answers in the order of the commands, which are sent in one request.

    Errors of the server are returned, not raised. `driver` is the client of one server. Raises the
    driver's errors if the connection is lost.
    """
    pipe = driver.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
    answers: list[Any] = pipe.execute(raise_on_error=False)
    return answers


# Turns the errors of the driver, and of the server behind it, into errors for the user.


@contextmanager
def explained(url: StoreUrl) -> Iterator[None]:
    """Turn the driver's errors into `StoreUnavailable`, without secrets and without stored data."""
    try:
        yield
    except CkptError:
        raise
    except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
        raise unavailable(url, error) from None
    except Exception as error:
        # The driver did not expect such an answer.
        raise misunderstood(url, error) from error


_SHOWN = 200
_REASONS: Sequence[tuple[str | type[Exception], str, str]] = (
    (
        "WRONGPASS|invalid (username-)?password|invalid username",
        "wrong user or password",
        "a password can also come from REDISCLI_AUTH",
    ),
    (
        "NOAUTH|Authentication required",
        "the server asks for a password",
        "set REDISCLI_AUTH, or put it in the URL: redis://:PASSWORD@HOST:PORT/0",
    ),
    (
        "without any password|no password is set",
        "the server has no password, but one is given",
        "remove the password",
    ),
    (exceptions.AuthenticationError, "the server rejects this user", ""),
    (exceptions.TimeoutError, "the server does not answer", "add ?socket_timeout=SECONDS to wait"),
    (
        exceptions.BusyLoadingError,
        "the server is still loading its data",
        "run the command again in a moment",
    ),
    (
        exceptions.NoPermissionError,
        "permission denied",
        "reading needs `+@read +scan +ping +info` and the keys' patterns; see docs/layouts.md",
    ),
    ("DB index", "no such database", ""),
    (
        "SELECT is not allowed in cluster mode",
        "a cluster has only database 0",
        "remove the database number from the URL",
    ),
    *NETWORK,
    (
        "certificate verify failed|CERTIFICATE_VERIFY_FAILED|Hostname mismatch",
        "the server's certificate is not trusted",
        "name the authority: ?ssl_ca_certs=FILE",
    ),
    (r"\b(SSL|TLS)", "TLS failed", "use rediss:// for a port with TLS, redis:// for one without"),
    (exceptions.ConnectionError, "the connection was lost", "for a server with TLS, use rediss://"),
    (
        "MOVED|ASK|CLUSTERDOWN|slot not covered|not covered by the cluster",
        "the cluster is moving slots, or part of it is down",
        "run the command again when `redis-cli CLUSTER INFO` says cluster_state:ok",
    ),
    (
        exceptions.RedisClusterException,
        "the servers of the cluster are unreachable",
        "each server must be reachable at the address that it announces",
    ),
)
"""A class of the driver's errors or a pattern for the message, the reason to print, and a hint."""


def unavailable(url: StoreUrl, error: Exception) -> StoreUnavailable:
    """The error to print. A server's message may quote a key, so only its first line is used."""
    for mark, reason, hint in _REASONS:
        if (
            re.search(mark, str(error), re.IGNORECASE)
            if isinstance(mark, str)
            else isinstance(error, mark)
        ):
            return StoreUnavailable(f"cannot read '{url}': {reason}", hint=hint or None)
    if isinstance(error, exceptions.InvalidResponse):
        return unexpected(url, f"the server does not speak Redis's protocol: {error}")
    said = first_line(error, url)
    said = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}..."
    return StoreUnavailable(f"cannot read '{url}': {said}")


@contextmanager
def explained_change(url: StoreUrl, outcome: str) -> Iterator[None]:
    """Turn the driver's errors into `StoreUnavailable`, with `outcome` in the message."""
    try:
        yield
    except exceptions.WatchError:
        raise
    except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
        raise _refused(url, error, outcome) from None


def _refused(url: StoreUrl, error: Exception, outcome: str) -> StoreUnavailable:
    said = str(error)
    reason, hint = None, None
    if isinstance(error, exceptions.ReadOnlyError) or "READONLY" in said:
        reason, hint = "the server is a read-only replica", "use the URL of its primary"
    elif isinstance(error, exceptions.NoPermissionError):
        reason = "permission denied"
        hint = "a change needs +@write, +@transaction, and the module's commands for documents"
    elif isinstance(error, exceptions.OutOfMemoryError) or "OOM" in said:
        reason = "the server is out of memory"
    elif "EXECABORT" in said or isinstance(error, exceptions.ExecAbortError):
        reason = "the server refused the transaction"
    if reason is not None:
        return StoreUnavailable(f"cannot write to '{url}': {reason}; {outcome}", hint=hint)
    found = unavailable(url, error)
    found.message = f"{found.message}; it is unknown whether anything was written"
    return found


SCAN_COUNT = 5000
"""Keys per SCAN call. One call blocks the server for two or three milliseconds."""
AT_ONCE, NAMES_AT_ONCE = 500, 1000
"""Commands, and keys of one command, that are sent together."""
READING = frozenset(
    {"EXISTS", "GET", "HGET", "HMGET", "HSTRLEN", "INFO", "MGET", "PING", "PTTL", "SCAN", "TYPE"}
    | {"GETRANGE", "HGETALL", "HKEYS", "HSCAN", "MEMORY USAGE", "PEXPIRETIME", "STRLEN"}
    | {"LINDEX", "LRANGE", "ZRANGE", "ZSCORE"}
    | {"JSON.DEBUG", "JSON.GET", "JSON.MGET", "JSON.TYPE"}
    | {"FT._LIST", "FT.INFO", "FT.AGGREGATE", "FT.CURSOR", "FT.SEARCH"}
)
"""All commands that a store opened for reading sends, except those for logging in."""
COUNTING = frozenset({"EXISTS", "UNLINK"})
"""Commands that take any number of keys and return a number."""
_ELSEWHERE = (exceptions.AskError, exceptions.ClusterDownError, exceptions.TryAgainError)
Command = Sequence[bytes | str | int]
Watch = Callable[[Sequence[bytes]], None]
"""Watches keys until the end of a transaction."""


class RedisConnection:
    """A client of one database. Its methods raise `StoreUnavailable`."""

    is_cluster = False
    """Whether keys are on several servers."""
    database = 0
    """The number of the database. RediSearch has indexes of the keys in database 0 only, and names
    them in every database."""

    # Any, because the driver does not type the answers of `execute_command`.
    def __init__(self, driver: Any, url: StoreUrl) -> None:
        self._driver = driver
        self._url = url
        self._is_open = True

    @property
    def driver(self) -> Any:
        """The driver's client, for changes. Raises `StoreUnavailable` if it is closed."""
        self._check_open()
        return self._driver

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailable(f"'{self._url}' is closed")

    @contextmanager
    def transaction(self, names: Sequence[bytes], *, loose: bool = False) -> Iterator[Any]:  # noqa: ARG002
        """The driver's pipeline for a transaction on these keys: all commands run, or none.

        On a cluster, raises `Unsupported` if the keys are of several slots. A `loose` transaction
        then runs its commands one by one instead, and watches no keys.
        """
        with self.driver.pipeline(transaction=True) as pipe:
            yield pipe

    def change(
        self,
        watched: Sequence[bytes],
        commands: Callable[[Watch], Iterable[Command]],
        names: Sequence[bytes] = (),
    ) -> list[Any]:
        """Run commands with these keys in one transaction. Returns the answers, also errors.

        `commands` is called after the keys are watched, and may watch more: what it checks and
        reads stays as it is, or `WatchError` is raised. The `names` are not watched.
        """
        with self.transaction([*watched, *names]) as pipe:

            def watch(some: Sequence[bytes]) -> None:
                if some:
                    pipe.watch(*some)

            watch(watched)
            together = list(commands(watch))
            pipe.multi()
            for command in together:
                pipe.execute_command(*command)
            answers: list[Any] = pipe.execute(raise_on_error=False)
            return answers

    def check_together(self, names: Iterable[bytes]) -> None:
        """Raise `Unsupported` if these keys cannot be changed in one transaction."""

    def servers(self) -> list[Any]:
        """The driver's client of each server. Raises `StoreUnavailable` if it is closed."""
        return [self.driver]

    def client_of(self, name: bytes) -> Any:  # noqa: ARG002
        """The driver's client for the server with a key."""
        return self.driver

    def _run(self, command: Command) -> Any:
        return self.driver.execute_command(*command)

    def _run_all(self, commands: Sequence[Command]) -> list[Any]:
        """The answers in the order of the commands; errors are returned, not raised."""
        return answers_of(self.driver, commands)

    def ask(self, *command: bytes | str | int) -> Any:
        """The answer to one command."""
        check(command)
        with explained(self._url):
            return self._run(command)

    def find(self, *command: bytes | str | int) -> Any:
        """The answer to one command; None if it is unknown to the server or not permitted."""
        check(command)
        with explained(self._url):
            try:
                return self._run(command)
            except _ELSEWHERE:
                raise  # the server of a key has changed
            except exceptions.ResponseError:
                return None

    def ask_all(self, commands: Iterable[Command], at_once: int = AT_ONCE) -> Iterator[Any]:
        """The answer to each command; None if the key does not exist or has another type."""
        stream = iter(commands)
        while some := list(islice(stream, at_once)):
            for command in some:
                check(command)
            with explained(self._url):
                answers = self._run_all(some)
            for answer in answers:
                if isinstance(answer, Exception):
                    if isinstance(answer, exceptions.NoPermissionError | exceptions.MovedError):
                        raise unavailable(self._url, answer)
                    if isinstance(answer, exceptions.ResponseError):
                        yield None
                        continue
                yield answer

    def number_of(self, names: Sequence[bytes]) -> int:
        """The number of these keys that exist."""
        return sum(int(self.ask("EXISTS", *some)) for some in in_chunks(names, NAMES_AT_ONCE))

    def scan(self, pattern: bytes, kind: str | None = None) -> Iterator[list[bytes]]:
        """The keys that match a pattern, in batches. A key may appear twice.

        Uses SCAN, because KEYS would block the server.
        """
        only = [] if kind is None else ["TYPE", kind]
        after = ("MATCH", pattern, "COUNT", SCAN_COUNT, *only)
        for server in self.servers():

            def ask(cursor: int, server: Any = server) -> Any:
                with explained(self._url):
                    return server.execute_command("SCAN", cursor, *after)

            yield from turns(self._url, ask)

    def scan_once(self, pattern: bytes, kind: str | None = None) -> Iterator[list[bytes]]:
        """The keys that match a pattern, in batches, each key once. Keeps all keys in memory."""
        seen: set[bytes] = set()
        for names in self.scan(pattern, kind):
            new = [one for one in dict.fromkeys(names) if one not in seen]
            seen.update(new)
            yield new

    def turns(
        self, name: str, before: Iterable[bytes], after: Iterable[bytes | str | int]
    ) -> Iterator[Any]:
        """The results of a command with a cursor, which is between `before` and `after`.

        Empty results are left out.
        """
        return turns(self._url, lambda cursor: self.ask(name, *before, cursor, *after))

    def close(self) -> None:
        """Close the connection."""
        if self._is_open:
            self._is_open = False
            with suppress(exceptions.RedisError, OSError):
                self._driver.close()


def turns(url: StoreUrl, ask: Callable[[int], Any]) -> Iterator[Any]:
    """The results of a command with a cursor, without empty ones, until the cursor is 0.

    Raises `Unreadable` if a cursor returns, which would never end.
    """
    cursor = remembered = turn = 0
    while True:
        cursor, found = ask(cursor)
        if found:
            yield found
        if cursor == 0:
            return
        if cursor == remembered:
            raise unexpected(url, "the server repeats a cursor")
        # Only the cursors of the turns 1, 2, 4, 8, ... are remembered; a circle meets one of them.
        turn += 1
        if turn & (turn - 1) == 0:
            remembered = cursor


def keys_of(command: Command) -> list[bytes]:
    """The keys that a command names."""
    name, *rest = command
    if name == "JSON.DEBUG":
        rest = rest[1:]
    if name == "COPY":
        rest = rest[:2]
    elif name not in COUNTING:
        rest = rest[:1]
    return [one if isinstance(one, bytes) else str(one).encode() for one in rest]


def check(command: Command) -> None:
    """Raise ValueError if a command is not in `READING`."""
    if command[0] not in READING:
        raise ValueError(f"{command[0]!r} is not among the commands that only read")


def client(settings: Mapping[str, Any]) -> Any:
    """A client of one server, which warns if it will send a password that others can read."""
    given = dict(settings)
    is_encrypted = given.pop("ssl", False)
    if given["password"] and not is_encrypted and not is_local(given["host"]):
        warn_unencrypted(given["host"], "use rediss:// if the server has TLS")
    return redis.Redis(ssl=is_encrypted, **given)


# A connection to a Redis Cluster, where each key is on the server of its slot.
#
# Each command is sent to the server of its keys; SCAN is sent to all servers. A transaction can
# only use keys of one slot. The slot of a key is the CRC16 of its name, or of the part in its
# first braces. Source: the specification of Redis Cluster.
#
# Which servers there are is asked once, with CLUSTER SLOTS. They get the same user and password,
# with TLS if the URL has it. A redirection (MOVED, ASK) is an error and is never followed.
# `RedisCluster` of redis-py would follow it with the password, and needs the right to run COMMAND.


ONE_SLOT = "a Redis Cluster has no transaction over keys of several slots"
_ONE_KEY = 2
"""Words behind JSON.MGET with one key."""
_SUMMED = {"memory": "used_memory_dataset"}
"""By section of INFO, the number to add up over all servers."""
Address = tuple[str, int]
Slots = tuple[int, int, Address]
"""The first and the last of some slots, and their primary server."""


class ClusterConnection(RedisConnection):
    """A client of all primary servers of a cluster. Its methods raise `StoreUnavailable`."""

    is_cluster = True

    def __init__(
        self, servers: Mapping[Address, Any], slots: Sequence[Slots], url: StoreUrl
    ) -> None:
        super().__init__(None, url)
        self._servers = servers
        self._slots = slots

    @property
    def driver(self) -> Any:
        """Always raises `Unsupported`: callers use it for transactions over any keys."""
        raise Unsupported(
            f"'{self._url}' is a cluster: {ONE_SLOT}",
            hint="nothing was written; import into a single server instead",
        )

    def find(self, *command: bytes | str | int) -> Any:
        # Without a coordinator, an index of RediSearch contains only the keys of one server.
        return None if str(command[0]).startswith("FT.") else super().find(*command)

    def _run(self, command: Command) -> Any:
        name, *rest = command
        if name == "INFO":
            return self._info(*rest)
        if name == "PING":
            return next(iter(self._servers.values())).ping()
        if name == "EXISTS":
            return self.number_of(keys_of(command))
        if name == "JSON.MGET" and len(rest) > _ONE_KEY:
            return list(self.ask_all(("JSON.GET", one, rest[-1]) for one in rest[:-1]))
        return self._server(keys_of(command)).execute_command(*command)

    def _info(self, *section: bytes | str | int) -> dict[str, Any]:
        answers = [server.info(*section) for server in self.servers()]
        found: dict[str, Any] = dict(answers[0])
        summed = _SUMMED.get(str(section[0]))
        if summed in found:
            found[summed] = sum(int(one.get(summed, 0)) for one in answers)
        return found

    def _run_all(self, commands: Sequence[Command]) -> list[Any]:
        """The answers in the order of the commands, with one request to each server."""
        by_server: dict[int, tuple[Any, list[int]]] = {}
        for number, command in enumerate(commands):
            server = self._server(keys_of(command))
            by_server.setdefault(id(server), (server, []))[1].append(number)
        found: list[Any] = [None] * len(commands)
        for server, numbers in by_server.values():
            answers = answers_of(server, [commands[number] for number in numbers])
            for number, answer in zip(numbers, answers, strict=True):
                found[number] = answer
        return found

    def number_of(self, names: Sequence[bytes]) -> int:
        return sum(int(one or 0) for one in self.ask_all(("EXISTS", name) for name in names))

    def check_together(self, names: Iterable[bytes]) -> None:
        if len({key_slot(name) for name in names}) > 1:
            raise Unsupported(
                f"'{self._url}' is a cluster: {ONE_SLOT}, so nothing was written",
                hint="keys with the same text in braces share a slot: use a thread id such as"
                " '{42}', or the prefix '{lg}' for langgraph-checkpoint-plainredis",
            )

    @contextmanager
    def transaction(self, names: Sequence[bytes], *, loose: bool = False) -> Iterator[Any]:
        if loose and len({key_slot(name) for name in names}) > 1:
            yield _Loose(self)
            return
        self.check_together(names)
        with self._server(names).pipeline(transaction=True) as pipe:
            yield pipe

    def servers(self) -> list[Any]:
        self._check_open()
        return list(self._servers.values())

    def client_of(self, name: bytes) -> Any:
        return self._server([name])

    def send(self, command: Command) -> Any:
        """Run a changing command with keys of one slot. Raises the driver's errors."""
        return self._run(command)

    def _server(self, names: Sequence[bytes]) -> Any:
        """The client of the server with these keys. All keys must be of one slot."""
        self._check_open()
        if not names:
            return next(iter(self._servers.values()))
        slot = key_slot(names[0])
        for start, end, address in self._slots:
            if start <= slot <= end:
                return self._servers[address]
        raise unavailable(self._url, exceptions.RedisClusterException("slot not covered"))

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            for one in self._servers.values():
                with suppress(exceptions.RedisError, OSError):
                    one.close()


class _Loose:
    """Replaces a transaction if keys are of several slots: runs the commands one by one.

    The caller must order the commands so that an interruption does no harm.
    """

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self._commands: list[Command] = []

    def watch(self, *names: bytes) -> None:
        """Do nothing: keys of several servers cannot be watched."""

    def multi(self) -> None:
        self._commands.clear()

    def execute_command(self, *command: bytes | str | int) -> None:
        self._commands.append(command)

    def execute(self) -> list[Any]:
        """Run the commands. Raises the driver's errors; earlier commands stay done."""
        return [self._run(command) for command in self._commands]

    def _run(self, command: Command) -> Any:
        if command[0] in COUNTING:
            return sum(self._connection.send((command[0], one)) for one in command[1:])
        return self._connection.send(command)


def open_cluster(url: StoreUrl, settings: dict[str, Any]) -> ClusterConnection:
    """Connect to all servers of a cluster, given the address of one. Raises `StoreUnavailable`."""
    first = client(settings)
    try:
        with explained(url):
            slots = [
                # The host is empty or nil if the server does not know its name.
                (start, end, ((host or b"").decode().strip("?") or settings["host"], int(port)))
                for start, end, (host, port, *_), *_ in first.execute_command("CLUSTER", "SLOTS")
            ]
    finally:
        first.close()
    if not slots:
        raise unavailable(url, exceptions.RedisClusterException())
    servers = {
        (host, port): client(settings | {"host": host, "port": port})
        for host, port in sorted({address for _, _, address in slots})
    }
    return ClusterConnection(servers, slots, url)


OWN_PARAMS = frozenset(
    {"layout", "prefix", "write_prefix", "pattern", "store_prefix", "vector_prefix", "actor"}
)
"""URL parameters for ckpt; they are not passed to the driver."""
_SECONDS = 10.0
_LONGEST = 60.0
"""Timeout of one answer and of the TLS handshake, in seconds."""
_MOST_SECONDS = 1e6


def connect(url: StoreUrl) -> RedisConnection:
    """Connect to the server or cluster of the URL. Raises `StoreUnavailable` or `UsageError`.

    A password may also come from the variable `REDISCLI_AUTH`, as for redis-cli.
    """
    settings = _settings(url)
    connection = RedisConnection(client(settings), url)
    connection.database = settings["db"]
    try:
        with understood(url):
            connection.ask("PING")
            is_alone = not (connection.find("INFO", "cluster") or {}).get("cluster_enabled")
    except BaseException:
        connection.close()
        raise
    if is_alone:
        return connection
    connection.close()
    return open_cluster(url, settings)


_TEXTS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
_SWITCHES = ("ssl_check_hostname",)
_ENCRYPTED = frozenset({"rediss", "valkeys"})
_NUMBERS = ("db", "connect_timeout", "socket_timeout")
PARAMS = OWN_PARAMS.union(_TEXTS, _SWITCHES, _NUMBERS)
"""All URL parameters."""


def _settings(url: StoreUrl) -> dict[str, Any]:
    """The arguments for the driver's client from the URL. Raises `UsageError`."""
    parts = split_url(url.raw)
    unknown = sorted(url.params.keys() - PARAMS)
    if unknown:
        raise UsageError(
            f"unknown URL parameter '{unknown[0]}' for Redis",
            hint=f"known: {', '.join(sorted(PARAMS))}",
        )
    address = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d*))?", parts.hosts)
    if address is None or "," in parts.hosts:
        raise UsageError(
            f"cannot read the URL '{url}': it must name one host",
            hint=f"write {parts.scheme}://HOST:PORT/0",
        )
    database = url.params.get("db") or parts.path.strip("/") or "0"
    if not database.isdecimal():
        raise UsageError(
            f"cannot read the URL '{url}': the database '{unquote(database)}' is not a number",
            hint=f"write {parts.scheme}://HOST:PORT/0",
        )
    wait = _number(url, "connect_timeout") or _SECONDS
    settings: dict[str, Any] = {
        "host": unquote(address[1]).strip("[]") or "localhost",
        "port": int(address[2] or 6379),
        "db": int(database),
        "username": unquote(parts.user or "") or None,
        "password": unquote(parts.password or "") or os.environ.get("REDISCLI_AUTH") or None,
        "protocol": 2,
        "client_name": "ckpt",
        "socket_connect_timeout": wait,
        "socket_timeout": _number(url, "socket_timeout") or _LONGEST,
        "retry": Retry(NoBackoff(), 0),
    }
    if parts.scheme in _ENCRYPTED:
        texts = {name: url.params[name] for name in _TEXTS if name in url.params}
        named = url.params.get("ssl_check_hostname", "true").lower()
        settings |= {"ssl": True, **texts, "ssl_check_hostname": named not in {"false", "0", "no"}}
    return settings


def _number(url: StoreUrl, name: str) -> float | None:
    text = url.params.get(name)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < _MOST_SECONDS:
        raise UsageError(f"invalid URL parameter '{name}': not a number of seconds")
    return number
