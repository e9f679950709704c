"""Parses store URLs, and prints them without passwords and other secrets."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self
from urllib.parse import quote, unquote

from ckpt_backends.declaration import NAME, backend_at, backend_of, param_form
from ckpt_backends.errors import UsageError

_SCHEME = r"[a-zA-Z][a-zA-Z0-9+.-]*://"
_NAME = r"(?a)\w+"
_HOSTS = r"(?a)(\[[^\]@]*\]|[^:@\[\]]*)(:(\d|\$\{\w+\})*)?"
"""One host of a URL, with an optional port, which may be a variable of a profile."""
_CONNECTION = (
    r"(?is)\s*(host|hostaddr|port|dbname|user|password|passfile|service)\s*=|.*\bpassword\s*="
)
"""Matches the parameters of a connection, such as `host=... password=...`."""
MASK = "***"
VARIABLE = re.compile(r"\$\{(\w+)\}")
"""A variable of the environment in the URL of a profile."""


@dataclass(slots=True, repr=False)
class StoreUrl:
    """A parsed store URL. `str()` and `repr()` never show a password."""

    scheme: Final[str]
    path: Final[str]
    """The file of a file store, or the database of a server."""
    params: Final[Mapping[str, str]] = field(default_factory=dict)
    """Options of the store, such as `layout`."""
    raw: Final[str] = ""
    """The URL as given. It may contain secrets, so pass it to a driver only."""
    written: Final[str] = ""
    """The URL as in its profile, if that has variables: with `${NAME}` instead of the values."""
    variables: Final[Mapping[str, str]] = field(default_factory=dict)
    """The values that a profile took from the environment. No message may show them."""

    def __str__(self) -> str:
        if self.written:
            return printable_written(self.written, self.raw)
        return printable(self.raw) if self.raw else self.path

    def __repr__(self) -> str:
        return f"StoreUrl({str(self)!r})"

    def with_params(self, params: Mapping[str, str], *, without: Collection[str] = ()) -> Self:
        """The same URL with `params` added or replaced, and the parameters `without` removed.

        A path becomes a URL if it gets parameters.
        """
        is_path = bool(params and self.raw) and not _has_scheme(self.raw)
        raw = f"{self.scheme}:///{quote(self.raw)}" if is_path else self.raw
        return replace(
            self,
            params={k: v for k, v in self.params.items() if k not in without} | dict(params),
            raw=_with_query(raw, params, without),
            written=self.written and _with_query(self.written, params, without),
        )


def _with_query(text: str, params: Mapping[str, str], without: Collection[str]) -> str:
    query = split_url(text).query
    left = [pair for pair in query if unquote(pair[0]) not in without]
    start = _before_query(text)
    named = [
        *(f"{name}={value}" for name, value in left if unquote(name) not in params),
        *(f"{name}={quote(value, safe=':')}" for name, value in params.items()),
    ]
    return start + (f"?{'&'.join(named)}" if named else "")


class UrlParts(NamedTuple):
    """The parts of a URL, not percent-decoded. They may contain secrets."""

    scheme: str
    user: str | None
    password: str | None
    hosts: str
    """With their ports, separated by commas."""
    path: str
    """With its leading slash."""
    query: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return "UrlParts(...)"

    @property
    def is_clear(self) -> bool:
        """Whether the URL was split safely: no part of a password can be in another part."""
        hosts = self.hosts.split(",") if self.hosts else []
        if not hosts and _is_local(self.scheme):
            return True
        return (
            all(re.fullmatch(_HOSTS, one) for one in hosts)
            and "@" not in self.path
            and all(re.fullmatch(_NAME, name) for name, _ in self.query)
        )


def split_url(text: str) -> UrlParts:
    """Split a URL. A password may contain any character; it ends at the last `@`."""
    scheme, _, rest = text.partition("://")
    user = password = None
    if end := _end_of_user(rest):
        user, colon, secret = rest[: end - 1].partition(":")
        password = secret if colon else None
        rest = rest[end:]
    rest, _, query = rest.partition("?")
    before, _, fragment = rest.partition("#")
    # What stands before an `@` may be a password, which `is_clear` then finds in the path.
    hosts, slash, path = (rest if "@" in fragment else before).partition("/")
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return UrlParts(
        scheme.lower(), user, password, hosts, slash + path, tuple((k, v) for k, _, v in pairs)
    )


def _before_query(text: str) -> str:
    """The URL up to its query, which may be empty or begin with `&`."""
    scheme, separator, rest = text.partition("://")
    end = _end_of_user(rest)
    return scheme + separator + rest[:end] + rest[end:].partition("?")[0]


def _end_of_user(rest: str) -> int:
    """Index of the host in `rest`; 0 if the URL has no user."""
    before, _, query = rest.partition("?")
    authority = before.partition("/")[0]
    if "@" in before:
        end = before.rindex("@") + 1
        return end if "@" in authority or ":" in authority else 0
    if "@" in query and ":" in authority and not _is_plain(authority, query):
        return rest.rindex("@") + 1
    return 0


def _is_plain(authority: str, query: str) -> bool:
    """Whether the URL has the form `host:port?name=value`, with the `@` inside the value."""
    first = query.partition("@")[0]
    return (
        all(re.fullmatch(_HOSTS, one) for one in authority.split(","))
        and re.fullmatch(_NAME, first.partition("=")[0]) is not None
        and "=" in first
    )


def parse_url(text: str) -> StoreUrl:
    """Parse a path, or a URL such as `sqlite:///relative.db` or `sqlite:////abs.db`.

    A path belongs to the backend that claims it. Raises `UsageError` if the text is empty
    or cannot be parsed.
    """
    if not text:
        raise UsageError("the store name is empty", hint="name a file or URL: -s agent.db")
    if is_almost_url(text):
        raise UsageError(
            "not a store URL", hint="write SCHEME://USER@HOST:PORT/DATABASE, or ./NAME for a file"
        )
    is_path = not _has_scheme(text)
    if "\0" in (text if is_path else unquote(text)):
        raise UsageError("the store name contains a NUL character")
    if is_path:
        return StoreUrl(backend_at(text).schemes[0], text, raw=text)
    parts = split_url(text)
    if not parts.is_clear:
        raise UsageError(
            f"cannot parse the URL '{printable(text)}'",
            hint="in the user name and password, write / as %2F, @ as %40, : as %3A, % as %25",
        )
    return StoreUrl(
        scheme=parts.scheme,
        path=unquote((parts.hosts + parts.path).removeprefix("/")),
        params={unquote(name): unquote(value) for name, value in parts.query},
        raw=text,
    )


def is_almost_url(text: str) -> bool:
    """Whether a text is the address of a server, perhaps with a password, but not a URL."""
    if _has_scheme(text):
        return False
    before, colon, _ = text.partition(":")
    if "=" in text and re.match(_CONNECTION, text):
        return True
    scheme = f"{before.strip().casefold()}://"
    return bool(colon and re.fullmatch(_SCHEME, scheme) and backend_of(scheme[:-3]))


def _has_scheme(text: str) -> bool:
    return "://" in text and re.match(_SCHEME, text) is not None


def printable(text: str) -> str:
    """The URL with its user, host, port and path, and with every secret replaced by `***`.

    Query parameters are masked unless they are known to be harmless. A password may contain
    `/`, `?`, `#` and `@`, so everything up to the last `@` counts as user and password.
    """
    if not _has_scheme(text):
        return MASK if is_almost_url(text) else text
    parts = split_url(text)
    if not parts.is_clear:
        return f"{parts.scheme}://{MASK}"
    user = "" if parts.user is None else parts.user
    if parts.password is not None:
        user += f":{MASK}"
    shown = [
        f"{name}={printable_param(parts.scheme, name, value)}"
        for name, value in parts.query
        if re.fullmatch(_NAME, name)
    ]
    return (
        f"{parts.scheme}://{user}{'' if parts.user is None else '@'}{parts.hosts}{parts.path}"
        + (f"?{'&'.join(shown)}" if shown else "")
    )


def printable_param(scheme: str, name: str, value: str) -> str:
    """The value of a parameter, or `***` unless the scheme's backend declares it to be harmless."""
    form, text = _printable_form(scheme, name), unquote(VARIABLE.sub("", value))
    return value if form is not None and re.fullmatch(form, text, re.ASCII) else MASK


