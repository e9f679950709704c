"""All errors that a user may see. Each class has an exit code.

CkptError
├── UsageError            2   wrong arguments, a wrong profile, a wrong value
│   ├── MissingDependency 2   a driver is not installed
│   └── ParseError        2   a text in a language of ckpt cannot be parsed
├── NotFound              3   a thread, checkpoint, namespace or channel does not exist
│   └── Ambiguous         3   a ref matches several checkpoints
├── StoreUnavailable      4   no such file, connection refused, not a database, locked
│   ├── ForeignFile       4   a file that is none of the backend's
│   ├── UnknownLayout     4   the store has no layout that ckpt knows
│   │   └── SeveralLayouts 4  the store has several layouts; the URL must name one
│   ├── Unsupported       4   the layout cannot do what was asked
│   └── Unreadable        4   the data is damaged, or encrypted with an unknown key
├── Refused               5   a safety rule, or a confirmation that was not given
├── StoreChanged          6   the store changed between plan and write
└── PartlyDone            7   only a part of the work was done
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import ClassVar, Protocol, Self

from ckpt_backends import shell


class CkptError(Exception):
    """Base of all errors shown to users: a message of one line, an optional hint, an exit code.

    Messages follow git: the first word in lower case, the subject in single quotes, no full
    stop. They may contain text from a store, so the code that prints them must escape it.
    """

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message  # which may say more by now

    def __reduce__(self) -> tuple[object, ...]:
        # A worker process sends it, whatever its class needs to be made.
        return _remade, (type(self), self.args, self.__dict__)


def _remade(kind: type[CkptError], args: Sequence[object], fields: Mapping[str, object]) -> object:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


def reason_of(error: OSError) -> str:
    """Return why the system could not do something, as the end of a sentence."""
    return (error.strerror or str(error)).lower()


class UsageError(CkptError):
    exit_code = 2
    code = "usage"


class MissingDependency(UsageError):
    code = "missing_dependency"


class ParseError(UsageError):
    def __init__(self, message: str, text: str, position: int, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.text = text
        """What the user typed."""
        self.position = position
        """The place in `text` that cannot be parsed; its length if something is missing."""


class NotFound(CkptError):
    exit_code = 3
    code = "not_found"


class Ambiguous(NotFound):
    code = "ambiguous"


FILE_DAMAGED = "the file is damaged"
"""In the message of a `StoreUnavailable` if bytes of a file are not what the engine wrote."""


class StoreUnavailable(CkptError):
    exit_code = 4
    code = "store_unavailable"


class ForeignFile(StoreUnavailable):
    """A file that has the name of a store, and is none of the backend's."""


class UnknownLayout(StoreUnavailable):
    code = "unknown_layout"


class SeveralLayouts(UnknownLayout):
    code = "several_layouts"

    def __init__(
        self, message: str, choices: Sequence[Mapping[str, str]], *, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.choices = tuple(choices)
        """For each layout, the URL parameters that select it."""


class Unsupported(StoreUnavailable):
    code = "unsupported"


ONLY_READ = "ckpt only reads this layout: its server overwrites the file with what is in its memory"
"""Why nothing is changed in a layout with `Capability.READ_ONLY`."""


def only_read(url: str) -> Unsupported:
    """The error for a change of a store with `Capability.READ_ONLY`."""
    return Unsupported(
        f"cannot change '{url}': {ONLY_READ}",
        hint="copy its threads to a file that LangGraph.js opens: "
        f"`{shell.command('ckpt', '-s', url, 'copy', '--all', '--to', 'NEW.db', '--create')}`",
    )


class Unreadable(StoreUnavailable):
    code = "unreadable"


class Refused(CkptError):
    exit_code = 5
    code = "refused"


class StoreChanged(CkptError):
    exit_code = 6
    code = "store_changed"


class PartlyDone(CkptError):
    exit_code = 7
    code = "partly_done"


class InsecureConnection(UserWarning):
    """A password or data was, or will be, sent over a connection that others can read."""


# What holds resources until it is closed.


class Closing(Protocol):
    """An object that is closed at the end of a `with` block, also after an error."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; closing twice is allowed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
