"""Tell a state that was changed from one that an application's own reducer made."""

from __future__ import annotations

from ckpt_cli.core.replay.elimination import Check, Judgement

_FEW = 4
"""So many steps must follow a known reducer for each that does not."""


def is_certain(check: Check, judgement: Judgement) -> bool:
    """Return whether a mismatch shows damage, and not only that the reducer is another one.

    A reducer may agree with a known one for many steps, such as one that keeps the last 20 items.
    A mismatch is certain if a row is missing, if the user named the reducer, if the steps after it
    continue from the expected value, or if the value holds a text that no one wrote.
    """
    if check.missing or not check.wrote or judgement.chosen:
        return True
    if check.confirmed & judgement.mask:
        return True
    return check.foreign and judgement.against * _FEW <= judgement.evidence