def _printable_form(scheme: str, name: str) -> str | None:
    """The pattern of the values of a parameter that may be printed; None if none may be."""
    return NAME if name == "layout" else param_form(scheme, name)


def _is_local(scheme: str) -> bool:
    backend = backend_of(scheme)
    return backend is not None and backend.is_local


def printable_written(text: str, raw: str = "") -> str:
    """The URL of a profile as written, with `${NAME}` and without secrets.

    `raw` is the URL with the values, if they are known. If variables hide which part of the URL is
    the password, only the variables are shown.
    """
    if not _has_scheme(text) and VARIABLE.search(text):
        if _has_scheme(raw) or any(one in text for one in "@?:="):
            parts = re.split(r"(\$\{\w+\})", text)
            return "".join(one if VARIABLE.fullmatch(one) else MASK for one in parts if one)
        return text
    return printable(text)


def secrets(url: StoreUrl) -> set[str]:
    """The secrets in a URL, which no message may show, as written and percent-decoded."""
    parts = split_url(url.raw)
    found = {parts.password or ""}
    found |= {
        value
        for name, value in (*parts.query, *url.params.items())
        if _printable_form(url.scheme, name) is None
    }
    return {one for text in found for one in (text, unquote(text)) if one}


def masked(text: str, url: StoreUrl) -> str:
    """The message of a driver, with every secret of the URL masked.

    Values that a profile took from the environment are replaced by their variables.
    """
    hidden = {one.lower(): shown for one, shown in _hidden(url).items()}
    forms = [
        re.escape(one) if len(one) >= _TELLING else rf"(?<!\w){re.escape(one)}(?!\w)"
        for one in sorted(hidden, key=len, reverse=True)
    ]
    if not forms:
        return text
    return re.sub(
        "|".join(forms), lambda found: hidden.get(found[0].lower(), MASK), text, flags=re.I
    )


