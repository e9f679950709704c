"""The stores that can be found, and the layouts that can be opened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ckpt_backends.errors import CkptError
from ckpt_cli.api.answer import Answer
from ckpt_cli.config.store_names import StoreNames

if TYPE_CHECKING:
    from ckpt_cli.queries.layouts import OpenableLayout
    from ckpt_cli.queries.stores import FoundStore


def stores(folder: str | os.PathLike[str] | None = None) -> list[Answer[FoundStore]]:
    """Return the stores in a folder, as `ckpt stores` prints them.

    Without `folder`, these are all profiles and the stores in the working folder. A store that
    cannot be opened has the key `error`.
    """
    if folder is None:
        return list(all_stores(StoreNames({})))
    return list(_in_folder(Path(folder)))


def layouts() -> list[Answer[OpenableLayout]]:
    """Return the layouts that can be opened, as `ckpt stores --layouts` prints them."""
    from ckpt_cli.queries.layouts import openable_layouts
    from ckpt_cli.render.records import layout_record

    return [Answer(one, layout_record) for one in openable_layouts()]


def named_stores(names: StoreNames, name: str) -> list[Answer[FoundStore]]:
    """Return the store with a name: one answer for each of its layouts."""
    from ckpt_cli.queries.stores import inspect

    return list(_answers(inspect(name, names.url_of(name))))


def all_stores(names: StoreNames) -> Iterator[Answer[FoundStore]]:
    """Yield the stores of all profiles, and those in the working folder."""
    yield from _answers(_of_profiles(names))
    yield from _in_folder(Path.cwd())


def _of_profiles(names: StoreNames) -> Iterator[FoundStore]:
    from ckpt_cli.config.trust import NotOurs
    from ckpt_cli.queries.stores import broken, inspect

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


def _in_folder(folder: Path) -> Iterator[Answer[FoundStore]]:
    from ckpt_cli.queries.stores import in_folder

    return _answers(in_folder(folder))


def _answers(found: Iterable[FoundStore]) -> Iterator[Answer[FoundStore]]:
    from ckpt_cli.render.records import store_record

    return (Answer(one, store_record) for one in found)
