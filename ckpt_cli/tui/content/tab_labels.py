"""Labels of the tabs, as long as there is space for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_cli.tui.content.tabs import TABS, Tab

_SHORT: Mapping[Tab, str] = {
    "messages": "Msgs",
    "findings": "Finds",
    "metadata": "Meta",
    "memory": "Mem",
    "timeline": "Time",
}


def tab_labels(width: int, active: Tab) -> Sequence[str]:
    """Return the labels in the order of `TABS`, in the longest form that fits into `width` columns.

    In the shortest form, only the active tab has its name, and the others their number.
    """
    names = [one.capitalize() for one in TABS]
    short = [_SHORT.get(one, name) for one, name in zip(TABS, names, strict=True)]
    forms = ([f"{at} {name}" for at, name in enumerate(some, 1)] for some in (names, short))
    for labels in (*forms, short):
        # A blank follows each label.
        if sum(map(len, labels)) + len(labels) <= width:
            return labels
    return [f"{at} {names[at - 1]}" if one == active else str(at) for at, one in enumerate(TABS, 1)]