def without_values(text: str, url: StoreUrl) -> str:
    """A message without the values that a profile took from the environment."""
    return masked(text, url) if url.variables else text


def fingerprint(url: StoreUrl, salt: str) -> str:
    """A digest of where the store is, to tell one value of a profile's variables from another.

    It depends on no password. The salt keeps others from comparing it with digests of guesses.
    """
    from hashlib import sha256  # late: it loads OpenSSL

    params = sorted(
        (name, printable_param(url.scheme, name, value)) for name, value in url.params.items()
    )
    return sha256(repr((salt, printable(url.raw), params)).encode()).hexdigest()


def _hidden(url: StoreUrl) -> dict[str, str]:
    """Maps every text that no message may show to the text to show instead."""
    hidden: dict[str, str] = {}
    if url.variables:
        parts = split_url(url.raw)
        # One variable may hold several parts, or a whole URL.
        texts = {parts.user or "", *parts.hosts.split(","), parts.path.removeprefix("/")}
        texts |= {one for host in parts.hosts.split(",") for one in host.rpartition(":")}
        plain = VARIABLE.sub("\0", url.written)
        hidden |= {
            one: MASK
            for text in texts
            for one in (text, unquote(text))
            if one not in plain and one != ":"
        }
        for name, value in url.variables.items():
            hidden |= {one: f"${{{name}}}" for one in (value, quote(value, safe="")) if one}
    hidden |= dict.fromkeys(secrets(url), MASK)
    return hidden


_TELLING = 4
"""A text with fewer characters is masked only as a whole word."""
