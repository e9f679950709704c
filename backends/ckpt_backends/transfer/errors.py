"""Why a thread cannot be moved."""

from __future__ import annotations

from ckpt_backends.errors import Unsupported


class CannotHold(Unsupported):
    """The target cannot hold something of a thread as it is; the message names it."""

    code = "cannot_hold"
