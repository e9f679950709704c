"""Servers that speak Redis's protocol for a while, and then lie, stop or fall silent."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from tests.kit.command import CommandResult, first_now
from tests.kit.hostile.resp import Command, array, between, bulk, honest, serving
from tests.kit.hostile.standin import standin
from tests.kit.hostile.watched import check, here
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis_threads import fill, fill_plain, fill_valkey

SHORT = "socket_timeout=0.5&connect_timeout=1"
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
    ["memory", "sessions"],
    ["rollback", "trip", "~1", "--yes"],
    ["threads", "delete", "trip", "--yes"],
]
Change = Callable[[int, Command, bytes], bytes | None]
DEEP = b"[" * 100_000
WRONG: dict[str, bytes | None] = {
    "closed": None,
    "a number": b":1\r\n",
    "a negative number": b":-7\r\n",
    "a huge number": b":99999999999999999999999\r\n",
    "no number": b":1.5\r\n",
    "a word": b"+OK\r\n",
    "nothing": b"$-1\r\n",
    "no array": b"*-1\r\n",
    "an empty array": b"*0\r\n",
    "an empty text": b"$0\r\n\r\n",
    "a text": bulk(b"hi"),
    "texts": array(bulk(b"a"), bulk(b"b")),
    "a negative length": b"$-5\r\n",
    "a negative array": b"*-7\r\n",
    "a length without digits": b"$abc\r\n",
    "a length without end": b"$999999999999\r\n",
    "a length above the limit": b"$600000000\r\n",
    "an array without end": b"*1000000000\r\n",
    "a text that is too long": b"$3\r\nabcdef\r\n",
    "an error in an array": b"*3\r\n:1\r\n-ERR inside\r\n$2\r\nhi\r\n",
    "nested arrays": b"*1\r\n" * 100_000,
    "a push": b">2\r\n+message\r\n+x\r\n",
    "a map": b"%1\r\n+a\r\n:1\r\n",
    "RESP3's null": b"_\r\n",
    "an empty line": b"\r\n",
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a line without end": b"+" + b"x" * 70_000,
    "escape sequences": b"-ERR \x1b[31mred\x1b]0;t\x07\xc2\x9b31m\xe2\x80\xae\r\n",
    "a long error": b"-ERR " + b"x" * 60_000 + b"\r\n",
    "a redirection": b"-MOVED 1 127.0.0.1:1\r\n",
    "a redirection to nowhere": b"-MOVED x\r\n",
    "another redirection": b"-ASK 1 ::1:no\r\n",
    "loading": b"-LOADING x\r\n",
    "no login": b"-NOAUTH x\r\n",
    "no permission": b"-NOPERM x\r\n",
    "a cursor and words": array(bulk(b"0"), array(bulk(b"x"), b":1\r\n")),
    "nested JSON": bulk(DEEP),
    "half of JSON": bulk(b'[{"a":'),
    "JSON of a number": bulk(b"7"),
    "JSON of a text": bulk(b'"hi"'),
    "JSON of null": bulk(b"[null]"),
    "JSON of an object": bulk(b'{"$.thread_id": 7, "$.has_writes": {}, "$.metadata": [[]]}'),
    "not UTF-8": bulk(b"\xff\xfe\x1b[2J"),
}


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """By layout, the port of a server with the thread `trip`."""
    with (
        redis_of_its_own(modules=True) as stack,
        redis_of_its_own(modules=False) as plain,
        redis_of_its_own(modules=False) as valkey,
    ):
        fill(stack.url, "trip")
        fill_plain(plain.url, "trip")
        fill_valkey(valkey.url, "trip")
        found = {"redis": stack.url, "redis-hash": plain.url, "valkey": valkey.url}
        yield {name: urlsplit(url).port or 0 for name, url in found.items()}


@contextmanager
def tampering(port: int, change: Change) -> Iterator[str]:
    """The URL of a server with other answers; `change` gets their number, command and bytes."""
    numbers = itertools.count()
    answer = between(port, lambda command, said: change(next(numbers), command, said))
    with standin(answer) as found:
        yield f"redis://127.0.0.1:{found}/0?{SHORT}"


def wrong_at(wanted: int, wrong: bytes | None) -> Change:
    return lambda number, _, said: wrong if number == wanted else said


def wrong_from(first: int) -> Change:
    return lambda number, _, said: said if number < first else None


def wrong_for(name: bytes, wrong: bytes | None) -> Change:
    return lambda _, command, said: wrong if command[0] == name else said


def pretending(reply: Callable[[Command], bytes | None]) -> CommandResult:
    """What `threads list` says of a server that answers as `reply` says."""
    with standin(serving(reply)) as port:
        answer = here("-s", f"redis://127.0.0.1:{port}/0?{SHORT}", "threads", "list")
    check(answer)
    return answer


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("command", first_now([b"SCAN", b"PING", b"INFO"]))
def test_a_wrong_answer_is_an_error(command: bytes, kind: str) -> None:
    pretending(lambda asked: WRONG[kind] if asked[0] == command else honest(asked))


def test_the_error_says_what_is_wrong() -> None:
    answer = pretending(lambda _: WRONG["HTTP"])
    assert answer.code == 4
    assert "the server does not speak Redis's protocol" in answer.err


@pytest.mark.parametrize("layout", first_now(["redis", "redis-hash", "valkey"]))
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_server_that_closes_early(ports: dict[str, int], layout: str, words: list[str]) -> None:
    for last in (0, 1, 3, 5, 8, 13, 21):
        with tampering(ports[layout], wrong_from(last)) as url:
            check(here("-s", url, *words))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["redis", "redis-hash", "valkey"])
@pytest.mark.parametrize("words", COMMANDS[:-2], ids=" ".join)
def test_one_wrong_answer_at_any_time(ports: dict[str, int], layout: str, words: list[str]) -> None:
    total = [0]

    def count(_: int, __: Command, said: bytes) -> bytes:
        total[0] += 1
        return said

    with tampering(ports[layout], count) as url:
        check(here("-s", url, *words))
    chance = random.Random(f"{layout} {words}")
    for kind in chance.sample(sorted(WRONG), 15):
        wrong = WRONG[kind]
        wanted = chance.randrange(4, total[0])
        with tampering(ports[layout], wrong_at(wanted, wrong)) as url:
            check(here("-s", url, *words))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["redis", "redis-hash", "valkey"])
@pytest.mark.parametrize("words", COMMANDS[:-2], ids=" ".join)
def test_all_answers_to_one_command_are_wrong(
    ports: dict[str, int], layout: str, words: list[str]
) -> None:
    asked: set[bytes] = set()

    def see(_: int, command: Command, said: bytes) -> bytes:
        asked.add(command[0])
        return said

    with tampering(ports[layout], see) as url:
        check(here("-s", url, *words))
    chance = random.Random(f"{layout} {words}")
    for name in sorted(asked):
        for wrong in chance.sample(sorted(WRONG), 4):
            with tampering(ports[layout], wrong_for(name, WRONG[wrong])) as url:
                check(here("-s", url, *words))


@pytest.mark.parametrize("command", first_now([b"SCAN", b"PING"]))
def test_a_server_that_falls_silent(command: bytes) -> None:
    answer = pretending(lambda asked: b"$900\r\n1" if asked[0] == command else honest(asked))
    assert answer.code == 4
    assert "the server does not answer" in answer.err


def test_a_cursor_that_never_ends() -> None:
    keys = array(bulk(b"checkpoint$a$$b"))
    for cursors in (b"7", b"78"):
        turn = itertools.cycle(cursors)

        def reply(command: Command, turn: Iterator[int] = turn) -> bytes:
            if command[0] != b"SCAN":
                return honest(command)
            return array(bulk(bytes([next(turn)])), keys)

        answer = pretending(reply)
        assert answer.code == 4
        assert "the server repeats a cursor" in answer.err


def nodes(*of: bytes) -> bytes:
    """The answer to CLUSTER SLOTS."""
    return array(*of)


NODE = array(bulk(b"127.0.0.1"), b":1\r\n", bulk(b"id"))
SLOTS: dict[str, bytes] = {
    **{name: one for name, one in WRONG.items() if one is not None},
    "slots without end": nodes(array(b":0\r\n", b":999999999999\r\n", NODE)),
    "negative slots": nodes(array(b":-9\r\n", b":5\r\n", NODE)),
    "texts as slots": nodes(array(bulk(b"0"), bulk(b"9"), NODE)),
    "no server": nodes(array(b":0\r\n", b":16383\r\n")),
    "a port without number": nodes(
        array(b":0\r\n", b":9\r\n", array(bulk(b"x"), bulk(b"\x1b[2J"), bulk(b"id")))
    ),
    "a port that is too high": nodes(
        array(b":0\r\n", b":9\r\n", array(bulk(b"127.0.0.1"), b":70000\r\n", bulk(b"id")))
    ),
    "a host that is no name": nodes(
        array(b":0\r\n", b":9\r\n", array(bulk(b"\xff\x00\x1b[2J"), b":1\r\n", bulk(b"id")))
    ),
    "a long host": nodes(
        array(b":0\r\n", b":9\r\n", array(bulk(b"x" * 5000), b":1\r\n", bulk(b"id")))
    ),
}


@pytest.mark.parametrize("kind", SLOTS)
def test_a_cluster_that_lies_about_its_servers(kind: str) -> None:
    def reply(command: Command) -> bytes:
        if command[0] == b"CLUSTER":
            return SLOTS[kind]
        if command[0] == b"INFO":
            return bulk(b"cluster_enabled:1\r\n")
        return honest(command)

    assert pretending(reply).code == 4
