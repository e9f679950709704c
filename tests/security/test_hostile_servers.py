"""Servers that speak the protocol of Redis or MongoDB for a while, and then lie, stop or fall
silent.
"""

import itertools
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import bson
import pymongo
import pytest
from bson import Int64
from langgraph.checkpoint.mongodb import MongoDBSaver

from ckpt_backends.testing.chance import Chance
from tests.kit.agents.steps import talk
from tests.kit.cases import cases
from tests.kit.command import CommandResult, first_now, later
from tests.kit.hostile import mongodb, redis
from tests.kit.hostile.commands import ON_SERVER
from tests.kit.hostile.mongodb import COMPRESSED, HELLO, Request, cursor, hello
from tests.kit.hostile.redis import array, bulk
from tests.kit.hostile.standin import standin
from tests.kit.hostile.watched import check, here
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis_threads import fill, fill_plain
from tests.kit.servers import Server, mongodb_database

REDIS = "socket_timeout=0.5&connect_timeout=1"
MONGODB = "serverSelectionTimeoutMS=800&connectTimeoutMS=800&socketTimeoutMS=800"
Reply: TypeAlias = Callable[[Any], Any]
"""What to answer to a command of Redis, or to a request of MongoDB; None closes the connection."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let MongoDB's driver wait 50 ms after an error before it asks the server again, not 500."""
    monkeypatch.setattr("pymongo.common.MIN_HEARTBEAT_INTERVAL", 0.05)


ENGINES = {"redis": redis, "mongodb": mongodb}


def asked(url: str, *words: str) -> CommandResult:
    return check(here("-s", url, *(words or ("threads", "list"))))


def url_at(engine: str, port: int) -> str:
    path = f"0?{REDIS}" if engine == "redis" else f"agents?{MONGODB}"
    return f"{engine}://127.0.0.1:{port}/{path}"


def pretending(engine: str, reply: Reply, *words: str) -> CommandResult:
    """What `ckpt` says of a server that answers as `reply` says."""
    with standin(ENGINES[engine].serving(reply)) as port:
        return asked(url_at(engine, port), *words)


def name_of(request: Any) -> str:
    return request.name if isinstance(request, Request) else request[0].decode()


def told(wrong: Any, request: Any) -> Any:
    """A wrong answer to a request; some depend on it."""
    return wrong(request) if callable(wrong) else wrong


WRONG_REDIS: dict[str, Any] = {
    "closed": None,
    "a huge number": b":99999999999999999999999\r\n",
    "a word": b"+OK\r\n",
    "nothing": b"$-1\r\n",
    "an empty array": b"*0\r\n",
    "texts": array(bulk(b"a"), bulk(b"b")),
    "a negative length": b"$-5\r\n",
    "a length without end": b"$999999999999\r\n",
    "an array without end": b"*1000000000\r\n",
    "an error in an array": b"*3\r\n:1\r\n-ERR inside\r\n$2\r\nhi\r\n",
    "nested arrays": b"*1\r\n" * 100_000,
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "escape sequences": b"-ERR \x1b[31mred\x1b]0;t\x07\xc2\x9b31m\xe2\x80\xae\r\n",
    "a long error": b"-ERR " + b"x" * 60_000 + b"\r\n",
    "a redirection": b"-MOVED 1 127.0.0.1:1\r\n",
    "loading": b"-LOADING x\r\n",
    "no permission": b"-NOPERM x\r\n",
    "a cursor and words": array(bulk(b"0"), array(bulk(b"x"), b":1\r\n")),
    "nested JSON": bulk(b"[" * 100_000),
    "JSON of a number": bulk(b"7"),
    "not UTF-8": bulk(b"\xff\xfe\x1b[2J"),
}


def wrapped(levels: int) -> bytes:
    """A document in a document, that many times."""
    sizes = range(5 + 8 * levels, 5, -8)
    start = b"".join(struct.pack("<i", size) + b"\x03a\0" for size in sizes)
    return start + b"\x05\0\0\0\0" + b"\0" * levels


def compressed(size: int, declared: int) -> Reply:
    def reply(asked: Request) -> bytes:
        body = struct.pack("<iiB", 2013, declared, 2) + zlib.compress(bytes(size), 9)
        return struct.pack("<iiii", 16 + len(body), 1, asked.number, COMPRESSED) + body

    return reply


