"""Completions that depend on the store or on what is typed: thread ids, refs, channels, items,
profiles, schemes, operations, filters, lists of keys.

`ckpt _complete KIND WORD STORE CONFIG THREAD NS` prints lines with a value and its description. An
argument that is not given is empty. Errors are not printed, since they would appear in the command
line. This module does not import the parser, which takes longer than the answer.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from time import perf_counter, process_time, sleep

from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.model import step_of
from ckpt_backends.protocol import Store
from ckpt_cli.core.refs import short_refs, split_target
from ckpt_cli.session import Session

_MOST = 200
"""Maximum number of completions."""
_SEARCHING = 0.1
"""Seconds after the first completion was read in which others are looked for."""
_WAITING, _RUNNING = 0.15, 1.0
"""Seconds that a server has to answer, and seconds for that and everything else."""
_LAST = chr(sys.maxunicode)
"""The greatest character."""
_WITHOUT_STORE = frozenset({"store", "op", "undone", "filter", "grouping"})
"""Kinds that are completed without looking into a store."""

Found = tuple[str, str]


def complete(words: list[str], *, may_exit: bool = False) -> int:
    """Print the completions of a word. Always returns 0.

    With `may_exit`, ends the process, also with 0, if a server does not answer in time.
    """
    kind, word, store, config, thread, ns, *_ = [*words, *[""] * 6]
    # A warning would appear in the command line.
    warnings.simplefilter("ignore")
    session = Session()
    session.settings |= {"quiet": True}
    session.settings |= {k: v for k, v in (("store", store), ("config", config)) if v}
    with suppress(Exception):  # a traceback would appear in the command line
        try:
            if may_exit and kind not in _WITHOUT_STORE and not _is_local(session):
                _exit_in_time()
            found = _KINDS[kind](session, word, thread, ns)
            fitting = (
                (value, what)
                for value, what in _in_time(found)
                if value.startswith(word) and value.isprintable()
            )
            for value, what in islice(fitting, _MOST):
                # It may be the name of a user, which must not look like another completion.
                sys.stdout.write(f"{value}\t{what if what.isprintable() else ''}\n")
            sys.stdout.flush()
        finally:
            session.close()
    return 0


def _exit_in_time() -> None:
    """Let a second thread end the process, with what was found, if a server is too slow.

    A driver cannot be interrupted, and most take whole seconds for a time limit.
    """
    from threading import Thread

    Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    """End the process when it has waited or run for too long.

    The time in which it used the processor is no waiting: importing a driver may take longer than
    the server.
    """
    begun, used = perf_counter(), process_time()
    while True:
        sleep(0.005)
        passed = perf_counter() - begun
        if passed > _RUNNING or passed - (process_time() - used) > _WAITING:
            break
    with suppress(OSError):
        sys.stdout.flush()
    if temporary := sys.modules.get("ckpt_backends.files"):
        temporary.remove_all()
    os._exit(0)


def _is_local(session: Session) -> bool:
    """Whether the store is a file or a folder."""
    from ckpt_backends.declaration import backend_of

    backend = backend_of(session.names.store_url.scheme)
    return backend is not None and backend.is_local


def _in_time(found: Iterator[Found]) -> Iterator[Found]:
    """Yield what is found soon: no key press waits until all of a large store is read."""
    begun = None
    for one in found:
        yield one
        begun = begun or perf_counter()
        if perf_counter() - begun > _SEARCHING:
            return


def _stores(session: Session, word: str, *_: str) -> Iterator[Found]:
    """Yield the profiles; after the first letter, the schemes of URLs, too."""
    with suppress(CkptError):
        yield from _profiles(session)
    if word:
        from ckpt_backends.declaration import known_backends

        found = {name: one.title for one in reversed(known_backends()) for name in one.schemes}
        yield from ((f"{name}://", what) for name, what in sorted(found.items()))


def _profiles(session: Session) -> Iterator[Found]:
    """Yield the profiles without opening them; says which ones need a trusted file."""
    for name, profile in session.names.profiles.stores.items():
        what = "profile"
        if session.names.profiles.distrust is not None:
            try:
                session.names.url_in(profile)
            except UsageError:
                what = "profile, not trusted"
        yield name, what


def _threads(session: Session, word: str, *_: str) -> Iterator[Found]:
    # A scan may cost money: pressing a key should not.
    if session.store.lists_by_scan:
        return
    ids = list(session.store.thread_ids(word, limit=_MOST - 1))
    yield from ((one, "thread") for one in ids)
    if len(ids) == _MOST - 1:
        # The shell inserts what all completions share. One that differs keeps it from inserting
        # what only these share.
        after = os.path.commonprefix(ids) + _LAST  # noqa: RUF071 - of texts, not of paths
        yield from ((one, "thread") for one in session.store.thread_ids(word, after=after, limit=1))


def _targets(session: Session, word: str, *_: str) -> Iterator[Found]:
    """Yield threads; after an `@`, the refs of the thread before it."""
    thread_id, at, _ref = word.rpartition("@")
    if at and session.store.thread(thread_id) is not None:
        yield from ((f"{thread_id}@{ref}", what) for ref, what in _refs(session, "", thread_id, ""))
    yield from _threads(session, word)


def _refs(session: Session, _: str, thread: str, ns: str) -> Iterator[Found]:
    found = session.store.checkpoints(_thread_id(session.store, thread), checkpoint_ns=ns)
    ids = [one.key.checkpoint_id for one in found]
    refs = short_refs(ids)
    if ids:
        yield "head", refs[ids[0]]
    for one in ids:
        yield refs[one], f"step {step_of(one)}"


def _namespaces(session: Session, _: str, thread: str, __: str) -> Iterator[Found]:
    names = session.store.namespaces(_thread_id(session.store, thread))
    return ((name, "namespace") for name in names if name)


def _channels(session: Session, _: str, thread: str, ns: str) -> Iterator[Found]:
    """Yield the channels of a thread's head."""
    from ckpt_cli.core.state import is_state, read_body

    thread_id = _thread_id(session.store, thread)
    for head in islice(session.store.checkpoints(thread_id, checkpoint_ns=ns), 1):
        ids = [head.key.checkpoint_id]
        for one in session.store.checkpoints(
            thread_id, checkpoint_ns=ns, checkpoint_ids=ids, body=True
        ):
            body = read_body(one)
            names = sorted({*body.values, *body.versions})
            yield from ((name, "channel") for name in names if is_state(name, body))


