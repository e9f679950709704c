"""Converts a store URL to the settings of the driver: user, password, TLS."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from configparser import Error, RawConfigParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ckpt_backends.errors import UsageError
from ckpt_backends.url import StoreUrl, split_url

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
