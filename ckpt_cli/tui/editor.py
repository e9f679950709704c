"""Edits a text in the user's editor."""

from __future__ import annotations

import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ckpt_backends.errors import CkptError, StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import TemporaryFolder, read_regular, writing
from ckpt_cli.ending import ENDING, heed, restored, unwind

_LONGEST = 256 << 20
_PATIENCE = 2.0
"""Seconds in which an editor that was told to end can restore the terminal."""


def editor_of(environment: Mapping[str, str]) -> list[str]:
    """The command line of the user's editor. Raises `UsageError` if it cannot be parsed."""
    for name in ("VISUAL", "EDITOR"):
        text = environment.get(name, "")
        try:
            command = shlex.split(text)
        except ValueError as error:
            raise UsageError(
                f"cannot run the editor in {name}: {str(error).lower()}", hint=f"export {name}=vim"
            ) from None
        if command:
            return command
    return ["vi"]


def edit(command: list[str], text: str) -> str:
    """Let an editor change a text in a private file, which is removed afterwards.

    Raises `CkptError` if the editor fails, or if the file is no text afterwards.
    """
    with TemporaryFolder() as folder:
        path = folder / "value.json"
        try:
            with writing(path) as file:
                file.write(text.encode("utf-8", "surrogatepass"))
            code = _run([*command, str(path)])
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise CkptError(
                f"cannot run the editor '{command[0]}': {reason}", hint="export EDITOR=vim"
            ) from error
        if code:
            how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
            raise CkptError(f"the editor '{command[0]}' ended with {how}; nothing was changed")
        return _read(path)


def _read(path: Path) -> str:
    try:
        return read_regular(path, _LONGEST).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except StoreUnavailable as error:
        reason = error.message.rpartition(": ")[2]
    except OSError as error:
        reason = reason_of(error)
    raise CkptError(f"cannot read the edited value: {reason}; nothing was changed")


def _run(command: list[str]) -> int:
    """The exit code of an editor; negative if it was killed by a signal."""
    with _signals_for_editor():
        # The user's choice of editor, run as git runs it.
        editor = subprocess.Popen(command)  # noqa: S603
        try:
            return editor.wait()
        except BaseException:
            editor.terminate()
            with suppress(subprocess.TimeoutExpired):
                editor.wait(_PATIENCE)
            editor.kill()
            editor.wait()
            raise


@contextmanager
def _signals_for_editor() -> Iterator[None]:
    """Leave Ctrl-C to the editor, and raise `Ended` at the signals that end this process.

    The screen cannot heed them while it waits for the editor.
    """
    with restored(signal.SIGINT, *ENDING):
        # Not SIG_IGN, which the editor would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)
        heed(unwind)
        yield
