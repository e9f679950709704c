"""What may be sent over a connection that others can read, or whose other end is not known."""

from __future__ import annotations

import warnings

from ckpt_backends.errors import InsecureConnection


def is_local(host: str) -> bool:
    """Whether a host is this machine: a socket's path, a loopback address or `localhost`."""
    import ipaddress  # late: stores without a server do not need it

    if not host or host.startswith(("/", "@")) or host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def warn_unencrypted(host: str, advice: str, what: str = "") -> None:
    """Warn, once per host and run, that a password, or `what`, is on an unencrypted connection.

    `what` is the begin of a sentence, such as `data from 'HOST' comes`.
    """
    what = what or f"the password goes to '{host}'"
    _warn(host, f"{what} over an unencrypted connection; {advice}")


def warn_unverified(host: str, advice: str) -> None:
    """Warn, once per host and run, that a password goes to a server that was not checked."""
    problem = "but its certificate or host name was not checked"
    _warn(host, f"the password goes to '{host}', {problem}; {advice}")


def _warn(host: str, text: str) -> None:
    if host not in _WARNED:
        _WARNED.add(host)
        warnings.warn(InsecureConnection(text), stacklevel=3)


_WARNED: set[str] = set()
"""Hosts that were named in a warning."""
