"""Adds threads of other stores, each whole or not at all.

A small thread is added in one transaction. A large one cannot: the server ends a connection whose
transaction has more bytes than `client-query-buffer-limit`, which is 1 GB. Its documents are first
created under names that no saver reads, and expire after a day. Then one transaction gives them
their own names, and adds them to lists and pointers. What an interrupted run left is overwritten by
the next one, or expires.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from redis import exceptions

from ckpt_backends.changes import Change, moved
from ckpt_backends.errors import PartlyDone
from ckpt_backends.model import TypedBytes
from ckpt_backends.redis.engine.connection import Command, RedisConnection
from ckpt_backends.redis.engine.keyspace import text
from ckpt_backends.redis.engine.layout import NewDocument, Reception
from ckpt_backends.transfer.form import CannotHold, NoEqualForm

# Finds JSON texts that RedisJSON would refuse or change, and spells numbers as it needs them.


_FLOAT = re.compile(rb"[:,\[]\s?-?(?:[0-9.]{15,}|[0-9.]+[eE])")
"""Found before each number that RedisJSON might not read exactly."""
_DEEPEST = 127
_LARGE = re.compile(rb"\d{19}")
_SURROGATES = (b"\\ud", b"\\uD", b"\xed")
"""The beginnings of surrogates, and of some other characters."""
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


def check_json(data: bytes, name: bytes) -> None:
    """Raise `CannotHold` if RedisJSON cannot hold a document as it is.

    It refuses more than 127 levels and lone surrogates, and makes floats of integers that do not
    fit into 64 bits. (RedisJSON 2.8)
    """
    if data.count(b"[") + data.count(b"{") > _DEEPEST and _depth(data) > _DEEPEST:
        raise CannotHold(f"'{text(name)}' would have more than {_DEEPEST} levels")
    if _LARGE.search(data):
        json.loads(data, parse_int=lambda digits: _check_integer(digits, name))
    if any(one in data for one in _SURROGATES):
        try:
            _as_text(data).encode()
        except UnicodeEncodeError:
            raise CannotHold(f"'{text(name)}' would have a lone surrogate") from None


def exact_json(value: TypedBytes, where: str) -> TypedBytes:
    """The same JSON, spelled so that RedisJSON reads its numbers exactly. Raises `CannotHold`."""
    if not _FLOAT.search(b"," + value.data):
        return value
    from ckpt_backends.transfer.values import exact_floats

    try:
        spelled = exact_floats(value.data.decode("utf-8", "surrogatepass"))
    except NoEqualForm as problem:
        raise CannotHold(f"{where} {problem}") from None
    return value._replace(data=spelled.encode("utf-8", "surrogatepass"))


def _as_text(data: bytes) -> str:
    found = json.loads(data.decode("utf-8", "surrogatepass"))
    return json.dumps(found, ensure_ascii=False)


def _check_integer(digits: str, name: bytes) -> int:
    found = int(digits)
    if not _LEAST <= found <= _MOST:
        raise CannotHold(f"'{text(name)}' would have an integer of more than 64 bits")
    return found


_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(rb"[\[\]{}]")


def _depth(data: bytes) -> int:
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", data)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


_AT_ONCE = 4 << 20
"""Bytes of documents that are sent together; a thread with more is not added directly."""
_NAMES_AT_ONCE = 1000
STAGED = b"ckpt-copy:"
"""The beginning of the names of documents that do not yet have their own. It keeps the slot."""
_A_DAY = 86_400_000


class ListOfWrites:
    """The members of the list of a checkpoint's writes."""

    def __init__(self) -> None:
        self._members: list[tuple[float, bytes]] = []
        self._expires_at: int | None = 0

    def __len__(self) -> int:
        return len(self._members)

    def add(self, name: bytes, score: float, expires_at: int | None) -> None:
        """Add the key of a write. The list expires with the last of them, if all expire."""
        self._members.append((score, name))
        if self._expires_at is not None:
            self._expires_at = None if expires_at is None else max(self._expires_at, expires_at)

    def commands(self, listed: bytes) -> Iterator[Command]:
        """Commands that add the members to the list with this key."""
        for start in range(0, len(self._members), _NAMES_AT_ONCE):
            some = self._members[start : start + _NAMES_AT_ONCE]
            yield ("ZADD", listed, *(one for pair in some for one in (repr(pair[0]), pair[1])))
        yield from expiring_at(listed, self._expires_at)


