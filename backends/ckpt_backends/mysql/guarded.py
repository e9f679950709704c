"""PyMySQL's connection, with limits on what a server may ask for and send.

A server chooses how a user authenticates and how long its answers are. So a hostile server, or
somebody between it and this machine, could ask for the password in clear text, or send rows for
ever.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from io import DEFAULT_BUFFER_SIZE
from time import monotonic
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CLIENT, CR, FIELD_TYPE
from pymysql.converters import conversions
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

from ckpt_backends.servers.insecure_connection import is_local, warn_unencrypted, warn_unverified

MOST_BYTES = 1 << 30
"""The longest answer, or the longest row of an answer that is read row by row."""
_PER_READ, _PER_COLUMN = 256, 1 << 18
"""Bytes that each piece of an answer counts in addition, because objects are made from it."""
MALFORMED, TOO_LONG, TOO_SLOW, INSECURE, WANTS_FILE = -1, -2, -3, -4, -5
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
    """A connection to a server that is not trusted. All its errors are `pymysql.Error`.

    The password is sent in clear text only to a server with a verified certificate and host name,
    or through a Unix socket.
    """

    def __init__(self, *, read_timeout: int, **settings: Any) -> None:
        self._patience: float | None = settings["connect_timeout"]
        self._later = read_timeout
        self._is_connecting = True
        self._public_key: bytes | None = None
        self.expect_more()
        super().__init__(
            **settings,
            conv={**conversions, FIELD_TYPE.DECIMAL: _decimal, FIELD_TYPE.NEWDECIMAL: _decimal},
            read_timeout=self._patience,
            write_timeout=self._patience,
            local_infile=False,
            defer_connect=True,
        )
        context = self.ctx if self.ssl and self._ssl_required else None
        self._is_verified = (
            context is not None
            and context.verify_mode is ssl.CERT_REQUIRED
            and context.check_hostname
        )
        self._is_local = bool(self.unix_socket) or is_local(self.host)
        if not self.unix_socket and not self._is_verified:
            self._auth_plugin_map = dict.fromkeys(_CLEAR, _Refusal)

    def connect(self, sock: Any = None) -> None:
        """Connect. `connect_timeout` covers it all: a slow server cannot prolong it."""
        with parsed():
            self.expect_more()
            super().connect(sock)
        self._is_connecting = False

    def wait(self, *, for_ever: bool = False) -> None:
        """From now on, wait for answers as long as `read_timeout` says."""
        self._patience = None if for_ever else self._later
        self._read_timeout = self._write_timeout = self._patience

    def expect_more(self) -> None:
        """Begin to read an answer, or its next row."""
        self._left = MOST_BYTES
        self._since = monotonic()

    def expect_rest(self) -> None:
        """Begin to read the rest of an answer, only to throw it away."""
        self.expect_more()
        self._left = 1 << 62

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
        if self._is_connecting and self.password:
            is_sent = self._auth_plugin_name == "sha256_password" and self._is_encrypted
            if is_sent or payload == self.password + b"\0":
                self._before_clear_text()
        super().write_packet(payload)

    @property
    def _is_encrypted(self) -> bool:
        return isinstance(self._sock, ssl.SSLSocket)

    def _before_clear_text(self) -> None:
        """PyMySQL is about to send the password as it is."""
        if self.unix_socket or (self._is_encrypted and self._is_verified):
            return
        if not self._is_encrypted:
            self.refuse("the server asks for the password in clear text")
        if not self._is_local:
            warn_unverified(self.host, _ADVICE)

    def _request_authentication(self) -> None:
        offered = self.ssl and self.server_capabilities & CLIENT.SSL
        if self.password and not self._is_local and not offered and not self._ssl_required:
            warn_unencrypted(self.host, _ADVICE)
        super()._request_authentication()

    def next_result(self, unbuffered: bool = False) -> int:  # noqa: ARG002
        # No statement of ckpt has several results, and a server could send them for ever.
        self._force_close()
        raise pymysql.OperationalError(MALFORMED, "another result")

    def _execute_command(self, command: int, sql: Any) -> None:
        self.expect_more()
        super()._execute_command(command, sql)

    def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        if packet_type is FieldDescriptorPacket:
            self._left -= _PER_COLUMN
        if self._sock is None:
            raise pymysql.InterfaceError(0, "closed")
        return super()._read_packet(packet_type)

    def _read_bytes(self, num_bytes: int) -> bytes:
        """Read with a limit for the answer's bytes, and one for its time.

        A socket's timeout is for one read, so a server that sends a byte now and then would be
        waited for without end.
        """
        self._left -= num_bytes + _PER_READ
        if self._left < 0:
            self._force_close()
            raise pymysql.OperationalError(TOO_LONG, "the server's answer is too long")
        parts: list[bytes] = []
        missing = num_bytes
        while missing:
            try:
                if missing <= DEFAULT_BUFFER_SIZE:
                    # Fills the buffer with what is there. `read1` alone receives only what it is
                    # asked for: a call of the system for each part of each row.
                    self._rfile.peek(1)
                data = self._rfile.read1(missing)
            except OSError as error:
                self._force_close()
                raise pymysql.OperationalError(_code(error), str(error)) from error
            if not data:
                self._force_close()
                raise pymysql.OperationalError(CR.CR_SERVER_LOST, "the connection was lost")
            if self._patience is not None and monotonic() - self._since > self._patience:
                self._force_close()
                raise pymysql.OperationalError(TOO_SLOW, "timed out")
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def _force_close(self) -> None:
        # An unfinished result would read on when it is garbage.
        if self._result is not None:
            self._result.unbuffered_active = False
        super()._force_close()


@contextmanager
def parsed() -> Iterator[None]:
    """Turn what PyMySQL raises for a malformed answer into `pymysql.Error`."""
    try:
        yield
    except (pymysql.Error, OSError):
        raise
    except Exception as error:
        # PyMySQL needs another package for some kinds of passwords.
        if isinstance(error, RuntimeError) and "package is required" in str(error):
            raise
        if isinstance(error, RuntimeError) and "LOAD_LOCAL" in str(error):
            raise pymysql.OperationalError(WANTS_FILE, "LOCAL INFILE") from error
        raise pymysql.InternalError(MALFORMED, "malformed answer") from error


def _code(error: OSError) -> int:
    return TOO_SLOW if isinstance(error, TimeoutError) else CR.CR_SERVER_LOST


def _decimal(text: str) -> Decimal:
    """A number with digits only. `int` would compute for hours on 1e999999999."""
    if not text.removeprefix("-").replace(".", "", 1).isdecimal():
        raise ValueError("not a number of a sum")
    return Decimal(text)
