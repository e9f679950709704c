"""Who made an archive, and what it may bring: signatures and pickles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ckpt_backends.errors import Refused, UsageError
from ckpt_cli import diagnostics
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from ckpt_backends.changes.bundle import Bundle, Check
    from ckpt_backends.changes.signatures import PublicKey, SigningKey

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
    from ckpt_backends.changes.signatures import read_signing_key

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
        from ckpt_backends.changes.signatures import read_trusted_keys

        return cls(read_trusted_keys(files) if files else None, allow_pickle)

    def checked(self, path: Path, check: Check) -> Bundle:
        """Read an archive to its end, through a check.

        Raises `Refused` if it is not accepted, and what `check_bundle` raises.
        """
        from ckpt_backends.changes.bundle import check_bundle
        from ckpt_backends.changes.pickles_in_rows import Pickles

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


def signed_by(bundle: Bundle) -> str | None:
    """The fingerprint of the key that signed an archive, for JSON."""
    return None if bundle.signer is None else bundle.signer.fingerprint
