"""Makes the clients of boto3 for the URL of a table. Credentials come from boto3's own chain."""

from __future__ import annotations

import re
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from botocore.config import Config
from botocore.loaders import create_loader
from botocore.session import Session

from ckpt_backends.dynamodb.driver_errors import explained
from ckpt_backends.errors import UnknownLayout, UsageError
from ckpt_backends.servers.insecure_connection import is_local, warn_unencrypted
from ckpt_backends.url import StoreUrl, split_url

PARAMS = frozenset(
    {"layout", "region", "endpoint", "bucket", "s3_endpoint", "key_prefix", "profile"}
)
AT_ONCE = 8
"""Number of requests that run at the same time."""
_TABLE = re.compile(r"[\w.-]{3,255}", re.ASCII)
_CONNECT_SECONDS, _ANSWER_SECONDS, _ATTEMPTS = 5, 30, 4
_ENDPOINTS = {"dynamodb": "endpoint", "s3": "s3_endpoint"}
"""By service, the parameter of the URL with its address."""


def session_of(url: StoreUrl) -> Session:
    """Check a URL, and make its session. Raises `UsageError` and `UnknownLayout`."""
    parts = split_url(url.raw)
    if parts.user is not None:
        raise UsageError(
            "refused: a DynamoDB URL must not contain credentials",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use ?profile=NAME",
        )
    if not _TABLE.fullmatch(url.path):
        raise UsageError(
            f"cannot open '{url}': not the name of a table",
            hint="write dynamodb://TABLE?region=eu-central-1",
        )
    if unknown := sorted(url.params.keys() - PARAMS):
        raise UsageError(
            f"cannot read the URL '{url}': unknown parameter '{unknown[0]}'",
            hint=f"known: {', '.join(sorted(PARAMS))}",
        )
    if url.params.get("layout", "dynamodb") != "dynamodb":
        raise UnknownLayout(
            f"'{url}' has the layout 'dynamodb'", hint="remove ?layout= from the URL"
        )
    with explained(url, "open"):
        session = Session(profile=url.params.get("profile") or None)
        # Reading the descriptions of the services takes longer than anything else here.
        session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    return session


@cache
def _loader(data_path: str | None) -> Any:
    """The reader of the services' descriptions, which keeps what it has read."""
    return create_loader(data_path)


def client_of(url: StoreUrl, session: Session, service: str) -> Any:
    """A client of `dynamodb` or `s3`. Raises `UsageError` and errors of boto3."""
    config = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_ANSWER_SECONDS,
        max_pool_connections=AT_ONCE + 2,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        user_agent_extra="ckpt",
    )
    name = _ENDPOINTS[service]
    try:
        client = session.create_client(
            service,
            url.params.get("region") or None,
            endpoint_url=url.params.get(name) or None,
            config=config,
        )
    except ValueError:
        raise UsageError(
            f"cannot open '{url}': {name} or region has no valid form",
            hint=f"write ?{name}=https://HOST and ?region=eu-central-1",
        ) from None
    place = urlsplit(client.meta.endpoint_url)
    if place.scheme == "http" and not is_local(place.hostname or ""):
        host = place.hostname or ""
        warn_unencrypted(host, "use an https:// endpoint", f"data from '{host}' comes")
    return client
