"""Connects to a container of Azure Cosmos DB; lists, reads and writes its items."""

from __future__ import annotations

import json
import logging
import os
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from azure.core.exceptions import AzureError, ClientAuthenticationError, ServiceRequestError
from azure.cosmos import ContainerProxy, CosmosClient
from azure.cosmos.exceptions import (
    CosmosHttpResponseError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)

from ckpt_backends.cosmosdb.declaration import BACKEND
from ckpt_backends.cosmosdb.records import name_of, path_at, place_of
from ckpt_backends.errors import (
    CkptError,
    MissingDependency,
    StoreUnavailable,
    UnknownLayout,
    UsageError,
)
from ckpt_backends.installing import install_command
from ckpt_backends.model import in_chunks
from ckpt_backends.objects import PARENT, Name, Objects
from ckpt_backends.servers import NETWORK, is_local, known_failure, unexpected, warn_unencrypted
from ckpt_backends.url import StoreUrl, split_url

_FORM = "write cosmosdb://ACCOUNT.documents.azure.com/DATABASE/CONTAINER"
_KEY, _PARTITION = "COSMOSDB_KEY", "/partition_key"
_LISTED = 1000
"""Items in one answer that lists ids."""
_STATUS: Mapping[int, tuple[str, str]] = {
    401: ("the key is wrong", f"set {_KEY} to a key of this account"),
    403: ("access denied", "the account's firewall, or a role without the rights, refuses this"),
    404: ("no such database or container", "check the names; they are case-sensitive"),
    408: ("the server does not answer in time", "run the command again later"),
    413: ("an item is larger than 2 MB", ""),
    429: (
        "the container throttles requests",
        "run the command again later, or raise the throughput of the container",
    ),
    449: ("somebody else changes the same item", "run the command again"),
    503: ("the service is not available", "run the command again later"),
}
"""By the status of an answer, the reason to print and a hint."""


@contextmanager
def explained(url: StoreUrl, verb: str = "read") -> Iterator[None]:
    """Turn errors of the driver into `StoreUnavailable`, without its text, which may quote data."""
    start = f"cannot {verb} '{url}'"
    try:
        yield
    except CkptError:
        raise
    except CosmosHttpResponseError as error:
        said = f"Azure Cosmos DB answers {error.status_code}"
        reason, hint = _STATUS.get(error.status_code or 0, (said, ""))
        raise StoreUnavailable(f"{start}: {reason}", hint=hint or None) from None
    except ClientAuthenticationError:
        raise StoreUnavailable(
            f"{start}: DefaultAzureCredential has no credential that works",
            hint="sign in with `az login`, or set the variables of azure-identity",
        ) from None
    except ServiceRequestError as error:
        known = known_failure(start, str(error), ((r"SSL", "TLS failed", ""), *NETWORK))
        raise known or StoreUnavailable(f"{start}: the server cannot be reached") from None
    except AzureError:
        raise StoreUnavailable(f"{start}: the connection broke") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise unexpected(url) from error  # the driver did not expect such an answer


def _connected(url: StoreUrl) -> tuple[CosmosClient, ContainerProxy, int | None]:
    """Connect to a container that is there. Raises `UsageError`, too.

    Also returns the seconds that its items live: -1 if only some expire, None if none do.
    """
    parts = split_url(url.raw)
    path = re.fullmatch(r"/([^/\\#?]+)/([^/\\#?]+)/?", unquote(parts.path))
    if not parts.hosts or "," in parts.hosts or path is None:
        raise UsageError(f"cannot open '{url}': no account, database and container", hint=_FORM)
    if unknown := sorted(url.params.keys() - {"layout", *BACKEND.params}):
        raise UsageError(f"cannot read the URL '{url}': unknown parameter '{unknown[0]}'")
    if parts.user:
        raise UsageError(
            f"cannot open '{url}': an account has no users", hint=f"write :KEY@, or set {_KEY}"
        )
    has_tls = url.params.get("tls", "true") != "false"
    host = parts.hosts.partition(":")[0]
    if not has_tls and not is_local(host):
        warn_unencrypted(host, "leave out tls=false", f"data from '{host}' comes")
    logging.getLogger("azure").addHandler(logging.NullHandler())  # it would log to stderr
    with explained(url, "open"):
        client = CosmosClient(
            f"{'https' if has_tls else 'http'}://{parts.hosts}/",
            _credential(url, unquote(parts.password or "")),
            user_agent_suffix="ckpt",
            connection_timeout=5,
            read_timeout=30,
            # An account names its regions with https, which an emulator without TLS lacks.
            enable_endpoint_discovery=has_tls,
        )
        found = client.get_database_client(path[1]).get_container_client(path[2])
        properties = found.read()
        if (paths := properties["partitionKey"]["paths"]) != [_PARTITION]:
            raise UnknownLayout(
                f"no container of CosmosDBSaver in '{url}'",
                hint=f"its partition key is '{paths[0]}', not '{_PARTITION}'",
            )
    lifetime = properties.get("defaultTtl")
    return client, found, lifetime if isinstance(lifetime, int) else None


def _credential(url: StoreUrl, password: str) -> Any:
    if url.params.get("credential") == "default":
        try:
            from azure.identity import DefaultAzureCredential  # loads much, and few need it
        except ImportError:
            command = install_command("azure-identity")
            raise MissingDependency(
                "credential=default needs azure-identity", hint=command
            ) from None
        return DefaultAzureCredential()
    if key := password or os.environ.get(_KEY):
        try:
            b64decode(key, validate=True)
        except ValueError:
            hint = f"in a URL, write / as %2F, + as %2B and = as %3D; or set {_KEY}"
            raise UsageError(f"cannot open '{url}': the key is not base64", hint=hint) from None
        return key
    raise UsageError(
        f"cannot open '{url}': no key",
        hint=f"set {_KEY}, or add ?credential=default to sign in as azure-identity does",
    )


