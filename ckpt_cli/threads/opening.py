"""How the store of a run is opened for reading, in this process and in `--jobs` processes."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.encryption import DecryptingStore, Keys, keys_of_environment, keys_of_file
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.scan_observer import ScanObserver
    from ckpt_cli.core.replay.unknown_reducer import Rules


class Opening(NamedTuple):
    """Which store to open, and how its values are shown."""

    url: StoreUrl
    aes_key_file: str | None = None
    """File with the keys for encrypted values; None to use those of the environment."""
    redact: bool = False
    rules: "Rules | None" = None
    """How values that are not stored are rebuilt; None if nothing was told."""

    def open(
        self, note: Callable[[str], None], observer: "Callable[[], ScanObserver] | None" = None
    ) -> Store:
        """Open the store; calls `note` if values cannot be decrypted.

        `observer` returns who is told about scans; it is called only if the store needs scans.

        Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`.
        """
        store: Store = DecryptingStore(open_store(self.url), self.keys(), note)
        if observer is not None and store.lists_by_scan:
            store.observe_scans(observer())
        if self.rules is not None:
            from ckpt_cli.threads.states import RuledStore

            store = RuledStore(store, self.rules)
        if not self.redact:
            return store
        from ckpt_cli.threads.redaction import RedactedStore

        return RedactedStore(store)

    def keys(self) -> Keys:
        """Return a function that returns the keys for encrypted values."""
        if self.aes_key_file is None:
            return keys_of_environment
        keys = keys_of_file(self.aes_key_file)
        return lambda: keys
