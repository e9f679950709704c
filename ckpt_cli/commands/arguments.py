"""Options of several commands that need more than a type: keys, signatures, and which threads."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from typer import Argument, Option

from ckpt_backends.encryption import KEY_VARIABLE, keys_of_file
from ckpt_backends.errors import Refused, StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import read_regular
from ckpt_backends.model import Thread
from ckpt_backends.transfer.sealing import WithKeys
from ckpt_cli import diagnostics
from ckpt_cli.api.answer import explained_if_none, filter_of
from ckpt_cli.diagnostics import progress
from ckpt_cli.queries.threads import filtered_threads
from ckpt_cli.reading.graphs import bytes_of
from ckpt_cli.reading.target import TargetArguments, find_checkpoint
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from ckpt_backends.archive import Bundle, Check, PublicKey, SigningKey


def _storable(text: str | None) -> str | None:
    """Return the text. Raises `UsageError` if it is not UTF-8 and so cannot be stored."""
    if text is not None and not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError("cannot store the text: it is not UTF-8") from None
    return text


Reason = Annotated[
    str | None,
    Option("--reason", metavar="TEXT", help="Record TEXT as the reason.", callback=_storable),
]
MoreThreads = Annotated[
    list[str] | None,
    Argument(metavar="THREAD[@REF]", help="More threads; then each word is a thread."),
]
NewKeyFile = Annotated[
    str | None,
    Option(
        "--new-key-file",
        metavar="FILE",
        help="Encrypt encrypted values again, with the key in this file.",
    ),
]
Encrypt = Annotated[
    bool, Option("--encrypt", help="Encrypt values that are stored unencrypted, too.")
]
Decrypt = Annotated[bool, Option("--decrypt", help="Store encrypted values decrypted.")]

LONGEST_INPUT = 256 << 20
"""Bytes of a list of ids or values, or of a receipt."""


def read_input(place: str, hint: str | None = None) -> bytes:
    """Return what a file holds; `-` is stdin. Raises `UsageError`."""
    try:
        if place != "-":
            return read_regular(Path(place), LONGEST_INPUT)
    except StoreUnavailable as error:
        raise UsageError(error.message, hint=error.hint) from None
    except OSError as error:
        raise UsageError(f"cannot read '{place}': {reason_of(error)}", hint=hint) from error
    found = sys.stdin.buffer.read(LONGEST_INPUT + 1)
    if len(found) > LONGEST_INPUT:
        raise UsageError(f"cannot read stdin: it is longer than {LONGEST_INPUT} bytes")
    return found


_GIVE = f"give the key of the store with --aes-key-file FILE or {KEY_VARIABLE}"


def keys_of(
    session: Session, new_key_file: str | None, *, encrypt: bool, decrypt: bool
) -> WithKeys | None:
    """Return the keys that the options name; None if there is none.

    Raises `UsageError` for options that exclude each other, and if a key is missing or cannot be
    read.
    """
    if decrypt and (encrypt or new_key_file is not None):
        other = "--encrypt" if encrypt else "--new-key-file"
        raise UsageError(f"--decrypt cannot be combined with {other}", hint=f"leave out {other}")
    keys = session.opening.keys()()
    new_key = None if new_key_file is None else _only(new_key_file)
    if decrypt and not keys:
        raise UsageError("no key to decrypt with", hint=_GIVE)
    if new_key is not None and not keys and not encrypt:
        raise UsageError("no key to decrypt with", hint=f"{_GIVE}; or add --encrypt")
    if encrypt and not keys and new_key is None:
        raise UsageError("no key to encrypt with", hint="add --new-key-file FILE")
    if new_key is not None and [new_key] == [*keys] and not encrypt:
        raise UsageError("the new key is the same as the old one")
    if not keys and new_key is None:
        return None
    if session.review is not None:
        session.review.see_keys(*(keys or (None,)), new_key)
    return WithKeys(keys, new_key, encrypts=encrypt, decrypts=decrypt)


def _only(path: str) -> bytes:
    keys = keys_of_file(path)
    if len(keys) > 1:
        raise UsageError(f"'{path}' has {len(keys)} keys", hint="a new key is a single one")
    return keys[0]


SignKey = Annotated[
    Path | None,
    Option("--sign-key", metavar="FILE", help="Sign archives with this Ed25519 private key."),
]
TrustedKeys = Annotated[
    list[Path] | None,
    Option(
        "--trusted-key",
        metavar="FILE",
        help="Only archives signed by a public key in FILE; repeatable.",
    ),
]
AllowPickle = Annotated[
    bool, Option("--allow-pickle", help="Also restore pickles, which run code when loaded.")
]


def signing_key(path: Path | None, archive: Path | None) -> SigningKey | None:
    """The key of --sign-key. Raises `UsageError` and `Refused`."""
    if path is None:
        return None
    if archive is None:
        raise UsageError("--sign-key signs archives", hint="add --archive DIR")
    # Late, as in `Trust`: few runs sign or check an archive.
    from ckpt_backends.archive import read_signing_key

    def passphrase() -> bytes:
        found = diagnostics.ask_secret(f"Passphrase of '{path}': ")
        if found is None:
            raise Refused(
                f"cannot sign with '{path}': it has a passphrase, and there is no terminal",
                hint="use a key without a passphrase: ssh-keygen -t ed25519 -N '' -f ckpt-key",
            )
        return found.encode("utf-8", "surrogateescape")

    return read_signing_key(path, passphrase)


@dataclass(frozen=True, slots=True)
class Trust:
    """Which archives an import accepts."""

    keys: tuple[PublicKey, ...] | None
    """The only keys that may sign; None if signatures are not needed."""
    allow_pickle: bool

    @classmethod
    def of(cls, files: Sequence[Path] | None, *, allow_pickle: bool) -> Trust:
        """From the options. Raises `UsageError`."""
        from ckpt_backends.archive import read_trusted_keys

        return cls(read_trusted_keys(files) if files else None, allow_pickle)

    def checked(self, path: Path, check: Check) -> Bundle:
        """Read an archive to its end, through a check.

        Raises `Refused` if it is not accepted, and what `check_bundle` raises.
        """
        from ckpt_backends.archive import Pickles, check_bundle

        pickles = Pickles(path)
        bundle = check_bundle(path, lambda header, rows: check(header, pickles.seen(rows)))
        if self.keys is not None and bundle.signer is None:
            raise Refused(
                f"cannot import '{bundle.path}': it is unsigned",
                hint="leave out --trusted-key to import unsigned archives",
            )
        if self.keys is not None and bundle.signer not in self.keys:
            raise Refused(
                f"cannot import '{bundle.path}': it is {self.signed(bundle)}",
                hint="if you trust this key, add --trusted-key with the file of its public key",
            )
        if pickles.count and not self.allow_pickle:
            what = "values are pickles, which run code in the agent that loads them"
            if pickles.count == 1:
                what = "value is a pickle, which runs code in the agent that loads it"
            raise Refused(
                f"cannot import '{bundle.path}': {pickles.count} {what}: {pickles.places()}",
                hint="--allow-pickle if you made the archive",
            )
        return bundle

    def signed(self, bundle: Bundle) -> str:
        """Who signed an archive."""
        signer = bundle.signer
        if signer is None:
            return "unsigned"
        for key in self.keys or ():
            if key == signer:
                return f"signed by {signer.fingerprint} ({key.name or 'trusted'})"
        return f"signed by {signer.fingerprint} (unknown key)"

    def report(self, session: Session, bundles: Sequence[Bundle]) -> None:
        """Print who signed the archives."""
        for words, number in Counter(map(self.signed, bundles)).items():
            session.note(f"{counted(number, 'archive')} {'is' if number == 1 else 'are'} {words}")


TargetId: TypeAlias = tuple[str, str | None, str | None]
"""A thread, its checkpoint if one is named, and its head if conditions chose it: they may not hold
for another head.
"""


@dataclass(frozen=True, slots=True)
class ThreadTargets:
    """Threads by name, or by conditions."""

    names: Sequence[str] | None
    at: str | None
    """A checkpoint of the only thread, if it is not part of its name."""
    match: str | None
    where: Sequence[str] | None
    everything: bool = False
    has_all: bool = True
    """Whether the command has the option --all."""

    @property
    def is_several(self) -> bool:
        """Whether more than one thread may be meant."""
        return len(self.names or ()) != 1 or self._has_conditions

    @property
    def _has_conditions(self) -> bool:
        return self.match is not None or bool(self.where)

    def __post_init__(self) -> None:
        """Raise `UsageError` for words that exclude each other, or if there are none."""
        ways = "--match, --where or --all" if self.has_all else "--match or --where"
        if self.names and (self._has_conditions or self.everything):
            raise UsageError(
                f"THREAD cannot be combined with {ways}", hint="leave out THREAD or these options"
            )
        if self.everything and self._has_conditions:
            raise UsageError(
                "--all cannot be combined with --match or --where", hint="leave out --all"
            )
        if not (self.names or self._has_conditions or self.everything):
            ways = "--match GLOB, --where FILTER or --all"
            if not self.has_all:
                ways = "--match GLOB or --where FILTER"
            raise UsageError("no thread given", hint=f"give THREAD, {ways}")
        if self.at is not None and self.is_several:
            raise UsageError("--at requires one THREAD")

    def one(self, session: Session) -> tuple[ThreadReader, str | None]:
        """Return the only thread, and the checkpoint if one is named. Raises `NotFound`."""
        return self._named(session, (self.names or ())[0])

    def all(self, session: Session) -> list[TargetId]:
        """Return all threads, each with the checkpoint that is named, if any.

        Raises `NotFound` for an unknown name, and `UsageError` for several checkpoints of a thread:
        the copy of one would replace the copy of the other as the head.
        """
        if self.names:
            found = (self._named(session, name) for name in self.names)
            named = list(dict.fromkeys((reader.thread_id, one) for reader, one in found))
            for thread_id, number in Counter(thread_id for thread_id, _ in named).items():
                if number > 1:
                    raise UsageError(
                        f"thread '{thread_id}' is named with different checkpoints",
                        hint="name each thread once",
                    )
            return [(*one, None) for one in named]
        threads = threads_to_change(session, (), self.match, self.where)
        return [(one.thread_id, None, one.head) for one in threads]

    def _named(self, session: Session, name: str) -> tuple[ThreadReader, str | None]:
        words = TargetArguments(name, self.at)
        found = find_checkpoint(session.store, words, session.now, session.zone, session.note)
        return found.reader, found.checkpoint_id if found.chosen else None


def names_and_ref(
    session: Session,
    thread: str | None,
    ref: str | None,
    more: Sequence[str] | None,
    *,
    has_choice: bool,
) -> tuple[tuple[str, ...], str | None]:
    """Return the threads that the words name, and the REF of `THREAD REF`.

    Two words are `THREAD REF`, unless an option chooses the checkpoint and the second word is a
    thread, too. Three words or more are threads.
    """
    words = tuple(one for one in (thread, ref) if one is not None)
    if more:
        return (*words, *more), None
    if len(words) != 2 or (has_choice and session.store.thread(words[1]) is not None):
        return words, None
    return words[:1], words[1]


def check_one_way(
    names: Sequence[str] | None, match: str | None, where: Sequence[str] | None, *, everything: bool
) -> None:
    """Raise `UsageError` unless threads are named, or described, or all of them are meant."""
    if sum((bool(names), match is not None or bool(where), everything)) != 1:
        raise UsageError(
            "name the threads in one way", hint="give THREAD..., --all, or --match and --where"
        )


def threads_to_change(
    session: Session, names: Sequence[str] | None, match: str | None, where: Sequence[str] | None
) -> Iterator[Thread]:
    """Return the threads with these names; without names, all threads that match.

    Shows progress while heads are read. Raises what `filtered_threads` and `filter_of` raise.
    """
    watch = partial(progress, total=None, label="choosing threads")
    wanted = filter_of(session, where, acts=True)
    found = filtered_threads(session.store, names or (), match, wanted, session.now, watch)
    return explained_if_none(session, where, found)


_LONGEST_LIST = 1 << 20


def lines_of(path: Path | None) -> list[str]:
    """Return the lines of a file without comments and empty ones. Raises `UsageError`."""
    if path is None:
        return []
    lines = bytes_of(path, _LONGEST_LIST).decode("utf-8", "replace").splitlines()
    return [one.strip() for one in lines if one.strip() and not one.strip().startswith("#")]
