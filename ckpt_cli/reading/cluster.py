"""Works on many threads in a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from secrets import token_hex
from threading import Timer
from time import monotonic
from typing import Any, TypeAlias

from ckpt_backends.encryption import KEY_VARIABLE
from ckpt_backends.errors import CkptError, MissingDependency, StoreUnavailable, UsageError
from ckpt_backends.installing import install_command, release
from ckpt_backends.protocol import Store
from ckpt_backends.url import (
    VARIABLE,
    StoreUrl,
    masked,
    printable_param,
    secrets,
    split_url,
    without_values,
)
from ckpt_cli.config.profiles import Profiles, store_of
from ckpt_cli.core.reducers import Rules
from ckpt_cli.reading import workers
from ckpt_cli.reading.store import Opening

_IDLE_SECONDS = 5.0
_MOST_STOPPED = 100


@dataclass(frozen=True, slots=True)
class SentStore:
    """A store as a profile has it: a variable of the environment in place of each secret."""

    text: str
    """The URL, or the absolute path, with `${NAME}`."""
    params: Mapping[str, str]
    redact: bool
    rules: Rules | None = None

    def opening(self) -> Opening:
        """Return how it is opened here. Raises `UsageError` if a variable is not set."""
        try:
            url = store_of(Profiles(None, None, {}), "the store", self.text, self.params)
        except UsageError as error:
            error.message += ", on a worker of the cluster"
            raise
        return Opening(url, None, self.redact, self.rules)


def sent_store(opening: Opening) -> SentStore:
    """Return what the workers are told. Raises `UsageError` if that would send a secret."""
    if opening.aes_key_file is not None:
        raise UsageError(
            "the key of --aes-key-file is not sent to a cluster",
            hint=f"set {KEY_VARIABLE} in the environment of the workers",
        )
    url = opening.url
    text = url.written or url.raw
    if "://" not in text and not VARIABLE.search(text):
        text = os.path.abspath(url.path)
    given = {name for name, _ in split_url(text).query}
    params = {
        name: _with_variables(value, url) for name, value in url.params.items() if name not in given
    }
    if _has_secret(url, text, params):
        raise UsageError(
            "a password or another secret in a URL is not sent to a cluster",
            hint="write the URL into a profile with ${NAME} in place of the secret, and set NAME in"
            " the environment of the workers",
        )
    return SentStore(text, params, opening.redact, opening.rules)


def _with_variables(value: str, url: StoreUrl) -> str:
    """Return a parameter as in its profile, if a variable is the whole of it."""
    for name, known in url.variables.items():
        if value == known:
            return f"${{{name}}}"
    return value


def _has_secret(url: StoreUrl, text: str, params: Mapping[str, str]) -> bool:
    """Return whether what is sent has a secret besides variables, or the value of one."""
    plain = replace(url, params={}, raw=VARIABLE.sub("", text), written="", variables={})
    hidden = {
        VARIABLE.sub("", value)
        for name, value in params.items()
        if printable_param(url.scheme, name, value) != value
    }
    values = any(one in text for one in url.variables.values() if one for text in params.values())
    return values or bool(secrets(plain) | (hidden - {""}))


@dataclass(frozen=True, slots=True)
class SentRange:
    """A range as it travels to a worker."""

    run: str
    """A random name of the run."""
    release: str
    store: SentStore
    work: workers.Work[Any, Any]
    parts: Sequence[Any]
    at_once: int


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What a worker tells about itself."""

    release: str
    has_key: bool
    """Whether a key for encrypted values is in its environment."""


def worker_facts() -> WorkerFacts:
    """Return what is true here."""
    return WorkerFacts(release(), KEY_VARIABLE in os.environ)


def work_on(sent: SentRange) -> workers.Outcome:
    """Work on a range. Never raises: Dask would log the error, and what it was about."""
    try:
        return _thread.submit(_desk.work_on, sent).result()
    except BaseException as error:
        return workers.failed(RuntimeError(type(error).__name__))


