"""What the screen remembers of its last use: `$XDG_STATE_HOME/ckpt/screen/look.json`.

It is a convenience: a file that is missing, broken or cannot be written is ignored.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ckpt_backends.errors import CkptError
from ckpt_backends.files.atomic_write import make_private_folder, writing
from ckpt_backends.files.regular_file import read_regular
from ckpt_cli.config.machine import state_folder

_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class RememberedLook:
    """How the screen looked when it was left."""

    theme: str = ""
    """The name of a theme of Textual; empty for the default one."""
    sort: str = ""
    tab: str = ""
    is_unfolded: bool = False
    """Whether long runs of steps are unfolded."""
    is_zoomed: bool = False
    threads_share: int = 0
    """Percent of the columns for the threads; 0 to fit them to their content."""
    tree_share: int = 0
    """Percent for the tree of what it shares with the checkpoint; 0 to fit it."""


def look_file() -> Path | None:
    """Return where the look is remembered; None if this user has no state folder."""
    with suppress(CkptError):
        return state_folder("screen") / "look.json"
    return None


def read_look(path: Path) -> RememberedLook:
    """Return the remembered look; the default where the file says nothing that can be used."""
    try:
        found = json.loads(read_regular(path, _LONGEST))
    except (OSError, ValueError, RecursionError, CkptError):
        return RememberedLook()
    if not isinstance(found, dict):
        return RememberedLook()
    default = asdict(RememberedLook())
    usable = {key: found[key] for key in default if type(found.get(key)) is type(default[key])}
    values: dict[str, Any] = default | usable
    return RememberedLook(**values)


def write_look(path: Path, look: RememberedLook) -> None:
    """Remember a look, in a file that only this user can read."""
    with suppress(OSError, CkptError):
        make_private_folder(path.parent)
        with writing(path) as file:
            file.write(json.dumps(asdict(look)).encode())
