"""Connects to MongoDB. All queries of a command see the same snapshot, if the server supports it.

On a replica set or a sharded cluster, all queries run in one transaction with the read concern
`snapshot`, which is aborted at the end. It does not block writers. The server ends a transaction
after `transactionLifetimeLimitSeconds` (default 60). `?snapshot=no` reads without a transaction.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any
from urllib.parse import quote, unquote

from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient, ReadPreference
from pymongo.client_session import ClientSession
from pymongo.collation import Collation
from pymongo.database import Database
from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    InvalidName,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.read_concern import ReadConcern

from ckpt_backends.errors import CkptError, Refused, StoreChanged, StoreUnavailable, UsageError
from ckpt_backends.servers import (
    NETWORK,
    Reason,
    first_line,
    known_failure,
    misunderstood,
    understood,
    unexpected,
)
from ckpt_backends.url import StoreUrl, split_url

# Turns the driver's errors into those of ckpt, without secrets and without data.


_CONFLICT = 112
_UNAUTHORIZED = 13


@contextmanager
def explained(url: StoreUrl) -> Iterator[None]:
    """Turn errors of reading into `StoreUnavailable`, `UsageError` or `Unreadable`."""
    try:
        yield
    except InvalidName as error:
        raise UsageError(f"cannot read the URL '{url}': {first_line(error, url)}") from None
    except CkptError:
        raise
    except (PyMongoError, BSONError, OSError) as error:
        raise unavailable(url, error) from None
    except Exception as error:
        # The driver did not expect such an answer.
        raise misunderstood(url, error) from error


_CODES: Mapping[int, tuple[str, str]] = {
    18: (
        "wrong user or password",
        "if the user is defined in another database, add ?authSource=admin",
    ),
    13: ("permission denied", "reading needs the role `read` on the database"),
    50: ("the query exceeded the server's time limit", "read fewer threads at a time"),
    251: (
        "the server aborted the transaction",
        "it may have exceeded transactionLifetimeLimitSeconds; add ?snapshot=no to read without a"
        " transaction, while nothing writes to the store",
    ),
    26: ("a collection was dropped while it was read", "run the command again"),
    43: ("the server closed the cursor", "run the command again, or add ?snapshot=no"),
}
"""By error code of the server, the reason to print and a hint."""
_CODES = {**_CODES, 8000: _CODES[18], 239: _CODES[251], 246: _CODES[251]}
_REFUSALS: Sequence[Reason] = (
    *NETWORK,
    (
        "CERTIFICATE_VERIFY|certificate",
        "the server's certificate is not trusted",
        "add ?tlsCAFile=FILE with the certificate of its authority",
    ),
    ("SSL|TLS", "TLS failed", "add ?tls=true or ?tls=false, as the server expects"),
    (
        "timed out|timeout|No servers found|No primary|No replica set",
        "the server does not answer",
        "add ?serverSelectionTimeoutMS=MILLISECONDS to wait longer",
    ),
    (
        "connection closed|reset",
        "the connection was lost",
        "run the command again; nothing was changed",
    ),
)
"""A pattern for the driver's message about a connection, the reason to print, and a hint."""


_SHOWN = 100


def unavailable(url: StoreUrl, error: Exception) -> StoreUnavailable:
    """The error to print, without secrets and without data."""
    if isinstance(error, OperationFailure) and (known := _CODES.get(error.code or 0)):
        reason, hint = known
        return StoreUnavailable(f"cannot read '{url}': {reason}", hint=hint)
    verb = "open" if isinstance(error, ServerSelectionTimeoutError) else "read"
    what = f"cannot {verb} '{url}'"
    if isinstance(error, ConnectionFailure | ConfigurationError):
        found = known_failure(what, str(error), _REFUSALS)
        if found is not None:
            return found
    if isinstance(error, OperationFailure):
        # The text of a server's error may quote stored data, so print only its name.
        name = str((error.details or {}).get("codeName") or f"code {error.code}")
        return StoreUnavailable(f"cannot read '{url}': the server says {name[:_SHOWN]}")
    return StoreUnavailable(f"{what}: {type(error).__name__}")


@contextmanager
def explained_change(url: StoreUrl) -> Iterator[None]:
    """Turn errors of writing into `StoreChanged` or `StoreUnavailable`.

    The messages say whether anything was written.
    """
    try:
        yield
    except PyMongoError as error:
        raise _refused(url, error) from None


def _refused(url: StoreUrl, error: PyMongoError) -> StoreChanged | StoreUnavailable:
    code = error.code if isinstance(error, OperationFailure) else None
    if isinstance(error, DuplicateKeyError) or code == _CONFLICT:
        return StoreChanged(
            f"'{url}' changed meanwhile, so nothing was written",
            hint="another command may be changing it; run the command again",
        )
    if code == _UNAUTHORIZED:
        return StoreUnavailable(
            f"cannot write to '{url}': permission denied",
            hint="a change needs the role `readWrite` on the database",
        )
    found = unavailable(url, error)
    if error.has_error_label("UnknownTransactionCommitResult"):
        found.message = f"{found.message}; it is unknown whether anything was written"
        found.hint = "check the thread, then run the command again"
    else:
        found.message = f"{found.message}; nothing was written"
    return found