def stop_run(run: str) -> None:
    """End the ranges of a run that are under way here, each after the thread it has begun."""
    _stopped[run] = None
    for old in list(_stopped)[:-_MOST_STOPPED]:
        del _stopped[old]


_thread = ThreadPoolExecutor(1, "ckpt")
"""Connections may belong to the thread that opened them."""
_stopped: dict[str, None] = {}
"""The runs that were stopped last."""


class _Desk:
    """The store of one run at a time."""

    def __init__(self) -> None:
        self._run = ""
        self._release = release()
        self._store: Store | None = None
        self._do: Callable[[Any], Any] | None = None
        self._closing = Timer(0, self.close)
        """Closes the store if no range comes for a while."""

    def work_on(self, sent: SentRange) -> workers.Outcome:
        self._closing.cancel()
        try:
            return self._worked(sent)
        finally:
            self._closing = Timer(_IDLE_SECONDS, _thread.submit, [self.close])
            self._closing.daemon = True
            self._closing.start()

    def _worked(self, sent: SentRange) -> workers.Outcome:
        if sent.release != self._release:
            error = UsageError(
                f"a worker has ckpt {self._release}, not {sent.release}",
                hint="install the same version on all workers",
            )
            return workers.RangeDone([], error)
        opening: Opening | None = None
        try:
            opening = sent.store.opening()
            do = self._work_of(sent, opening)
        except CkptError as error:
            return _without_secrets(workers.RangeDone([], error), opening)
        except Exception as error:
            return workers.failed(error)
        outcome = workers.work_through(
            do, sent.parts, sent.at_once, lambda: sent.run not in _stopped
        )
        return _without_secrets(outcome, opening)

    def _work_of(self, sent: SentRange, opening: Opening) -> Callable[[Any], Any]:
        if self._do is None or self._run != sent.run:
            self.close()
            self._store = opening.open(lambda _: None)
            self._do = sent.work(self._store)
            self._run = sent.run
        return self._do

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = self._do = None


_desk = _Desk()


def _without_secrets(outcome: workers.Outcome, opening: Opening | None) -> workers.Outcome:
    """Return an outcome whose error does not quote the environment of this worker."""
    if opening is not None and isinstance(outcome, workers.RangeDone) and outcome.error is not None:
        error, url = outcome.error, opening.url
        error.message = without_values(masked(error.message, url), url)
        error.hint = error.hint and without_values(masked(error.hint, url), url)
    return outcome


# The workers of a Dask cluster that runs already.
#
# Dask loads what the scheduler sends, and so does this side: a cluster is trusted. No secret is
# sent to it; see `sent_store`.


Client: TypeAlias = Any
Future: TypeAlias = Any
"""Those of `distributed`, which has types for few of its methods."""

_AHEAD = 2
"""Pieces for each worker process, so that it need not wait for the next."""
_CONNECT_SECONDS = 10.0
_COUNT_SECONDS = 2.0
"""How long the number of workers is taken to be what it was."""
_ALONE_SECONDS = 60.0
"""How long a cluster may be without any worker: killed ones are started again."""


