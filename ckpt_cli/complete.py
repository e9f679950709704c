"""Completions that depend on the store: thread ids, refs, namespaces, channels, profiles, schemes.

`ckpt _complete KIND WORD STORE CONFIG THREAD NS` prints lines with a value and its description. An
argument that is not given is empty. Errors are not printed, since they would appear in the command
line. This module does not import the parser, which takes longer than the answer.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice

from ckpt_backends.checkpoint_ids import step_of
from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.protocol import Store
from ckpt_cli.core.refs import split_target
from ckpt_cli.core.short_refs import short_refs
from ckpt_cli.session import Session

_MOST = 200
"""Maximum number of completions."""

Found = tuple[str, str]


def complete(words: list[str]) -> int:
    """Print the completions of a word. Always returns 0."""
    kind, word, store, config, thread, ns, *_ = [*words, *[""] * 6]
    # A warning would appear in the command line.
    warnings.simplefilter("ignore")
    session = Session()
    session.settings |= {"quiet": True}
    session.settings |= {k: v for k, v in (("store", store), ("config", config)) if v}
    with suppress(Exception):  # a traceback would appear in the command line
        try:
            fitting = (
                (value, what)
                for value, what in _KINDS[kind](session, word, thread, ns)
                if value.startswith(word) and value.isprintable()
            )
            for value, what in islice(fitting, _MOST):
                sys.stdout.write(f"{value}\t{what}\n")
            sys.stdout.flush()
        finally:
            session.close()
    return 0


def _stores(session: Session, word: str, *_: str) -> Iterator[Found]:
    """Yield the profiles; after the first letter, the schemes of URLs, too."""
    with suppress(CkptError):
        yield from _profiles(session)
    if word:
        from ckpt_backends.discovery import known_backends

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


def _threads(session: Session, *_: str) -> Iterator[Found]:
    # A scan may cost money: pressing a key should not.
    threads = iter(()) if session.store.lists_by_scan else session.store.threads()
    return ((one.thread_id, f"{one.checkpoints} checkpoints") for one in threads)


def _targets(session: Session, word: str, *_: str) -> Iterator[Found]:
    """Yield threads; after an `@`, the refs of the thread before it."""
    thread_id, at, _ref = word.rpartition("@")
    if at and session.store.thread(thread_id) is not None:
        yield from ((f"{thread_id}@{ref}", what) for ref, what in _refs(session, "", thread_id, ""))
    yield from _threads(session)


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
    from ckpt_cli.core.channels import is_state
    from ckpt_cli.core.state import read_body

    thread_id = _thread_id(session.store, thread)
    for head in islice(session.store.checkpoints(thread_id, checkpoint_ns=ns), 1):
        ids = [head.key.checkpoint_id]
        for one in session.store.checkpoints(
            thread_id, checkpoint_ns=ns, checkpoint_ids=ids, body=True
        ):
            body = read_body(one)
            names = sorted({*body.values, *body.versions})
            yield from ((name, "channel") for name in names if is_state(name, body))


def _thread_id(store: Store, text: str) -> str:
    return split_target(text, lambda whole: store.thread(whole) is not None)[0]


_KINDS: Mapping[str, Callable[[Session, str, str, str], Iterator[Found]]] = {
    "store": _stores,
    "thread": _threads,
    "target": _targets,
    "ref": _refs,
    "ns": _namespaces,
    "channel": _channels,
}