def _memory_namespaces(session: Session, *_: str) -> Iterator[Found]:
    from ckpt_backends.registry import open_memory
    from ckpt_cli.core.memory import format_namespace

    with open_memory(session.names.store_url) as memory:
        for one in memory.namespaces():
            if one.namespace:
                yield format_namespace(one.namespace), "namespace"


def _items(session: Session, word: str, _: str, ns: str) -> Iterator[Found]:
    """Yield the keys of items with their namespaces; in the namespace `ns`, the keys alone."""
    from ckpt_backends.registry import open_memory
    from ckpt_cli.core.memory import format_key, parse_namespace

    with open_memory(session.names.store_url) as memory:
        above = word.rpartition("/")[0]
        for one in memory.items(prefix=parse_namespace(ns or above)):
            if not ns:
                yield format_key(one.key), "item"
            if ns or (word and one.key.namespace):
                yield one.key.key, "item"


def _sessions(session: Session, *_: str) -> Iterator[Found]:
    from ckpt_backends.registry import open_sessions

    with open_sessions(session.names.store_url) as sessions:
        for one in sessions.sessions():
            yield one.session_id, one.user_id


def _place(session: Session) -> str | None:
    """Return the digest of where the store is; None if none is given."""
    from ckpt_cli.operations.log import place_of

    with suppress(CkptError):
        return place_of(session.names.store_url)
    return None


def _operations(session: Session, *_: str) -> Iterator[Found]:
    """Yield the recorded operations of the store; of all stores if none is given."""
    from ckpt_cli.operations.log import OperationLog

    place = _place(session)
    for one in OperationLog.of_user().newest_first():
        if place in {None, one.place}:
            yield one.op, " ".join([one.action, *one.threads[:1]])


def _changes(session: Session, word: str, *_: str) -> Iterator[Found]:
    """Yield what `undo` takes back: threads, and operations after the first digit of an id."""
    if word and set(word) <= set("0123456789abcdef"):
        with suppress(CkptError):
            yield from _operations(session)
    yield from _threads(session, word)


def _undone(session: Session, *_: str) -> Iterator[Found]:
    """Yield what `redo` takes: each undo that is not taken back, and what is undone."""
    from ckpt_cli.operations.log import OperationLog
    from ckpt_cli.queries.operations import UNDO, operations

    for one in operations(OperationLog.of_user(), _place(session)):
        if (one.operation.action == UNDO) is (one.undone_by is None):
            yield one.op, " ".join([one.operation.action, *one.operation.threads[:1]])


def _groupings(_: Session, word: str, *__: str) -> Iterator[Found]:
    """Yield the keys of `stats --by`, behind those that are typed: `node,channel`."""
    from ckpt_cli.core.stats import GROUPINGS

    typed, comma, _last = word.rpartition(",")
    given = typed.split(",")
    return ((f"{typed}{comma}{one}", "key") for one in GROUPINGS if one not in given)


def _filters(session: Session, word: str, *_: str) -> Iterator[Found]:
    """Yield the filter that is typed with its last word completed: an alias, field or status."""
    from ckpt_cli.core.filters import last_words

    aliases: Mapping[str, str] = {}
    with suppress(CkptError):
        aliases = session.names.filters
    return last_words(word, aliases)


def _thread_id(store: Store, text: str) -> str:
    return split_target(text, lambda whole: store.thread(whole) is not None)[0]


_KINDS: Mapping[str, Callable[[Session, str, str, str], Iterator[Found]]] = {
    "store": _stores,
    "thread": _threads,
    "target": _targets,
    "ref": _refs,
    "ns": _namespaces,
    "channel": _channels,
    "namespace": _memory_namespaces,
    "item": _items,
    "session": _sessions,
    "op": _operations,
    "undone": _undone,
    "change": _changes,
    "grouping": _groupings,
    "filter": _filters,
}
