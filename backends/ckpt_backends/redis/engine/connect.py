"""Connects to the server or cluster that a URL names.

The protocol is RESP2, because modules answer in other forms with RESP3.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote

from redis.backoff import NoBackoff
from redis.retry import Retry

from ckpt_backends.errors import UsageError
from ckpt_backends.redis.engine.cluster import open_cluster
from ckpt_backends.redis.engine.connection import RedisConnection, client
from ckpt_backends.servers.answer_errors import understood
from ckpt_backends.url import StoreUrl, split_url

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