class CosmosItems(Objects):
    """The items of a container, each named by its path; see `records.place_of`."""

    own = "ckpt$"

    def __init__(self, url: StoreUrl) -> None:
        super().__init__(url)
        self._client, self.container, self.lifetime = _connected(url)

    def close(self) -> None:
        self._client.close()

    def select(self, query: str, *values: str, size: int = _LISTED) -> Iterator[Any]:
        """The answers to a query over all partitions; the values are @0, @1 and so on."""
        named: Any = [{"name": f"@v{at}", "value": one} for at, one in enumerate(values)]
        with explained(self.url):
            yield from self.container.query_items(
                query, parameters=named, enable_cross_partition_query=True, max_item_count=size
            )

    def name_of(self, path: str) -> Name | None:
        return name_of(path)

    def listed(
        self, where: str, *values: str, more: str = ""
    ) -> Iterator[tuple[Name, dict[str, Any]]]:
        """The checkpoints and writes that satisfy a condition, each with `more` of its fields."""
        query = f"SELECT c.id, c.partition_key{more} FROM c WHERE {where}"
        for one in self.select(query, *values):
            with explained(self.url):
                partition, own = one["partition_key"], one["id"]
                name = name_of(path_at(partition, own))
            if name is not None and place_of(name.path) == (partition, own):
                yield name, one

    def has_item(self, start: str) -> bool:
        """Whether there is an item whose id begins so, besides those of `ckpt`."""
        ids = self.select("SELECT TOP 20 VALUE c.id FROM c WHERE STARTSWITH(c.id, @v0)", start)
        return any(not str(one).startswith(self.own) for one in ids)

    def thread_ids(self, prefix: str = "") -> list[str]:
        found = self.listed(
            "STARTSWITH(c.id, @v0) OR STARTSWITH(c.id, @v1)",
            f"checkpoint${prefix}",
            f"writes${prefix}",
        )
        return sorted({name.key.thread_id for name, _ in found})

    def names(self, thread_id: str) -> Iterator[Name]:
        found = self.listed(
            "STARTSWITH(c.partition_key, @v0) OR STARTSWITH(c.partition_key, @v1)",
            f"checkpoint${thread_id}$",
            f"writes${thread_id}$",
            more=f", c.{PARENT}",
        )
        for name, one in found if "$" not in thread_id else ():
            parent = one.get(PARENT, "")
            yield name._replace(parent=parent) if isinstance(parent, str) else name

    def expiries(self, thread_id: str, checkpoint_ns: str) -> Iterator[tuple[Name, datetime]]:
        """When the items of a namespace expire, without those that do not."""
        start = f"{thread_id}${checkpoint_ns}$"
        found = self.listed(
            "c.partition_key = @v0 OR STARTSWITH(c.partition_key, @v1)",
            f"checkpoint${start}",
            f"writes${start}",
            more=", c._ts, c.ttl",
        )
        for name, one in found:
            with explained(self.url):
                if (seconds := one.get("ttl") or self.lifetime or 0) > 0:
                    yield name, datetime.fromtimestamp(one["_ts"] + seconds, UTC)

    def own_paths(self) -> Iterator[str]:
        return self.select("SELECT VALUE c.id FROM c WHERE c.partition_key = @v0", self.own)

    def items(self, paths: Iterable[str]) -> dict[str, dict[str, Any]]:
        """These items by their path, without those that are gone. There may be 100."""
        ids = [place_of(one)[1] for one in paths]
        names = ", ".join(f"@v{at}" for at in range(len(ids)))
        found = self.select(f"SELECT * FROM c WHERE c.id IN ({names})", *ids, size=100)
        return {path_at(one["partition_key"], one["id"]): one for one in found}

    def read(self, path: str) -> bytes | None:
        """The text that `ckpt` has stored in an item of its own."""
        partition, own = place_of(path)
        with explained(self.url):
            try:
                return str(self.container.read_item(own, partition)["text"]).encode()
            except CosmosResourceNotFoundError:
                return None

    def write(self, path: str, data: bytes) -> None:
        self.keep_lock()
        partition, own = place_of(path)
        item = {"partition_key": partition, "id": own, "text": data.decode()}
        with explained(self.url, "write to"):
            self.container.upsert_item(json.loads(data) if name_of(path) else item)

    def remove(self, paths: Iterable[str]) -> None:
        for some in in_chunks(paths, self.at_once):
            self.keep_lock()
            list(self.together(self._remove, some))

    def _remove(self, path: str) -> None:
        partition, own = place_of(path)
        with explained(self.url, "write to"):
            try:
                self.container.delete_item(own, partition)
            except CosmosResourceNotFoundError:
                return

    def lock_made(self, path: str) -> datetime | None:
        partition, own = place_of(path)
        with explained(self.url, "write to"):
            try:
                self.container.create_item({"partition_key": partition, "id": own, "text": ""})
            except CosmosResourceExistsError:
                try:
                    made = self.container.read_item(own, partition)["_ts"]
                except CosmosResourceNotFoundError:
                    return self.lock_made(path)
                return datetime.fromtimestamp(made, UTC)
        return None
