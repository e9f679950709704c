"""Folders that cannot be written, even if the tests run as root."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def unprivileged() -> Iterator[None]:
    """Run a part of a test as another user, since root may write anywhere."""
    root = os.geteuid() == 0
    if root:
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
            os.setegid(0)


def lock(folder: Path) -> None:
    """Let any user read a folder and its files, and none write them."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
