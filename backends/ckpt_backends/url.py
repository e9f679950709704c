"""Store URLs: what a person names a store with, always printable without its secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from ckpt_backends.errors import UsageError

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_PLAIN = re.compile(r"[\w.-]*", re.ASCII)
_PRINTABLE_PARAMS = frozenset({"layout", "copy"})
"""Query parameters whose values are shown. All others may hold a secret and are masked."""


@dataclass(frozen=True, slots=True, repr=False)
class StoreUrl:
    """A parsed store URL. `str()` and `repr()` never show a password."""

    scheme: str
    path: str
    """The file of a file store, or the database of a server."""
    params: Mapping[str, str] = field(default_factory=dict)
    """What the layout needs to be told, such as `layout`."""
    raw: str = ""
    """The text as given; holds secrets, so only a driver may see it."""

    def __str__(self) -> str:
        return printable(self.raw) if self.raw else self.path

    def __repr__(self) -> str:
        return f"StoreUrl({str(self)!r})"


def parse_url(text: str) -> StoreUrl:
    """A path to a SQLite file, or a URL such as `sqlite:///relative.db` or `sqlite:////abs.db`.

    Raises `UsageError` for an empty text.
    """
    if not text:
        raise UsageError("the store's name is empty", hint="give a file or URL: -s agent.db")
    if _SCHEME.match(text) is None:
        return StoreUrl("sqlite", text, raw=text)
    if "\0" in text:
        raise UsageError("the store's name holds a NUL character")
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise UsageError(f"'{printable(text)}' is not a URL: {error}") from None
    if "\0" in unquote(parts.path):
        raise UsageError("the store's name holds a NUL character")
    return StoreUrl(
        scheme=parts.scheme.lower(),
        path=unquote((parts.netloc + parts.path).removeprefix("/")),
        params=dict(parse_qsl(parts.query, keep_blank_values=True)),
        raw=text,
    )


def printable(text: str) -> str:
    """The URL with user, host, port and path kept, and every secret as `***`.

    Works by an allow-list: a query parameter that is not known to be harmless is masked. A
    password may itself hold `/`, `?`, `#` and `@`, so all up to the last `@` is the user's.
    """
    if _SCHEME.match(text) is None:
        return text
    scheme, _, rest = text.partition("://")
    before, _, query = rest.partition("?")
    if "@" in query:  # of a password
        before, query = rest, ""
    user, at, place = before.rpartition("@")
    if at:
        name, colon, _ = user.partition(":")
        place = f"{name}{':***' if colon else ''}@{place}"
    place = place.partition("?")[0].partition("#")[0]
    shown = [
        f"{key}={value if key in _PRINTABLE_PARAMS and _PLAIN.fullmatch(value) else '***'}"
        for key, value in parse_qsl(query, keep_blank_values=True)
    ]
    return f"{scheme}://{place}" + (f"?{'&'.join(shown)}" if shown else "")
