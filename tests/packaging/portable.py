"""The tests that every system must pass: `python -m tests.packaging.portable`.

With `--hidden`, they run without what only POSIX has, as on Windows: no locks, owners, access
lists, limits or `/proc`, and no file that is open can be renamed or removed.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

TESTS = (
    # These names are of POSIX.
    "--ignore=tests/unit/core/doctor/test_types.py",
    *("tests/unit/core", "tests/unit/codec", "tests/unit/queries", "tests/unit/render"),
    *(
        f"tests/commands/test_{name}.py"
        for name in (
            *("threads", "show", "history", "diff", "messages", "grep", "interrupts", "errors"),
            *("blame", "bisect", "replay", "doctor", "timeline", "stats", "du", "rollback", "fork"),
            *("undo", "redo", "repair", "purge", "gc", "export", "import", "secrets"),
        )
    ),
)
_MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty")
_CALLS = (
    *("fork", "geteuid", "fchmod", "fchown", "getxattr", "setxattr", "listxattr"),
    *("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY"),
)
_SIGNALS = ("SIGHUP", "SIGURG", "pthread_sigmask")
_listdir = os.listdir


def hide() -> None:
    """Take away what Windows has not. What is imported before still uses it."""
    for name in _MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in ((os, _CALLS), (signal, _SIGNALS), (select, ("poll",))):
        for name in names:
            delattr(module, name)
    os.listdir = _without_processes
    for name in ("rename", "replace", "link", "unlink", "remove"):
        setattr(os, name, _OnlyClosed(getattr(os, name)))


def _without_processes(path: Any = ".") -> Any:
    if str(path) == "/proc":
        raise FileNotFoundError(path)
    return _listdir(path)


class _OnlyClosed:
    """A call that Windows refuses while the file is open in this process."""

    def __init__(self, act: Any) -> None:
        self._act = act

    def __call__(self, path: Any, *others: Any, **more: Any) -> None:
        for number in _listdir("/proc/self/fd"):
            try:
                is_open = os.path.samestat(os.stat(f"/proc/self/fd/{number}"), os.lstat(path))
            except (OSError, TypeError):
                continue
            if is_open:
                raise PermissionError(13, "The file is open", str(path))
        self._act(path, *others, **more)


if __name__ == "__main__":
    words = sys.argv[1:]
    if "--hidden" in words:
        words.remove("--hidden")
        hide()
    import pytest

    os.chdir(Path(__file__).parents[2])
    sys.exit(pytest.main([*words, *([] if any(".py" in one for one in words) else TESTS)]))
