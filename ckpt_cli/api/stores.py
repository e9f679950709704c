"""The stores that there are, and the layouts that can be opened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ckpt_backends.errors import CkptError
from ckpt_cli.api.answer import Answer
from ckpt_cli.config.store_names import StoreNames
from ckpt_cli.config.trust import NotOurs
from ckpt_cli.queries.stores import (
    FoundStore,
    OpenableLayout,
    broken,
    in_folder,
    inspect,
    openable_layouts,
)
from ckpt_cli.render.stores import LAYOUT, STORE


def stores(folder: str | os.PathLike[str] | None = None) -> list[Answer[FoundStore]]:
    """Return the stores in a folder, as `ckpt stores` prints them.

    Without `folder`, these are all profiles and the stores in the working folder. A store that
    cannot be opened has the key `error`.
    """
    if folder is None:
        return list(all_stores(StoreNames({})))
    return list(_answers(in_folder(Path(folder))))


def layouts() -> list[Answer[OpenableLayout]]:
    """Return the layouts that can be opened, as `ckpt stores --layouts` prints them."""
    return [Answer(one, LAYOUT.record) for one in openable_layouts()]


def named_stores(names: StoreNames, name: str) -> list[Answer[FoundStore]]:
    """Return the store with a name: one answer for each of its layouts."""
    return list(_answers(inspect(name, names.url_of(name), names.user_key)))


def all_stores(names: StoreNames) -> Iterator[Answer[FoundStore]]:
    """Yield the stores of all profiles, and those in the working folder."""
    yield from _answers(_of_profiles(names))
    yield from _answers(in_folder(Path.cwd()))


def _of_profiles(names: StoreNames) -> Iterator[FoundStore]:
    try:
        profiles = names.profiles
    except NotOurs as error:
        # The stores in this folder need no configuration.
        yield broken(str(error.path), "", error)
        return
    for name, profile in profiles.stores.items():
        try:
            url = names.url_in(profile)
        except CkptError as error:
            yield broken(name, profile.url, error)
        else:
            yield from inspect(name, url)


def _answers(found: Iterable[FoundStore]) -> Iterator[Answer[FoundStore]]:
    return (Answer(one, STORE.record) for one in found)
