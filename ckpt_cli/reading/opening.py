"""How the store of a run is opened for reading, also by its other processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ckpt_backends.encrypted import DecryptingStore, Key, key_of_environment, key_of_file
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.url import StoreUrl


@dataclass(frozen=True, slots=True)
class Opening:
    """Which store, and what is done to its values."""

    url: StoreUrl
    aes_key_file: str | None = None
    """Holds the key for encrypted values; the environment's key if None."""
    redact: bool = False

    def open(self, note: Callable[[str], None]) -> Store:
        """The store; `note` gets a remark where its values cannot be decrypted.

        Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`.
        """
        key = self._key()
        store = DecryptingStore(open_store(self.url), key, note)
        if not self.redact:
            return store
        from ckpt_cli.reading.redacted import RedactedStore

        return RedactedStore(store)

    def _key(self) -> Key:
        if self.aes_key_file is None:
            return key_of_environment
        key = key_of_file(self.aes_key_file)
        return lambda: key
