"""Connects to a database of Firestore, and reads documents at one moment.

Credentials and `FIRESTORE_EMULATOR_HOST` are read by Google's client.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from google.api_core import exceptions as answers
from google.api_core.retry import Retry, if_exception_type
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.cloud import firestore
from google.cloud.firestore_v1.base_query import FieldFilter

from ckpt_backends.errors import CkptError, Closing, StoreChanged, StoreUnavailable, UsageError
from ckpt_backends.firestore.declaration import BACKEND
from ckpt_backends.firestore.records import is_id
from ckpt_backends.objects import CHECKPOINTS
from ckpt_backends.servers import first_line, is_local, warn_unencrypted
from ckpt_backends.url import StoreUrl, split_url

EMULATOR = "FIRESTORE_EMULATOR_HOST"
_LOGIN = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
_AGAIN = "run the command again later"
_REASONS: Sequence[tuple[tuple[type[Exception], ...], str, str]] = (
    ((DefaultCredentialsError,), "no Google credentials found", f"{_LOGIN}; or {EMULATOR}"),
    ((GoogleAuthError, answers.Unauthenticated), "the credentials are not accepted", _LOGIN),
    (
        (answers.PermissionDenied,),
        "access denied",
        "the role Cloud Datastore Viewer allows to read, and Cloud Datastore User to write",
    ),
    (
        (answers.NotFound,),
        "no such project or database",
        "write firestore://PROJECT or firestore://PROJECT/DATABASE;"
        " `gcloud firestore databases list` lists them",
    ),
    ((answers.ResourceExhausted,), "a quota is exhausted", _AGAIN),
    (
        (answers.ServiceUnavailable, answers.DeadlineExceeded, answers.RetryError),
        "the server does not answer",
        "check the network",
    ),
)
"""Errors of the driver, each with the reason to print and a hint."""
_RETRY = Retry(if_exception_type(answers.ServiceUnavailable), initial=0.2, maximum=1, timeout=5)
_SECONDS, _STALE = 60, 50 * 60
"""Seconds to wait for an answer, and after which a moment is too old to read at: an hour."""


@contextmanager
def explained(url: StoreUrl, verb: str = "read") -> Iterator[None]:
    """Turn errors of the driver into `StoreUnavailable` or `StoreChanged`."""
    start = f"cannot {verb} '{url}'"
    try:
        yield
    except CkptError:
        raise
    except answers.AlreadyExists as error:
        raise StoreChanged(
            f"'{url}' changed meanwhile, so nothing was written",
            hint="an agent or another command may be changing it; run the command again",
        ) from error
    except answers.Aborted as error:
        raise StoreUnavailable(
            f"{start}: an agent or another command is changing it, or it has the lock of a killed"
            " run; nothing was written",
            hint="run the command again later: such a lock expires after a minute",
        ) from error
    except (answers.GoogleAPIError, GoogleAuthError) as error:
        for kinds, reason, hint in _REASONS:
            if isinstance(error, kinds):
                if hint == "check the network" and (host := os.environ.get(EMULATOR)):
                    hint = f"check that an emulator runs at {EMULATOR}={host}"  # noqa: PLW2901
                raise StoreUnavailable(f"{start}: {reason}", hint=hint) from error
        said = getattr(error, "message", str(error))
        raise StoreUnavailable(f"{start}: {first_line(error, url, said)}") from error


class FirestoreConnection(Closing):
    """The collection of a saver, read at one moment until `refresh`."""

    def __init__(self, url: StoreUrl) -> None:
        """Connect. Raises `UsageError` and `StoreUnavailable`."""
        self.url, parts = url, split_url(url.raw)
        self.project, _, database = url.path.partition("/")
        if parts.user is not None or not self.project or "/" in database:
            raise UsageError(
                f"cannot open '{url}': not a project and a database",
                hint="write firestore://PROJECT or firestore://PROJECT/DATABASE",
            )
        if unknown := sorted(url.params.keys() - {"layout", *BACKEND.params}):
            raise UsageError(f"cannot read the URL '{url}': unknown parameter '{unknown[0]}'")
        self.collection = url.params.get("collection") or CHECKPOINTS
        if not is_id(self.collection):
            raise UsageError(f"cannot open '{url}': not the id of a collection")
        self.database = database or "(default)"
        self.transaction: Any = None
        """The transaction in which to read, during a change."""
        self._moment: tuple[datetime, float] | None = None
        host = os.environ.get(EMULATOR, "")
        if host and not is_local(host.rpartition(":")[0].strip("[]")):
            warn_unencrypted(host, f"{EMULATOR} is for tests", f"data from '{host}' comes")
        with explained(url, "open"):
            self.client: Any = firestore.Client(project=self.project, database=self.database)
            self._read_at()

    def close(self) -> None:
        """Disconnect."""
        self.client.close()

    def refresh(self) -> None:
        """Read at a later moment from now on."""
        self._moment = None

    def _read_at(self) -> dict[str, Any]:
        """The arguments of a read."""
        how = {"retry": _RETRY, "timeout": _SECONDS}
        if self.transaction is not None:
            return {**how, "transaction": self.transaction}
        if self._moment is None or time.monotonic() > self._moment[1] + _STALE:
            # The clock of the server counts; it tells the time also where there is no document.
            (found,) = self.client.get_all([self.document("ckpt")], **how)
            self._moment = found.read_time, time.monotonic()
        return {**how, "read_time": self._moment[0]}

    def document(self, *path: str) -> Any:
        """The reference to a document of the collection."""
        return self.client.document(self.collection, *path)

    def all(self, group: str, fields: Iterable[str] = ()) -> Iterator[Any]:
        """The documents of all collections of this name below the saver's, in order."""
        end = self.client.document(f"{self.collection}\1", "\1")
        yield from self._between(group, self.document("\1"), end, fields)

    def of_thread(
        self, group: str, thread_id: str, ns: str | None = None, fields: Iterable[str] = ()
    ) -> Iterator[Any]:
        """Those below the partitions of a thread, or of one namespace.

        Partitions of threads whose ids begin alike are among them.
        """
        partition = f"{thread_id}_{ns or ''}"
        if not is_id(partition):
            return
        if ns is None:
            end = self.document(f"{thread_id}`")  # the character after `_`
            yield from self._between(group, self.document(partition), end, fields)
        else:
            found = self.document(partition).collection(group)
            yield from self.stream(firestore.CollectionGroup(found), fields)

    def _between(self, group: str, start: Any, end: Any, fields: Iterable[str]) -> Iterator[Any]:
        query = self.client.collection_group(group)
        query = query.where(filter=FieldFilter("__name__", ">=", start))
        yield from self.stream(query.where(filter=FieldFilter("__name__", "<", end)), fields)

    def stream(self, query: Any, fields: Iterable[str] = ()) -> Iterator[Any]:
        """The documents that a query finds, with some or all fields."""
        with explained(self.url):
            chosen = query.select(list(fields)) if fields else query
            for one in chosen.stream(**self._read_at()):
                if one.reference.path.startswith(f"{self.collection}/"):
                    yield one

    def get(self, paths: Iterable[Sequence[str]], fields: Iterable[str]) -> list[Any]:
        """Those of these documents that exist, in order of their paths."""
        refs = [self.document(*path) for path in paths]
        with explained(self.url):
            found = self.client.get_all(refs, field_paths=list(fields), **self._read_at())
            return sorted((one for one in found if one.exists), key=lambda one: one.reference.path)
