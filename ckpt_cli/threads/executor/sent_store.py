"""How the workers of a cluster are told which store to open: without any secret."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpt_backends.encryption import KEY_VARIABLE
from ckpt_backends.errors import UsageError
from ckpt_backends.url import VARIABLE, StoreUrl, printable_param, secrets, split_url

if TYPE_CHECKING:
    from ckpt_cli.core.replay.unknown_reducer import Rules
    from ckpt_cli.threads.opening import Opening


@dataclass(frozen=True, slots=True)
class SentStore:
    """A store as a profile has it: a variable of the environment in place of each secret."""

    text: str
    """The URL, or the absolute path, with `${NAME}`."""
    params: Mapping[str, str]
    redact: bool
    rules: Rules | None = None

    def opening(self) -> Opening:
        """Return how it is opened here. Raises `UsageError` if a variable is not set."""
        from ckpt_cli.config.profiles import Profiles, store_of
        from ckpt_cli.threads.opening import Opening

        try:
            url = store_of(Profiles(None, None, {}), "the store", self.text, self.params)
        except UsageError as error:
            error.message += ", on a worker of the cluster"
            raise
        return Opening(url, None, self.redact, self.rules)


def sent_store(opening: Opening) -> SentStore:
    """Return what the workers are told. Raises `UsageError` if that would send a secret."""
    if opening.aes_key_file is not None:
        raise UsageError(
            "the key of --aes-key-file is not sent to a cluster",
            hint=f"set {KEY_VARIABLE} in the environment of the workers",
        )
    url = opening.url
    text = url.written or url.raw
    if "://" not in text and not VARIABLE.search(text):
        text = os.path.abspath(url.path)
    given = {name for name, _ in split_url(text).query}
    params = {
        name: _with_variables(value, url) for name, value in url.params.items() if name not in given
    }
    if _has_secret(url, text, params):
        raise UsageError(
            "a password or another secret in a URL is not sent to a cluster",
            hint="write the URL into a profile with ${NAME} in place of the secret, and set NAME in"
            " the environment of the workers",
        )
    return SentStore(text, params, opening.redact, opening.rules)


def _with_variables(value: str, url: StoreUrl) -> str:
    """Return a parameter as in its profile, if a variable is the whole of it."""
    for name, known in url.variables.items():
        if value == known:
            return f"${{{name}}}"
    return value


def _has_secret(url: StoreUrl, text: str, params: Mapping[str, str]) -> bool:
    """Return whether what is sent has a secret besides variables, or the value of one."""
    plain = url.replaced({}, raw=VARIABLE.sub("", text), written="", variables={})
    hidden = {
        VARIABLE.sub("", value)
        for name, value in params.items()
        if printable_param(url.scheme, name, value) != value
    }
    values = any(one in text for one in url.variables.values() if one for text in params.values())
    return values or bool(secrets(plain) | (hidden - {""}))