OWN_PARAMS = frozenset(
    {"layout", "collection", "writes_collection", "store_collection", "snapshot"}
)
"""URL parameters for ckpt. All others are passed to the driver."""
DEFAULT_DATABASE = "checkpointing_db"
"""The default database of `MongoDBSaver`."""
_DEFAULTS = {"serverSelectionTimeoutMS": "5000", "socketTimeoutMS": "600000", "appName": "ckpt"}
"""How long to wait for a server, and for one answer, and the name of this client."""
_MOST_LISTED = 100_000
"""Collections of a database, indexes of a collection, or documents of a short aggregation."""
_TELLING = {
    "PLAIN": "the password",
    "MONGODB-OIDC": "an access token",
    "MONGODB-AWS": "a session token",
}
"""Mechanisms that send a secret as it is."""
_DOCUMENTS: CodecOptions[Any] = CodecOptions(
    tz_aware=True,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    unicode_decode_error_handler="surrogateescape",
)
RAW = CodecOptions(
    RawBSONDocument,
    tz_aware=True,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    unicode_decode_error_handler="surrogateescape",
)
"""Codec options that return documents as raw BSON."""
BY_BYTES = Collation("simple")
"""Compares texts by their bytes, whatever the collation of the collection is."""
Document = Mapping[str, Any]
Pipeline = Sequence[Mapping[str, Any]]


class MongoConnection:
    """A connection to a database. Its methods raise `StoreUnavailable`, except `transaction`."""

    def __init__(self, client: MongoClient[Any], database: str, url: StoreUrl) -> None:
        self._client = client
        self._url = url
        self._session: ClientSession | None = None
        self._collated: set[str] = set()
        self.views: Mapping[str, bool] = {}
        """By name of a view, whether it may leave out documents of its collection."""
        with explained(url):
            self.database: Database[Any] = client.get_database(database, _DOCUMENTS)
            hello = client.admin.command("hello")
        self.has_transactions = "setName" in hello or hello.get("msg") == "isdbgrid"
        """False for a standalone server."""
        primary = client.read_preference == ReadPreference.PRIMARY
        wanted = url.params.get("snapshot", "yes") != "no"
        self.is_of_one_moment = self.has_transactions and primary and wanted

    @property
    def version(self) -> str:
        """The server's version."""
        with explained(self._url):
            return str(self._client.server_info().get("version", "?"))

    def aggregate(
        self, collection: str, pipeline: Pipeline, *, raw: bool = False, hint: str | None = None
    ) -> Iterator[Any]:
        """The documents of an aggregation, one by one. With `raw`, documents are raw BSON."""
        options = {**self._collation(collection), **({"hint": hint} if hint else {})}
        with explained(self._url):
            place = self.database.get_collection(collection, RAW if raw else _DOCUMENTS)
            # `allowDiskUse` lets the server sort on disk if the result does not fit into memory.
            found = place.aggregate(pipeline, self._view(), allowDiskUse=True, **options)
        while True:
            with explained(self._url):
                document = next(found, None)
            if document is None:
                return
            yield document

    def outside(self, collection: str, pipeline: Pipeline) -> list[Any]:
        """The result of a short aggregation, read outside of the snapshot."""
        with explained(self._url):
            found = self.database[collection]
            return self._few(found.aggregate(pipeline, **self._collation(collection)))

    def _few(self, found: Iterable[Any]) -> list[Any]:
        listed = list(islice(found, _MOST_LISTED + 1))
        if len(listed) > _MOST_LISTED:
            raise unexpected(self._url, f"the server lists more than {_MOST_LISTED} of a kind")
        return listed

    def _collation(self, collection: str) -> dict[str, Any]:
        """The option that compares texts by bytes, if the collection has a collation."""
        return {"collation": BY_BYTES} if collection in self._collated else {}

    def raw(self, collection: str) -> Any:
        """A collection for changes. It returns raw BSON, and reads the newest data."""
        newest = ReadConcern("local")
        return self.database.get_collection(collection, RAW, ReadPreference.PRIMARY, None, newest)

    def command(self, name: str, value: object = 1) -> Document:
        """The result of a database command."""
        with explained(self._url):
            found: Document = self.database.command(name, value)
            return found

    def collections(self) -> list[str]:
        """Names of the collections, without system collections."""
        with explained(self._url):
            found = self._few(self.database.list_collections())
        self._collated = {one["name"] for one in found if "collation" in one.get("options", {})}
        self.views = {
            one["name"]: bool(one.get("options", {}).get("pipeline"))
            for one in found
            if one.get("type") == "view"
        }
        return sorted(one["name"] for one in found if not one["name"].startswith("system."))

    def databases(self) -> list[str]:
        """Names of the server's databases; empty if the user may not list them."""
        with suppress(StoreUnavailable), explained(self._url):
            names = self._client.list_database_names()
            return sorted(set(names) - {"admin", "config", "local"})
        return []

    def indexes(self, collection: str) -> list[Document]:
        """The indexes of a collection."""
        with explained(self._url):
            return self._few(self.database[collection].list_indexes())

    def _view(self) -> ClientSession | None:
        if not self.is_of_one_moment:
            return None
        if self._session is None:
            self._session = self._client.start_session()
        if not self._session.in_transaction:
            self._session.start_transaction(read_concern=ReadConcern("snapshot"))
        return self._session

    def restart(self) -> None:
        """End the snapshot. The next query starts a new one."""
        with suppress(StoreUnavailable), explained(self._url):
            if self._session is not None and self._session.in_transaction:
                self._session.abort_transaction()

    @contextmanager
    def transaction(self) -> Iterator[ClientSession | None]:
        """A transaction that is committed at the end; None on a server that has none.

        Raises `PyMongoError`.
        """
        if not self.has_transactions:
            yield None
            return
        with (
            self._client.start_session() as session,
            session.start_transaction(
                read_concern=ReadConcern("snapshot"), read_preference=ReadPreference.PRIMARY
            ),
        ):
            yield session

    def close(self) -> None:
        """End the transaction and the connection."""
        self.restart()
        with suppress(StoreUnavailable), explained(self._url):
            if self._session is not None:
                self._session.end_session()
        with suppress(StoreUnavailable), explained(self._url):
            self._client.close()


