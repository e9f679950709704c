"""Finds the prefixes of the savers in a database, and pairs prefixes of checkpoints and writes.

langgraph-checkpoint-redis has two independent prefixes, one for checkpoints and one for writes. The
prefixes are read from the search indexes or, without the search module, from the keys. Two facts
pair them: the list of a checkpoint's writes (`write_keys_zset:...`, `write_registry:...`) contains
the keys of these writes, and each write names its checkpoint. Source: `checkpoints_schema` and
`writes_schema` in `base.py` of langgraph-checkpoint-redis 0.5.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.document_fields import (
    LISTS,
    USUAL,
    fields_of,
    meant_ns,
    stored_forms,
    stored_id,
    stored_ns,
)
from ckpt_backends.redis.engine.json_keys import REGISTRIES
from ckpt_backends.redis.engine.keyspace import DOCUMENT, literally, raw, text
from ckpt_backends.redis.engine.search_index import prefixes_of
from ckpt_backends.redis.official.declaration import SHALLOW

_KEY = ("$.thread_id", "$.checkpoint_ns", "$.checkpoint_id")
_SAMPLED = 20
OF_CHECKPOINT = {"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id"}
OF_WRITE = {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "channel"}
"""What the indexes of checkpoints and of writes have at least."""


@dataclass(slots=True)
class KnownPrefixes:
    """The prefixes in a database. The default prefixes are always included."""

    checkpoints: set[str] = field(default_factory=lambda: {USUAL.checkpoint})
    writes: set[str] = field(default_factory=lambda: {USUAL.write})

    @property
    def are_usual(self) -> bool:
        """Whether all savers use the default prefixes."""
        return self.checkpoints == {USUAL.checkpoint} and self.writes == {USUAL.write}


def known_prefixes(connection: RedisConnection) -> KnownPrefixes:
    """The prefixes of all savers, from the search indexes; without the module, from the keys."""
    known = KnownPrefixes()
    indexed = prefixes_of(connection)
    if indexed is None:
        _add_from_keys(connection, known)
        return known
    for prefix, tags in indexed:
        if tags >= OF_WRITE:
            known.writes.add(prefix)
        elif tags >= OF_CHECKPOINT:
            known.checkpoints.add(prefix)
    return known


def _add_from_keys(connection: RedisConnection, known: KnownPrefixes) -> None:
    """Add the prefixes found in the keys. Examines some keys of each different first part."""
    if connection.find("JSON.MGET", raw(USUAL.checkpoint), "$") is None:
        return  # the server has no JSON documents
    looked_at: Counter[bytes] = Counter()
    starts: tuple[bytes, ...] = (raw(f"{USUAL.checkpoint}:"), raw(f"{USUAL.write}:"))
    for names in connection.scan(b"*", DOCUMENT):
        for name in names:
            first = name.partition(b":")[0]
            if name.startswith(starts) or looked_at[first] >= _SAMPLED:
                continue
            looked_at[first] += 1
            fields = fields_of(connection.find("JSON.GET", name, *_KEY, "$.task_id", "$.idx"))
            match [fields.get(path) for path in (*_KEY, "$.task_id", "$.idx")]:
                case [str(thread), str(ns), str(own), str(task), int(idx)]:
                    found, ends = known.writes, [f":{thread}:{ns}:{own}:{task}:{idx}"]
                case [str(thread), str(ns), str(own), None, None]:
                    found = known.checkpoints
                    ends = [f":{thread}:{ns}:{own}", f":{thread}:{meant_ns(ns)}"]
                case _:
                    continue
            for end in map(raw, ends):
                if name.endswith(end):
                    found.add(text(name.removesuffix(end)))
                    starts = (*starts, name.removesuffix(end) + b":")
                    break


def pair(
    connection: RedisConnection,
    known: KnownPrefixes,
    stores: Mapping[tuple[str, str], Sequence[bytes]],
) -> dict[tuple[str, str], list[str]]:
    """By store, the prefix of its writes; several if that is ambiguous.

    A store is a layout and a prefix of checkpoints, with the keys of some of its checkpoints.
    """
    writes = {one: list(_sample(connection, one)) for one in sorted(known.writes)}
    there = [one for one, some in writes.items() if some]
    found: dict[tuple[str, str], list[str]] = {}
    for store, names in stores.items():
        listed = sorted(listed_prefixes(connection, store[0], names))
        found[store] = listed or [
            one for one in there if _name_a_checkpoint(connection, store[1], writes[one])
        ]
    sure = {one[0] for one in found.values() if len(one) == 1}
    for (layout, prefix), some in found.items():
        if not some:
            usual = USUAL.write if prefix == USUAL.checkpoint else f"{prefix}_write"
            left = [one for one in there if one not in sure]
            # If no writes are left, the guess does no harm.
            found[layout, prefix] = [usual] if usual in left or not left else left
    return found


def listed_prefixes(connection: RedisConnection, layout: str, names: Sequence[bytes]) -> set[str]:
    """The prefixes of the writes in the lists of these checkpoints."""
    answers = connection.ask_all([("JSON.GET", name, *_KEY) for name in names])
    lists: list[tuple[bytes, str]] = []
    for fields in map(fields_of, answers):
        match [fields.get(path) for path in _KEY]:
            case [str(thread), str(ns), str(own)]:
                for space in stored_forms(ns):
                    place = f"{thread}:{space}"
                    name = (
                        f"{REGISTRIES}:{place}:shallow"
                        if layout == SHALLOW
                        else f"{LISTS}:{place}:{own}"
                    )
                    # A shallow saver's list has writes of all checkpoints and all prefixes.
                    lists.append((raw(name), f":{thread}:{stored_ns(ns)}:{own}:"))
    members = connection.ask_all([("ZRANGE", name, 0, -1) for name, _ in lists])
    return {
        text(member).partition(at)[0]
        for (_, at), some in zip(lists, members, strict=True)
        for member in some or ()
        if at in text(member)
    }


def _sample(connection: RedisConnection, prefix: str) -> Iterator[tuple[str, str, str]]:
    """Thread, namespace and checkpoint of some writes."""
    names = next(iter(connection.scan(literally(f"{prefix}:") + b"*", DOCUMENT)), [])
    some = names[:: len(names) // _SAMPLED + 1]
    paths = (*_KEY, "$.task_id")
    # The user may have access to the keys of one store only.
    with suppress(StoreUnavailable):
        for fields in map(
            fields_of, connection.ask_all([("JSON.GET", one, *paths) for one in some])
        ):
            match [fields.get(path) for path in paths]:
                case [str(thread), str(ns), str(own), str()]:
                    yield thread, ns, own


def _name_a_checkpoint(
    connection: RedisConnection, prefix: str, writes: Sequence[tuple[str, str, str]]
) -> bool:
    """Whether one of the writes belongs to a checkpoint with this prefix."""
    wanted = []
    for thread, ns, own in writes:
        start = f"{prefix}:{stored_id(thread)}"
        wanted += [(raw(f"{start}:{stored_ns(ns)}:{own}"), own)]
        wanted += [(raw(f"{start}:{meant_ns(ns)}"), own)]  # the key of a shallow saver
    answers = connection.ask_all([("JSON.GET", name, *_KEY) for name, _ in wanted])
    return any(
        fields_of(answer).get("$.checkpoint_id") == own
        for answer, (_, own) in zip(answers, wanted, strict=True)
    )
