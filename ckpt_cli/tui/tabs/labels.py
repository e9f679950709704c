"""Labels of the tabs, as long as there is space for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_cli.tui.tabs.content import TABS, Tab

_SHORT: Mapping[Tab, str] = {
    "messages": "Msgs",
    "timeline": "Time",
    "errors": "Errs",
    "findings": "Finds",
    "metadata": "Meta",
    "memory": "Mem",
}
_KEYS = tuple(str(number % 10) for number in range(1, len(TABS) + 1))


def tab_labels(width: int, active: Tab) -> Sequence[str]:
    """Return the labels in the order of `TABS`, in the longest form that fits into `width` columns.

    In the shortest form, only the active tab has its name, and the others their number.
    """
    names = [one.capitalize() for one in TABS]
    short = [_SHORT.get(one, name) for one, name in zip(TABS, names, strict=True)]
    forms = (_numbered(names), _numbered(short), short, _alone(names, active))
    return next((one for one in forms if _fits(one, width)), _alone(short, active))


def _fits(labels: Sequence[str], width: int) -> bool:
    # A blank follows each label.
    return sum(map(len, labels)) + len(labels) <= width


def _numbered(names: Sequence[str]) -> list[str]:
    return [f"{key} {name}" for key, name in zip(_KEYS, names, strict=True)]


def _alone(names: Sequence[str], active: Tab) -> list[str]:
    labels = zip(_KEYS, TABS, _numbered(names), strict=True)
    return [label if tab == active else key for key, tab, label in labels]
