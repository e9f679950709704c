"""Which store an operation changed, as a digest that is the same however the store is named."""

from __future__ import annotations

import json
import os
import re

from ckpt_backends.discovery import backend_of
from ckpt_backends.url import StoreUrl, printable, printable_param


def store_text(url: StoreUrl) -> str:
    """Return the URL of a store without secrets; the whole path of a file."""
    is_file = not url.params and os.path.lexists(url.path)
    return os.path.abspath(url.path) if is_file else str(url)


def place_of(url: StoreUrl) -> str:
    """Return a digest of where a store is.

    It depends on no password and no user name: who looks may connect as another role.
    """
    from hashlib import sha256  # late: it loads OpenSSL

    where = re.sub(r"^[^:/]*://([^/@]*@)?", "", printable(url.raw)).partition("?")[0]
    backend = backend_of(url.scheme)
    if backend is not None and backend.is_local:
        where = os.path.realpath(url.path)
    scheme = url.scheme if backend is None else backend.schemes[0]
    params = sorted(
        (name, printable_param(url.scheme, name, value))
        for name, value in url.params.items()
        if name != "copy"
    )
    return sha256(json.dumps([scheme, where, params]).encode()).hexdigest()[:32]
