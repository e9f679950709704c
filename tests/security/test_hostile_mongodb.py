"""Servers that speak MongoDB's protocol for a while, and then lie, stop or fall silent."""

from __future__ import annotations

import itertools
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import bson
import pymongo
import pytest
from langgraph.checkpoint.mongodb import MongoDBSaver

from tests.kit.agents.steps import talk
from tests.kit.command import CommandResult, first_now, later
from tests.kit.hostile.opmsg import (
    COMPRESSED,
    HELLO,
    Request,
    Said,
    between,
    cursor,
    hello,
    honest,
    serving,
)
from tests.kit.hostile.standin import standin
from tests.kit.hostile.watched import check, here

SHORT = "serverSelectionTimeoutMS=800&connectTimeoutMS=800&socketTimeoutMS=800"
COMMANDS = [
    ["threads", "list", "--long"],
    ["show", "--long", "trip"],
    ["show", "trip", "--writes", "--metadata"],
    ["history", "trip"],
    ["stores"],
    ["du"],
    ["grep", "from"],
    ["interrupts"],
    ["memory", "list"],
    ["rollback", "trip", "~1", "--yes"],
    ["threads", "delete", "trip", "--yes"],
]
Wrong = Callable[[Request], Said]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the driver wait 50 ms after an error before it asks the server again, not 500."""
    monkeypatch.setattr("pymongo.common.MIN_HEARTBEAT_INTERVAL", 0.05)


def _wrapped(levels: int) -> bytes:
    """A document in a document, that many times."""
    sizes = range(5 + 8 * levels, 5, -8)
    start = b"".join(struct.pack("<i", size) + b"\x03a\0" for size in sizes)
    return start + b"\x05\0\0\0\0" + b"\0" * levels


def _compressed(request: Request, size: int, declared: int) -> bytes:
    body = struct.pack("<iiB", 2013, declared, 2) + zlib.compress(bytes(size), 9)
    return struct.pack("<iiii", 16 + len(body), 1, request.number, COMPRESSED) + body


WRONG: dict[str, Wrong] = {
    "closed": lambda _: None,
    "nothing": lambda _: {"ok": 1},
    "no ok": lambda _: {"a": 1},
    "ok of another type": lambda _: {"ok": "yes", "cursor": 7},
    "an error": lambda _: {"ok": 0, "code": 13, "errmsg": "\x1b[31mno", "codeName": "\x1b]0;t\x07"},
    "an error without code": lambda _: {"ok": 0},
    "an error of other types": lambda _: {"ok": 0, "code": "x", "errmsg": [7], "codeName": {}},
    "an error with odd labels": lambda _: {"ok": 0, "code": 8, "errorLabels": 7},
    "no cursor": lambda _: {"ok": 1, "cursor": None},
    "a cursor of another type": lambda _: {"ok": 1, "cursor": [1, 2]},
    "a cursor without parts": lambda _: {"ok": 1, "cursor": {}},
    "a batch of another type": lambda _: cursor(7),
    "a batch of null": lambda _: cursor(None),
    "numbers as documents": lambda _: cursor([1, 2, 3]),
    "texts as documents": lambda _: cursor(["\x1b[2J", "b"]),
    "empty documents": lambda _: cursor([{}, {}, {}]),
    "documents of other fields": lambda _: cursor([{"_id": {"$ref": 7}, "number": "x"}]),
    "names of other types": lambda _: cursor([{"name": 7, "key": 8, "options": 9}]),
    "names with control characters": lambda _: cursor([{"name": "\x1b[2J", "options": {}}]),
    "heads of other types": lambda _: cursor([{"_id": [], "head": {}, "newest": 7, "oldest": []}]),
    "a cursor's number of another type": lambda _: cursor([{}], "seven"),
    "a cursor's negative number": lambda _: cursor([{}], bson.Int64(-1)),
    "a deep document": lambda asked: asked.packed(_wrapped(100_000)),
    "not BSON": lambda asked: asked.packed(b"\xff" * 40),
    "a document that is too long": lambda asked: asked.packed(b"\xff\xff\xff\x7f\0"),
    "a document of negative length": lambda asked: asked.packed(b"\xff\xff\xff\xff\0"),
    "a text that is too long": lambda asked: asked.packed(
        b"\x11\0\0\0\x02ok\0\xff\xff\xff\x7fa\0\0\0\0"
    ),
    "a document not in UTF-8": lambda asked: asked.packed(
        b"\x10\0\0\0\x02ok\0\x03\0\0\0\xff\xfe\0\0"
    ),
    "a length of 0": lambda asked: asked.packed({"ok": 1}, length=0),
    "a negative length": lambda asked: asked.packed({"ok": 1}, length=-1),
    "a huge length": lambda asked: asked.packed({"ok": 1}, length=2**31 - 1),
    "a short length": lambda asked: asked.packed({"ok": 1}, length=17),
    "another opcode": lambda asked: asked.packed({"ok": 1}, code=7),
    "another number": lambda asked: Request(asked.number + 1, asked.opcode, {}).packed({"ok": 1}),
    "HTTP": lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4,
    "compressed": lambda asked: _compressed(asked, 60_000_000, 1000),
    "compressed too far": lambda asked: _compressed(asked, 1000, 2**31 - 1),
}


def pretending(reply: Callable[[Request], Said], *words: str) -> CommandResult:
    """What `ckpt` says of a server that answers as `reply` says."""
    with standin(serving(reply)) as found:
        url = f"mongodb://127.0.0.1:{found}/agents?{SHORT}"
        answer = here("-s", url, *(words or ("threads", "list")))
    check(answer)
    return answer


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("name", first_now(["aggregate", "listCollections", "listIndexes"]))
def test_a_wrong_answer_is_an_error(name: str, kind: str) -> None:
    pretending(lambda asked: WRONG[kind](asked) if asked.name == name else honest(asked))


@pytest.mark.parametrize(
    "claimed",
    [
        {"maxMessageSizeBytes": 2**31 - 1, "maxBsonObjectSize": 2**31 - 1},
        {"maxMessageSizeBytes": "\x1b[2J"},
        {"setName": "x", "hosts": ["evil:99999999"], "primary": "evil:1", "me": "\x1b[2J"},
        {"topologyVersion": {"processId": bson.ObjectId("0" * 24), "counter": "x"}},
        {"ok": {}},
        *later(
            {"maxMessageSizeBytes": -5},
            {"maxBsonObjectSize": []},
            {"maxWireVersion": 2**31 - 1, "minWireVersion": 2**31 - 1},
            {"maxWireVersion": "25"},
            {"maxWireVersion": -1},
            {"setName": 7, "hosts": [1, 2]},
            {"setName": "x", "hosts": "\x1b[2J:1"},
            {"msg": "isdbgrid"},
            {"msg": ["isdbgrid"]},
            {"logicalSessionTimeoutMinutes": "x"},
            {"topologyVersion": 7},
            {"$clusterTime": 7},
            {"compression": 7},
            {"saslSupportedMechs": 7},
            {"speculativeAuthenticate": 7},
            {"lastWrite": 7},
            {"tags": 7},
            {"ok": 0},
            {"isWritablePrimary": "x", "ismaster": "x"},
        ),
    ],
    ids=str,
)
def test_a_server_that_lies_about_itself(claimed: dict[str, Any]) -> None:
    pretending(lambda asked: hello(**claimed) if asked.name in HELLO else honest(asked))


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRONG)
def test_the_first_answer_is_wrong(kind: str) -> None:
    answer = pretending(WRONG[kind])
    assert answer.code == 4


@pytest.mark.parametrize("rounds", [b"99999999999", b"x", b"-1"])
def test_a_login_of_another_form(rounds: bytes) -> None:
    def reply(asked: Request) -> Said:
        if asked.name != "saslStart":
            return honest(asked)
        nonce = bytes(asked.document["payload"]).rpartition(b"r=")[2]
        payload = b"r=" + nonce + b"x,s=c2FsdA==,i=" + rounds
        return {"ok": 1, "conversationId": 1, "done": False, "payload": payload}

    with standin(serving(reply)) as found:
        url = f"mongodb://me:hunter2@127.0.0.1:{found}/agents?{SHORT}"
        answer = here("-s", url, "threads", "list")
    check(answer)
    assert answer.code == 4
    assert "hunter2" not in answer.err


@pytest.mark.parametrize("name", first_now(["aggregate", "listCollections"]))
def test_a_server_that_falls_silent(name: str) -> None:
    def reply(asked: Request) -> Said:
        if asked.name != name:
            return honest(asked)
        whole = asked.packed({"ok": 1})
        return struct.pack("<i", len(whole) + 10) + whole[4:]

    answer = pretending(reply)
    assert (answer.code, "the server does not answer" in answer.err) == (4, True), answer.err


@pytest.mark.parametrize("name", first_now(["listCollections", "listIndexes"]))
def test_lists_that_never_end(name: str) -> None:
    batch = [{"name": f"c{number}", "key": {}, "options": {}} for number in range(5000)]

    def reply(asked: Request) -> Said:
        if asked.name == name:
            return cursor(batch, bson.Int64(7))
        if asked.name == "getMore":
            return {"ok": 1, "cursor": {"id": bson.Int64(7), "ns": "a.b", "nextBatch": batch}}
        return honest(asked)

    answer = pretending(reply)
    assert answer.code == 4
    assert "the server lists more than 100000 of a kind" in answer.err


@pytest.fixture
def trip(mongodb_url: str) -> int:
    """The port of a server with a thread."""
    with pymongo.MongoClient[Any](mongodb_url) as client:
        talk(MongoDBSaver(client, "agents"), "trip")
    return urlsplit(mongodb_url).port or 0


@contextmanager
def tampering(port: int, change: Callable[[int, Request], Said]) -> Iterator[str]:
    """The URL of a server with other answers; `change` gets their number and the request."""
    numbers = itertools.count()

    def counted(asked: Request) -> Said:
        return {} if asked.name in HELLO else change(next(numbers), asked)

    with standin(between(port, counted)) as found:
        yield (
            f"mongodb://127.0.0.1:{found}/agents?{SHORT}&directConnection=true"
            "&serverMonitoringMode=poll"
        )


def at(wanted: int, wrong: Wrong) -> Callable[[int, Request], Said]:
    return lambda number, asked: wrong(asked) if number == wanted else {}


def after(first: int) -> Callable[[int, Request], Said]:
    return lambda number, _: {} if number < first else None


@pytest.mark.engines
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_server_that_closes_early(trip: int, words: list[str]) -> None:
    for first in (0, 1, 2, 4, 7):
        with tampering(trip, after(first)) as url:
            check(here("-s", url, *words))


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS[:-2], ids=" ".join)
def test_one_wrong_answer_at_any_time(trip: int, words: list[str]) -> None:
    total = [0]

    def count(number: int, _: Request) -> Said:
        total[0] = number + 1
        return {}

    with tampering(trip, count) as url:
        check(here("-s", url, *words))
    chance = random.Random(" ".join(words))
    for kind in chance.sample(sorted(WRONG), 15):
        with tampering(trip, at(chance.randrange(total[0]), WRONG[kind])) as url:
            check(here("-s", url, *words))


SECRET = "hunter2-canary"


@pytest.mark.parametrize("mechanism", ["PLAIN", "MONGODB-OIDC", "MONGODB-AWS"])
@pytest.mark.parametrize(
    "query",
    [
        "",
        "&tls=false",
        "&tls=true&tlsInsecure=true",
        "&tls=true&tlsAllowInvalidCertificates=true",
        "&tls=true&tlsAllowInvalidHostnames=true",
        "&tls=false&ssl=true",
    ],
)
def test_a_secret_is_not_sent_without_verified_tls(mechanism: str, query: str) -> None:
    asked: list[str] = []

    def reply(request: Request) -> Said:
        asked.append(request.name)
        return honest(request)

    with standin(serving(reply)) as found:
        url = f"mongodb://me:{SECRET}@127.0.0.1:{found}/agents?authMechanism={mechanism}{query}"
        answer = here("-s", url, "threads", "list")
    check(answer)
    assert answer.code == 5
    assert f"{mechanism} sends " in answer.err
    assert asked == []
    assert SECRET not in answer.err
