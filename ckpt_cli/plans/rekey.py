"""Plan to change the encryption of threads: which values would change, and whether keys fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.form import Language, Serializer
from ckpt_backends.transfer.parts import Part
from ckpt_backends.transfer.rekeying import RekeyCounts, Rekeying
from ckpt_backends.transfer.routes import form_of, parts_of_rows
from ckpt_backends.transfer.sealing import WithKeys
from ckpt_cli.core.rekeying import RekeyedThread


@dataclass(frozen=True, slots=True)
class RekeySide:
    """A store with the keys that it has and is to have."""

    store: Store
    """With rows as stored: neither decrypted nor redacted."""
    layout: str
    rekeying: Rekeying

    def parts(self, thread_id: str) -> Iterator[Part]:
        """Yield the parts of a thread as stored."""
        yield from parts_of_rows(self.layout, self.store.rows(thread_id))


def rekey_side(rows: Store, language: Language, keys: WithKeys) -> RekeySide:
    """Return a store with its keys. Raises `Unsupported` if nothing in it can be encrypted."""
    layout = rows.describe().layout
    form = form_of(layout, language)
    if form is None or form.serializer is not Serializer.TYPED:
        raise Unsupported(
            f"a store of layout '{layout}' cannot be rekeyed",
            hint="LangGraph's EncryptedSerializer cannot be used with it",
        )
    return RekeySide(rows, layout, Rekeying(form, keys))


def check_keys(side: RekeySide, thread_ids: Iterable[str]) -> None:
    """Open the first encrypted value of each thread. Raises `Refused` if no key opens it."""
    for thread_id in thread_ids:
        try:
            for part in side.parts(thread_id):
                if side.rekeying.check(part):
                    break
        except CannotHold as error:
            raise wrong_key(thread_id, error) from error


def planned_rekey(side: RekeySide, thread_id: str) -> RekeyedThread:
    """Return what would change in a thread. Raises `Refused` for a value that no key opens."""
    counts = RekeyCounts()
    try:
        for part in side.parts(thread_id):
            side.rekeying.of(part, counts)
    except CannotHold as error:
        raise wrong_key(thread_id, error) from error
    return RekeyedThread(thread_id, counts)


def wrong_key(thread_id: str, error: CannotHold) -> Refused:
    """Return the error for a thread that holds a value that no key opens."""
    return Refused(
        f"thread '{thread_id}' was left as it is: {error.message}",
        hint="give the key that the store has now with --aes-key-file or LANGGRAPH_AES_KEY",
    )
