"""Open the store that a name means; errors say where the name came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import StoreUnavailable, UsageError
from ckpt_backends.protocol import Store
from ckpt_cli.config.store_names import StoreNames
from ckpt_cli.threads.opening import Opening

if TYPE_CHECKING:
    from ckpt_backends.scan_observer import ScanObserver


def opening_of(names: StoreNames, settings: dict[str, Any]) -> Opening:
    """Return what is needed to open the store that the settings name.

    Raises `UsageError` for an unknown reducer.
    """
    url, rules = names.store_url, None
    reducers, library = names.reducers, names.library
    if reducers or library:
        from ckpt_cli.core.replay.reducer_options import known_reducers
        from ckpt_cli.core.replay.unknown_reducer import Rules

        rules = Rules(known_reducers(dict(reducers)), library)
    return Opening(url, settings.get("aes_key_file"), bool(settings.get("redact")), rules)


def open_named(
    names: StoreNames,
    opening: Opening,
    note: Callable[[str], None],
    observer: Callable[[], ScanObserver] | None = None,
) -> Store:
    """Open a store for reading. Errors also say where the store's name came from."""
    try:
        return opening.open(note, observer)
    except UsageError as error:
        profile = names.profile
        if profile is not None and profile.params:
            error.message += f" (profile '{profile.name}' in {names.profiles.source})"
        raise
    except StoreUnavailable as error:
        error.hint = names.meant() or error.hint
        if names.named_by is not None:
            error.message += f" (named by {names.named_by})"
        hide_values(names, error)
        raise


def hide_values(names: StoreNames, error: StoreUnavailable) -> None:
    """Remove from an error what profiles took from the environment: a server may repeat it."""
    error.message = names.without_values(error.message)
    error.hint = error.hint and names.without_values(error.hint)