class Cluster(workers.Workers):
    """The worker processes of a Dask scheduler, also those that join later."""

    def __init__(
        self, address: str, opening: Opening, work: workers.Work[Any, Any], at_once: int
    ) -> None:
        """Connect to the scheduler, and check its workers.

        Raises `MissingDependency`, `UsageError` for what cannot be sent or for workers that do not
        fit, and `StoreUnavailable` if there is no scheduler, or one without workers.
        """
        self._store = sent_store(opening)
        self._client = _connected(address)
        self._address = address
        self._run = token_hex(8)
        self._terms = work, at_once
        self._release = release()
        self._futures: dict[Future, workers.Piece] = {}
        self._done: SimpleQueue[Future] = SimpleQueue()
        self._number, self._counted = 0, 0.0
        self._seen = monotonic()
        try:
            _check_workers(self._client, address, self._release)
        except BaseException:
            self._client.close()
            raise

    @property
    def number(self) -> int:
        now = monotonic()
        if now - self._counted > _COUNT_SECONDS:
            with suppress(OSError):  # It is found out where something is waited for.
                self._number = len(self._client.nthreads())
            self._counted = now
            if self._number:
                self._seen = now
        return max(self._number, 1)

    def start(self, piece: workers.Piece) -> bool:
        if len(self._futures) >= _AHEAD * self.number:
            return False
        work, at_once = self._terms
        sent = SentRange(self._run, self._release, self._store, work, piece.parts, at_once)
        future = self._client.submit(work_on, sent, pure=False, key=f"ckpt-{token_hex(8)}")
        self._futures[future] = piece
        future.add_done_callback(self._done.put)
        return True

    def ended(self, *, wait: bool) -> Iterator[tuple[workers.Piece, workers.Outcome]]:
        found = self._first(wait=wait)
        while found is not None:
            piece = self._futures.pop(found)
            outcome = self._outcome(found)
            found.release()
            yield piece, outcome
            found = self._first(wait=False)

    def _first(self, *, wait: bool) -> Future | None:
        while True:
            try:
                return self._done.get(wait, _COUNT_SECONDS if wait else None)
            except Empty:
                if not wait:
                    return None
            _ = self.number
            if monotonic() - self._seen > _ALONE_SECONDS:
                raise StoreUnavailable(f"the cluster at '{self._address}' has no workers left")

    def _outcome(self, future: Future) -> workers.Outcome:
        from distributed.scheduler import KilledWorker

        if future.status in {"cancelled", "lost"}:
            raise StoreUnavailable(f"lost the connection to the cluster at '{self._address}'")
        try:
            found: workers.Outcome = future.result(timeout=_CONNECT_SECONDS)
        except KilledWorker:
            return workers.RangeFailed("it ended its process again and again")
        except Exception as error:  # such as a module that the worker does not have
            return workers.failed(error)
        return found

    def close(self) -> None:
        """Cancel what is under way. A worker ends after the thread that it has begun."""
        with suppress(Exception):
            if self._futures:
                self._client.run(stop_run, self._run, on_error="ignore", wait=True)
                self._client.cancel(list(self._futures))
        self._client.close()


def _connected(address: str) -> Client:
    try:
        import distributed
    except ImportError:
        raise MissingDependency(
            "--cluster requires Dask", hint=install_command("langgraph-ckpt[dask]")
        ) from None
    import logging

    # Dask would tell on stderr about each worker that is lost.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        connect: Any = distributed.Client
        return connect(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except Exception as error:
        raise StoreUnavailable(
            f"cannot reach a Dask scheduler at '{address}': {type(error).__name__}",
            hint="name it as in tcp://HOST:8786",
        ) from error


def _check_workers(client: Client, address: str, wanted: str) -> None:
    facts = client.run(worker_facts, on_error="return")
    if not facts:
        raise StoreUnavailable(
            f"the cluster at '{address}' has no workers",
            hint=f"start one where ckpt is installed: dask worker {address} --nthreads 1",
        )
    for worker, fact in facts.items():
        if isinstance(fact, OSError):
            continue  # It ended meanwhile; each range checks the version again.
        if not isinstance(fact, WorkerFacts):
            raise UsageError(
                f"the worker {worker} cannot import ckpt ({type(fact).__name__})",
                hint=f"install it there: pip install langgraph-ckpt=={wanted}",
            )
        if fact.release != wanted:
            raise UsageError(
                f"the worker {worker} has ckpt {fact.release}, not {wanted}",
                hint="install the same version on all workers",
            )
        if KEY_VARIABLE in os.environ and not fact.has_key:
            raise UsageError(
                f"the worker {worker} has no key for encrypted values",
                hint=f"set {KEY_VARIABLE} in the environment of the workers",
            )
