"""Tell from the name of a field that its text is a credential."""

from __future__ import annotations

import re

from ckpt_cli.core.secrets.placeholders import is_guessable, is_placeholder

_KINDS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("password", ("password", "passwd", "passphrase"), 6),
    ("api-key", ("apikey", "accesskey", "subscriptionkey"), 12),
    (
        "secret-key",
        ("clientsecret", "secretkey", "secretaccesskey", "privatekey", "appsecret"),
        8,
    ),
    (
        "access-token",
        ("accesstoken", "refreshtoken", "authtoken", "bearertoken", "sessiontoken", "idtoken"),
        12,
    ),
)
"""For each kind, how names of fields end, and the shortest text that counts. Names are compared in
lower case, without `_` and `-`."""
_EXACT = {"pwd": ("password", 6), "secret": ("secret-key", 12)}
_TOKENS = ("token", "apitoken", "bottoken", "accountkey", "authorization")
_LONGEST_NAME = 100
KINDS_BY_NAME = tuple(kind for kind, *_ in _KINDS)


def kind_by_name(name: str, text: str) -> str | None:
    """Return the kind of credential that a field of this name holds; None if it holds none.

    Placeholders, UUIDs, numbers, names of variables and texts with blanks are none.
    """
    kind, shortest = _kind(name)
    if kind is None or len(text) < shortest or text.isdigit():
        return None
    if is_placeholder(text) or is_guessable(text):
        return None
    if kind != "password" and not (re.search(r"\d", text) and re.search(r"[A-Za-z]", text)):
        return None
    return kind


def _kind(name: str) -> tuple[str | None, int]:
    if len(name) > _LONGEST_NAME:
        return None, 0
    bare = re.sub(r"[\W_]+", "", name.lower())
    if bare in _EXACT:
        return _EXACT[bare]
    if bare in _TOKENS:
        return "access-token", 20
    for kind, endings, shortest in _KINDS:
        if bare.endswith(endings):
            return kind, shortest
    return None, 0