def receive_thread(connection: RedisConnection, reception: Reception) -> None:
    """Add one thread. Raises `StoreChanged`, `CannotHold`, and the driver's errors."""
    made: list[NewDocument] = []
    staged: list[tuple[bytes, int | None]] = []
    size = 0
    for one in _documents(reception):
        if not one.is_string:
            check_json(one.data, one.name)
        made.append(one)
        size += len(one.data)
        if size > _AT_ONCE:
            staged += _stage(connection, made)
            made, size = [], 0
    if staged:
        staged += _stage(connection, made)
        names = [name for name, _ in staged]
        _finish(connection, reception, names, lambda: _renaming(staged))
    else:
        _finish(connection, reception, [one.name for one in made], lambda: _creating(made))


def _documents(reception: Reception) -> Iterator[NewDocument]:
    for part in reception.arrival.parts:
        yield from reception.documents(part)
    yield from reception.rest()


def _stage(
    connection: RedisConnection, some: Sequence[NewDocument]
) -> list[tuple[bytes, int | None]]:
    """Create documents under other names. Return their own names, and when they expire."""
    if not some:
        return []
    connection.check_together(one.name for one in some)
    with connection.client_of(some[0].name).pipeline(transaction=False) as pipe:
        for one in some:
            pipe.execute_command(*one.command(STAGED))
            pipe.execute_command("PEXPIRE", STAGED + one.name, _A_DAY)
        pipe.execute()
    return [(one.name, one.expires_at) for one in some]


def _renaming(staged: Iterable[tuple[bytes, int | None]]) -> Iterator[Command]:
    for name, expires_at in staged:
        yield ("RENAMENX", STAGED + name, name)
        yield ("PERSIST", name) if expires_at is None else ("PEXPIREAT", name, expires_at)


def _creating(made: Iterable[NewDocument]) -> Iterator[Command]:
    for one in made:
        yield one.command(b"", "NX")
        yield from expiring_at(one.name, one.expires_at)


def expiring_at(name: bytes, expires_at: int | None) -> Iterator[Command]:
    """Let a key expire at a time in milliseconds since 1970, if one is given."""
    if expires_at is not None:
        yield ("PEXPIREAT", name, expires_at)


def _finish(
    connection: RedisConnection,
    reception: Reception,
    names: Sequence[bytes],
    commands: Callable[[], Iterator[Command]],
) -> None:
    """Make the thread visible in one transaction. `commands` give the documents these names."""
    arrival = reception.arrival
    change = Change(arrival.thread_id, arrival.heads)
    watched = reception.watched()
    connection.check_together([*watched, *names])
    try:
        with connection.transaction(watched or names[:1]) as pipe:
            if watched:
                pipe.watch(*watched)
            there = any(
                connection.number_of(names[start : start + _NAMES_AT_ONCE])
                for start in range(0, len(names), _NAMES_AT_ONCE)
            )
            if there or reception.heads() != dict(arrival.heads):
                raise moved(change.thread_id)
            last = list(reception.last())
            pipe.multi()
            for command in (*commands(), *last):
                pipe.execute_command(*command)
            answers = pipe.execute(raise_on_error=False)
    except exceptions.WatchError:
        raise moved(change.thread_id) from None
    failed = [one for one in answers if isinstance(one, Exception)]
    if failed:
        raise PartlyDone(
            f"the server refused a part of thread '{arrival.thread_id}': {failed[0]}",
            hint="Redis does not roll back a transaction; copy the thread again with --replace",
        )
