"""Who may look at a served screen: only those who know its address, from this machine.

Another user can reach the port, and a page from anywhere can send requests to it through the
browser. The address holds a random token. `Host` must be a name of this machine, so that a foreign
name that leads here (DNS rebinding) is refused; `Origin` must be the page itself.
"""

from __future__ import annotations

from hmac import compare_digest
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"
_NAMES = frozenset({LOOPBACK, "localhost"})


def is_allowed(path: str, host: str, origin: str | None, token: str, *, from_page: bool) -> bool:
    """Return whether a request may be answered.

    `host` and `origin` are its headers. With `from_page`, only a page of this server may send it,
    such as the one that opens a WebSocket: browsers do not keep other pages from that.
    """
    # The path of `OPTIONS *` has no slash.
    given = path.removeprefix("/").partition("/")[0]
    if not compare_digest(given.encode("utf-8", "replace"), token.encode()):
        return False
    # The port may differ: `ssh -L` forwards another one.
    if _name_of(host) not in _NAMES:
        return False
    return not from_page if origin is None else origin == f"http://{host}"


def _name_of(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def page_policy(host: str) -> str:
    """Return the policy of the page: it loads nothing from elsewhere and is in no frame."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        f"img-src 'self' data:; font-src 'self'; connect-src ws://{host}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