def packed(said: Any, **header: int) -> Reply:
    return lambda asked: asked.packed(said, **header)


WRONG_MONGODB: dict[str, Any] = {
    "closed": None,
    "nothing": {"ok": 1},
    "an error": {"ok": 0, "code": 13, "errmsg": "\x1b[31mno", "codeName": "\x1b]0;t\x07"},
    "an error of other types": {"ok": 0, "code": "x", "errmsg": [7], "codeName": {}},
    "a cursor of another type": {"ok": 1, "cursor": [1, 2]},
    "a cursor without parts": {"ok": 1, "cursor": {}},
    "a batch of null": cursor(None),
    "numbers as documents": cursor([1, 2, 3]),
    "documents of other fields": cursor([{"_id": {"$ref": 7}, "number": "x"}]),
    "names of other types": cursor([{"name": 7, "key": 8, "options": 9}]),
    "names with control characters": cursor([{"name": "\x1b[2J", "options": {}}]),
    "heads of other types": cursor([{"_id": [], "head": {}, "newest": 7, "oldest": []}]),
    "a cursor's negative number": cursor([{}], Int64(-1)),
    "a deep document": packed(wrapped(100_000)),
    "not BSON": packed(b"\xff" * 40),
    "a document that is too long": packed(b"\xff\xff\xff\x7f\0"),
    "a document not in UTF-8": packed(b"\x10\0\0\0\x02ok\0\x03\0\0\0\xff\xfe\0\0"),
    "a huge length": packed({"ok": 1}, length=2**31 - 1),
    "another opcode": packed({"ok": 1}, code=7),
    "another number": lambda asked: Request(asked.number + 1, asked.opcode, {}).packed({"ok": 1}),
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4,
    "compressed too far": compressed(1000, 2**31 - 1),
}

WRONG = {"redis": WRONG_REDIS, "mongodb": WRONG_MONGODB}


@pytest.mark.parametrize(
    ("engine", "name", "kind"),
    [
        pytest.param(engine, name, kind, marks=() if place == 0 else pytest.mark.engines)
        for engine, names in {
            "redis": ["SCAN", "PING", "INFO"],
            "mongodb": ["aggregate", "listCollections", "listIndexes"],
        }.items()
        for place, name in enumerate(names)
        for kind in WRONG[engine]
    ],
)
def test_a_wrong_answer_is_an_error(engine: str, name: str, kind: str) -> None:
    server, wrong = ENGINES[engine], WRONG[engine][kind]
    pretending(engine, lambda one: told(wrong, one) if name_of(one) == name else server.honest(one))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", WRONG_MONGODB)
def test_the_first_answer_is_wrong(kind: str) -> None:
    assert pretending("mongodb", lambda request: told(WRONG_MONGODB[kind], request)).code == 4


def test_the_error_says_what_is_wrong() -> None:
    answer = pretending("redis", lambda _: WRONG_REDIS["HTTP"])
    assert answer.code == 4
    assert "the server does not speak Redis's protocol" in answer.err


NODE = array(bulk(b"127.0.0.1"), b":1\r\n", bulk(b"id"))


def slots(first: bytes, last: bytes, *nodes: bytes) -> bytes:
    """The answer to CLUSTER SLOTS."""
    return array(array(first, last, *nodes))


def slots_at(host: bytes, port: bytes) -> bytes:
    return slots(b":0\r\n", b":9\r\n", array(bulk(host), port, bulk(b"id")))


SLOTS: dict[str, bytes] = {
    **{name: WRONG_REDIS[name] for name in ("a redirection", "an empty array", "HTTP")},
    "slots without end": slots(b":0\r\n", b":999999999999\r\n", NODE),
    "texts as slots": slots(bulk(b"0"), bulk(b"9"), NODE),
    "no server": slots(b":0\r\n", b":16383\r\n"),
    "a port without number": slots_at(b"x", bulk(b"\x1b[2J")),
    "a host that is no name": slots_at(b"\xff\x00\x1b[2J", b":1\r\n"),
    "a long host": slots_at(b"x" * 5000, b":1\r\n"),
}