def connect(url: StoreUrl) -> MongoConnection:
    """Connect to the database of the URL. Raises `StoreUnavailable` or `UsageError`."""
    uri, database = _settings(url)
    _check_secrets(url)
    with explained(url), warnings.catch_warnings():
        # The driver only warns about unknown parameters; turn the warning into an error.
        warnings.simplefilter("error", UserWarning)
        try:
            client: MongoClient[Any] = MongoClient(uri)
        except (UserWarning, ConfigurationError, InvalidURI, ValueError, TypeError) as error:
            known = f"known: {', '.join(sorted(OWN_PARAMS))}, and those of MongoDB's URLs"
            raise UsageError(
                f"cannot read the URL '{url}': {first_line(error, url)}",
                hint=known if isinstance(error, UserWarning) else None,
            ) from None
    try:
        with understood(url):
            return MongoConnection(client, database, url)
    except BaseException:
        with suppress(StoreUnavailable), explained(url):
            client.close()
        raise


def _settings(url: StoreUrl) -> tuple[str, str]:
    """The URL for the driver, and the name of the database."""
    parts = split_url(url.raw)
    given = {name: value for name, value in url.params.items() if name not in OWN_PARAMS}
    names = set(map(str.lower, given))
    given |= {name: one for name, one in _DEFAULTS.items() if name.lower() not in names}
    user = "" if parts.user is None else quote(unquote(parts.user), safe="")
    if parts.password is not None:
        user += ":" + quote(unquote(parts.password), safe="")
    query = "&".join(f"{quote(k, safe='')}={quote(v, safe=',:')}" for k, v in given.items())
    database = unquote(parts.path.removeprefix("/"))
    at = "" if parts.user is None else "@"
    # The driver also looks up the user in the URL's database, unless `authSource` is given.
    uri = f"{parts.scheme}://{user}{at}{parts.hosts}/{quote(database, safe='')}?{query}"
    return uri, database or DEFAULT_DATABASE


def _check_secrets(url: StoreUrl) -> None:
    """Raise `Refused` if the URL would send a secret to a server that nobody has verified."""
    given = {(name.lower(), value.lower()) for name, value in url.params.items()}
    mechanism = next((one for one in _TELLING if ("authmechanism", one.lower()) in given), None)
    if mechanism is None:
        return
    is_on = url.scheme == "mongodb+srv" or bool(given & {("tls", "true"), ("ssl", "true")})
    is_off = bool(given & {("tls", "false"), ("ssl", "false")})
    lax = [name for name in _LAX if (name.lower(), "true") in given]
    if is_on and not is_off and not lax:
        return
    raise Refused(
        f"cannot open '{url}': {mechanism} sends {_TELLING[mechanism]} to the server, so it needs"
        " TLS with a certificate that is checked",
        hint=f"remove {lax[0]} from the URL" if lax else "add ?tls=true to the URL",
    )


_LAX = ("tlsInsecure", "tlsAllowInvalidCertificates", "tlsAllowInvalidHostnames")
"""Parameters that turn the check of a certificate off."""
