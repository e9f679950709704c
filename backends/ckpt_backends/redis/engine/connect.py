"""Connects to the server or cluster that a URL names.

The protocol is RESP2, because modules answer in other forms with RESP3.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote

from redis import exceptions
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from ckpt_backends.errors import Unsupported, UsageError
from ckpt_backends.redis.engine.connection import (
    COUNTING,
    SCAN_COUNT,
    Command,
    RedisConnection,
    answers_of,
    check,
    client,
    explained,
    keys_of,
    turns,
    unavailable,
)
from ckpt_backends.servers import understood, unexpected
from ckpt_backends.url import StoreUrl, split_url

# A connection to a Redis Cluster, where each key is on the server of its slot.
#
# Each command is sent to the server of its keys; SCAN is sent to all servers. A transaction can
# only use keys of one slot. The slot of a key is the CRC16 of its name, or of the part in its
# first braces. Source: the specification of Redis Cluster.
#
# Which servers there are is asked once, with CLUSTER SLOTS. They get the same user and password,
# with TLS if the URL has it. A redirection (MOVED, ASK) is an error and is never followed.


ONE_SLOT = "a Redis Cluster has no transaction over keys of several slots"
_OF_ALL = frozenset({"INFO", "PING", "EXISTS"})
"""Commands that all servers answer together."""
_ONE_KEY = 3
"""Words of JSON.MGET with one key."""
_SUMMED = {"memory": "used_memory_dataset"}
"""By section of INFO, the number to add up over all servers."""
_SLOTS, _PORTS = 1 << 14, 1 << 16
Address = tuple[str, int]


class ClusterConnection(RedisConnection):
    """A client of all primary servers of a cluster. Its methods raise `StoreUnavailable`."""

    is_cluster = True

    def __init__(
        self, servers: Mapping[Address, Any], slots: Mapping[int, Address], url: StoreUrl
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

    def ask(self, *command: bytes | str | int) -> Any:
        check(command)
        name, *rest = command
        if name == "INFO":
            return self._info(*rest)
        if name == "PING":
            return self._each(lambda server: server.ping())[0]
        if name == "EXISTS":
            return self.number_of([one for one in rest if isinstance(one, bytes)])
        if name == "JSON.MGET":
            *names, path = rest
            return list(self.ask_all(("JSON.GET", one, path) for one in names))
        return super().ask(*command)

    def find(self, *command: bytes | str | int) -> Any:
        # Without a coordinator, an index of RediSearch contains only the keys of one server.
        if str(command[0]).startswith("FT."):
            return None
        if command[0] in _OF_ALL or (command[0] == "JSON.MGET" and len(command) > _ONE_KEY):
            return self.ask(*command)
        return super().find(*command)

    def _run(self, command: Command) -> Any:
        return self._server(keys_of(command)).execute_command(*command)

    def _info(self, *section: bytes | str | int) -> dict[str, Any]:
        answers = self._each(lambda server: server.info(*section))
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

    def scan(self, pattern: bytes, kind: str | None = None) -> Iterator[list[bytes]]:
        only = [] if kind is None else ["TYPE", kind]
        after = ("MATCH", pattern, "COUNT", SCAN_COUNT, *only)
        for server in self._each(lambda server: server):

            def ask(cursor: int, server: Any = server) -> Any:
                with explained(self._url):
                    return self.checked(("SCAN",), server.execute_command("SCAN", cursor, *after))

            yield from turns(self._url, ask)

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
        address = self._slots.get(key_slot(names[0]))
        if address is None:
            raise unavailable(self._url, exceptions.RedisClusterException("slot not covered"))
        return self._servers[address]

    def _each(self, ask: Callable[[Any], Any]) -> list[Any]:
        self._check_open()
        with explained(self._url):
            return [ask(one) for one in self._servers.values()]

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
            slots = _slots(first.execute_command("CLUSTER", "SLOTS"), settings["host"], url)
    finally:
        first.close()
    if not slots:
        raise unavailable(url, exceptions.RedisClusterException())
    servers = {
        (host, port): client(settings | {"host": host, "port": port})
        for host, port in sorted(set(slots.values()))
    }
    return ClusterConnection(servers, slots, url)


def _slots(ranges: Any, first: str, url: StoreUrl) -> dict[int, Address]:
    """By slot, the address of its primary server. `first` is the host that was asked."""
    found: dict[int, Address] = {}
    for start, end, (host, port, *_), *_ in ranges:
        # The host is empty or nil if the server does not know its name.
        address = (first if host in {None, b"", b"?"} else host.decode(), int(port))
        if not (0 <= start <= end < _SLOTS and 0 < address[1] < _PORTS):
            raise unexpected(url)
        found |= dict.fromkeys(range(start, end + 1), address)
    return found


OWN_PARAMS = frozenset(
    {"layout", "prefix", "write_prefix", "pattern", "store_prefix", "vector_prefix"}
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
