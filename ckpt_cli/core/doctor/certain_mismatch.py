"""Tell a state that was changed from one that the agent made in its own way."""

from __future__ import annotations

from collections.abc import Callable

from ckpt_cli.core.replay.elimination import Check, Judgement

_FEW = 4
"""So many steps must follow a known reducer for each that does not."""
_OF_LANGGRAPH = ("add_messages", "last_value")
"""Reducers that LangGraph brings itself. Any other is a function of the application, which may
differ from it in some steps, such as one that empties a list if `None` is written."""


def is_certain(check: Check, judgement: Judgement, has_new_version: Callable[[], bool]) -> bool:
    """Return whether a mismatch shows damage, and not only that the reducer is another one.

    A reducer may agree with a known one for many steps, such as one that keeps the last 20 items,
    and a node may change a value in place, which leaves its version. A mismatch is certain if a row
    is missing, if the user named the reducer, if nothing was written and the version is new, if the
    steps after it continue from the expected value, or if the value holds a text that no one wrote.
    """
    if check.missing or judgement.chosen:
        return True
    if not check.wrote:
        return has_new_version()
    if check.confirmed & judgement.mask and not judgement.is_doubtful:
        return True
    return check.foreign and judgement.against * _FEW <= judgement.evidence


def may_be_certain(judgement: Judgement) -> bool:
    """Return whether the only mismatch of a channel shows damage, given its reducer."""
    return not judgement.survivors or judgement.survivors[0] in _OF_LANGGRAPH