@pytest.mark.parametrize("kind", SLOTS)
def test_a_cluster_that_lies_about_its_servers(kind: str) -> None:
    said = {b"CLUSTER": SLOTS[kind], b"INFO": bulk(b"cluster_enabled:1\r\n")}
    assert pretending("redis", lambda one: said.get(one[0], redis.honest(one))).code == 4


@cases(
    "claimed",
    {"maxMessageSizeBytes": 2**31 - 1, "maxBsonObjectSize": 2**31 - 1},
    {"maxMessageSizeBytes": "\x1b[2J"},
    {"setName": "x", "hosts": ["evil:99999999"], "primary": "evil:1", "me": "\x1b[2J"},
    {"topologyVersion": {"processId": bson.ObjectId("0" * 24), "counter": "x"}},
    {"ok": {}},
    *later(
        *({"maxWireVersion": one} for one in ("25", -1)),
        {"setName": 7, "hosts": [1, 2]},
        {"msg": "isdbgrid"},
        *({one: 7} for one in ("logicalSessionTimeoutMinutes", "$clusterTime", "lastWrite")),
    ),
    ids=str,
)
def test_a_server_that_lies_about_itself(claimed: dict[str, Any]) -> None:
    pretending(
        "mongodb", lambda one: hello(**claimed) if one.name in HELLO else mongodb.honest(one)
    )


@cases(
    "engine name",
    ("redis", "SCAN"),
    pytest.param("mongodb", "aggregate", marks=pytest.mark.engines),
)
def test_a_server_that_falls_silent(engine: str, name: str) -> None:
    server = ENGINES[engine]

    def reply(request: Any) -> Any:
        if name_of(request) != name:
            return server.honest(request)
        if engine == "redis":
            return b"$900\r\n1"
        whole = request.packed({"ok": 1})
        return struct.pack("<i", len(whole) + 10) + whole[4:]

    answer = pretending(engine, reply)
    assert (answer.code, "the server does not answer" in answer.err) == (4, True), answer.err


@pytest.mark.parametrize("name", first_now(["listCollections", "listIndexes"]))
def test_lists_that_never_end(name: str) -> None:
    batch = [{"name": f"c{number}", "key": {}, "options": {}} for number in range(5000)]
    answers = {
        name: cursor(batch, Int64(7)),
        "getMore": {"ok": 1, "cursor": {"id": Int64(7), "ns": "a.b", "nextBatch": batch}},
    }
    answer = pretending("mongodb", lambda one: answers.get(one.name) or mongodb.honest(one))
    assert answer.code == 4
    assert "the server lists more than 100000 of a kind" in answer.err


@pytest.mark.parametrize("cursors", [b"7", b"78"])
def test_a_cursor_that_never_ends(cursors: bytes) -> None:
    turn = itertools.cycle(cursors)

    def reply(command: list[bytes]) -> bytes:
        if command[0] != b"SCAN":
            return redis.honest(command)
        return array(bulk(bytes([next(turn)])), array(bulk(b"checkpoint$a$$b")))

    answer = pretending("redis", reply)
    assert answer.code == 4
    assert "the server repeats a cursor" in answer.err


SECRET = "hunter2-canary"


@pytest.mark.parametrize("rounds", [b"99999999999", b"x"])
def test_a_login_of_another_form(rounds: bytes) -> None:
    def reply(request: Request) -> Any:
        if request.name != "saslStart":
            return mongodb.honest(request)
        nonce = bytes(request.document["payload"]).rpartition(b"r=")[2]
        payload = b"r=" + nonce + b"x,s=c2FsdA==,i=" + rounds
        return {"ok": 1, "conversationId": 1, "done": False, "payload": payload}

    with standin(mongodb.serving(reply)) as port:
        answer = asked(f"mongodb://me:{SECRET}@127.0.0.1:{port}/agents?{MONGODB}")
    assert answer.code == 4
    assert SECRET not in answer.err


