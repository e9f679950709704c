"""Every error that a user may meet. Each class carries its exit code.

CkptError
├── UsageError            2   wrong arguments, a wrong profile, a wrong value
│   └── MissingDependency 2   a driver that is not installed
├── NotFound              3   a thread, checkpoint, namespace or channel that is not there
│   └── Ambiguous         3   a ref that fits more than one checkpoint
├── StoreUnavailable      4   no such file, refused, not a database, locked
│   ├── UnknownLayout     4   a store that holds no layout known here
│   │   └── SeveralLayouts 4  a store that holds more than one: it has to be said which is meant
│   ├── Unsupported       4   known, but this layout cannot do what was asked
│   └── Unreadable        4   there, but damaged, or encrypted with a key that is not known
├── Refused               5   a safety rule, or a confirmation that was not given
├── StoreChanged          6   the store changed between plan and write
└── PartlyDone            7   some of it was carried out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar


class CkptError(Exception):
    """Base of all errors shown to users: one line, perhaps a hint, and an exit code.

    Messages follow git: the first word in lower case, the subject in single quotes, no full
    stop. They may hold text from a store; whoever prints them makes it safe.
    """

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(CkptError):
    exit_code = 2
    code = "usage"


class MissingDependency(UsageError):
    code = "missing_dependency"


class NotFound(CkptError):
    exit_code = 3
    code = "not_found"


class Ambiguous(NotFound):
    code = "ambiguous"


class StoreUnavailable(CkptError):
    exit_code = 4
    code = "store_unavailable"


class UnknownLayout(StoreUnavailable):
    code = "unknown_layout"


class SeveralLayouts(UnknownLayout):
    code = "several_layouts"

    def __init__(
        self, message: str, choices: Sequence[Mapping[str, str]], *, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.choices = tuple(choices)
        """For each layout, the parameters of a URL that mean it."""


class Unsupported(StoreUnavailable):
    code = "unsupported"


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
