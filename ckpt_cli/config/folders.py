"""The folders of this user, as the XDG specification names them."""

from __future__ import annotations

import os
from pathlib import Path

from ckpt_backends.errors import UsageError


def user_folder(variable: str, otherwise: str) -> Path | None:
    """Return a folder of the XDG specification, which ignores a relative path; None if unknown."""
    for text in (os.environ.get(variable, ""), os.path.expanduser(otherwise)):
        if os.path.isabs(text):
            return Path(text)
    return None


def state_folder(name: str) -> Path:
    """Return a folder for what `ckpt` records about this user. Raises `UsageError`."""
    state = user_folder("XDG_STATE_HOME", "~/.local/state")
    if state is None:
        raise UsageError("cannot find your state folder", hint="export XDG_STATE_HOME=FOLDER")
    return state / "ckpt" / name


def history_file() -> Path:
    """Return the file of what was typed at the prompt of `ckpt sql`. Raises `UsageError`."""
    return state_folder("sql") / "history"


def old_history(path: Path) -> Path:
    """Return the name of the former history while an erasure writes it anew."""
    return path.with_name(".history.old")