@pytest.mark.parametrize("mechanism", ["PLAIN", "MONGODB-OIDC", "MONGODB-AWS"])
@pytest.mark.parametrize("query", ["", "&tls=true&tlsInsecure=true", "&tls=false&ssl=true"])
def test_a_secret_is_not_sent_without_verified_tls(mechanism: str, query: str) -> None:
    requests: list[str] = []

    def reply(request: Request) -> Any:
        requests.append(request.name)
        return mongodb.honest(request)

    with standin(mongodb.serving(reply)) as port:
        url = f"mongodb://me:{SECRET}@127.0.0.1:{port}/agents?authMechanism={mechanism}{query}"
        answer = asked(url)
    assert answer.code == 5
    assert f"{mechanism} sends " in answer.err
    assert requests == []
    assert SECRET not in answer.err


LAYOUTS = ["redis", "redis-hash", "mongodb"]


@pytest.fixture(scope="module")
def ports(mongodb_server: Server) -> Iterator[dict[str, int]]:
    """By layout, the port of a server with the thread `trip`."""
    with (
        redis_of_its_own(modules=True) as stack,
        redis_of_its_own(modules=False) as plain,
        mongodb_database(mongodb_server) as documents,
    ):
        fill(stack.url, "trip")
        fill_plain(plain.url, "trip")
        with pymongo.MongoClient[Any](documents) as client:
            talk(MongoDBSaver(client, "agents"), "trip")
        urls = (stack.url, plain.url, documents)
        yield {name: urlsplit(url).port or 0 for name, url in zip(LAYOUTS, urls, strict=True)}


Change: TypeAlias = Callable[[int, Any, bytes], Any]


@contextmanager
def tampering(ports: dict[str, int], layout: str, change: Change) -> Iterator[str]:
    """The URL of a server with other answers; `change` gets their number, request and bytes."""
    engine = "mongodb" if layout == "mongodb" else "redis"
    numbers = itertools.count()

    def counted(request: Any, said: bytes) -> Any:
        if name_of(request) in HELLO:
            return said
        return change(next(numbers), request, said)

    with standin(ENGINES[engine].between(ports[layout], counted)) as port:
        more = "&directConnection=true&serverMonitoringMode=poll" if engine == "mongodb" else ""
        yield url_at(engine, port) + more


def closing_at(first: int) -> Change:
    return lambda number, _, said: said if number < first else None


def wrong_at(place: int | str, wrong: Any) -> Change:
    """Change the answer with this number, or all answers to a command."""
    return lambda number, request, said: (
        told(wrong, request) if place in (number, name_of(request)) else said
    )


def at_some(layout: str, *names: str) -> list[Any]:
    """Return rows of (layout, command line); those with these names run with `-m engines`."""
    return [
        pytest.param(layout, words, marks=pytest.mark.engines if stays else pytest.mark.nightly)
        for words in ON_SERVER
        for stays in [" ".join(words).startswith(names)]
    ]


@cases(
    "layout words",
    *(("redis", words) for words in ON_SERVER),
    *at_some("redis-hash", "threads list", "history", "threads delete"),
    *at_some("mongodb", "threads list", "rollback"),
)
def test_a_server_that_closes_early(ports: dict[str, int], layout: str, words: list[str]) -> None:
    for first in (0, 1, 2, 4, 7) if layout == "mongodb" else (0, 1, 3, 5, 8, 13, 21):
        with tampering(ports, layout, closing_at(first)) as url:
            asked(url, *words)


@pytest.mark.nightly
@pytest.mark.parametrize("layout", LAYOUTS)
def test_wrong_answers_at_any_time(ports: dict[str, int], layout: str, chance: Chance) -> None:
    """One answer of a whole conversation is wrong, then all that answer the same command."""
    wrong = WRONG["mongodb" if layout == "mongodb" else "redis"]
    # No agent stores sessions in MongoDB, so its server is not asked for any.
    lines = [one for one in ON_SERVER[:-2] if layout != "mongodb" or one[-1] != "sessions"]
    for dice in chance.rounds(20):
        words, seen = dice.choice(lines), list[str]()

        def see(_: int, request: Any, said: bytes, seen: list[str] = seen) -> bytes:
            seen.append(name_of(request))
            return said

        with tampering(ports, layout, see) as url:
            asked(url, *words)
        assert seen, f"nothing is asked by {words}"
        places: list[int | str] = [dice.randrange(len(seen)) for _ in range(5)]
        for place in [*places, *sorted(set(seen))]:
            change = wrong_at(place, wrong[dice.choice(sorted(wrong))])
            with tampering(ports, layout, change) as url:
                asked(url, *words)
