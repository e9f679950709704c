"""What errors of a connection must not show."""

from urllib.parse import quote

CANARY = "C4nary/@:?#&=%+ é"
QUOTED = quote(CANARY, safe="")


def shows_nothing(text: str) -> None:
    for form in (CANARY, QUOTED, "C4nary", CANARY[6:], QUOTED[6:]):
        assert form not in text
