"""PyMySQL's connection, which does not give the password away.

A server chooses how a user authenticates. So a hostile server, or somebody between it and this
machine, could ask for the password in clear text.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CLIENT, FIELD_TYPE
from pymysql.converters import conversions
from pymysql.protocol import MysqlPacket

from ckpt_backends.servers.insecure_connection import is_local, warn_unencrypted, warn_unverified

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
