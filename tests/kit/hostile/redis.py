"""A man in the middle between `ckpt` and Redis, and servers that only pretend to be Redis."""

from collections.abc import Callable
from io import BufferedReader

from tests.kit.hostile import standin
from tests.kit.hostile.standin import Answer

Command = list[bytes]
Reply = Callable[[Command], bytes | None]
"""What to answer to a command; None to close the connection."""


def serving(reply: Reply) -> Answer:
    """Answer every command as `reply` says."""
    return standin.serving(_command, reply)


def between(port: int, change: Callable[[Command, bytes], bytes | None]) -> Answer:
    """Pass commands on to the server at a port, and its answers back as `change` returns them."""
    return standin.between(port, _command, _packed, _one, change)


def honest(command: Command) -> bytes:
    """The answers of an empty Redis without modules, to everything that ckpt asks."""
    match command[0].upper():
        case b"PING":
            return b"+PONG\r\n"
        case b"AUTH" | b"CLIENT" | b"SELECT":
            return b"+OK\r\n"
        case b"INFO":
            return bulk(b"# Server\r\nredis_version:7.4.0\r\nserver_time_usec:1\r\n")
        case b"SCAN" | b"HSCAN":
            return b"*2\r\n$1\r\n0\r\n*0\r\n"
        case b"TYPE":
            return b"+none\r\n"
        case b"EXISTS":
            return b":0\r\n"
    return b"-ERR unknown command\r\n"


def bulk(text: bytes) -> bytes:
    """A text as RESP sends it."""
    return b"$%d\r\n%s\r\n" % (len(text), text)


def array(*items: bytes) -> bytes:
    """An array of what is already in the form of RESP."""
    return b"*%d\r\n%s" % (len(items), b"".join(items))


def _packed(command: Command) -> bytes:
    return array(*map(bulk, command))


def _command(stream: BufferedReader) -> Command:
    line = stream.readline()
    if not line:
        raise EOFError
    return [stream.read(int(stream.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]


def _one(stream: BufferedReader) -> bytes:
    """The bytes of one answer."""
    line = stream.readline()
    if not line:
        raise EOFError
    if line[:1] not in b"$*" or line[1:2] == b"-":
        return line
    if line[:1] == b"$":
        return line + stream.read(int(line[1:]) + 2)
    return line + b"".join(_one(stream) for _ in range(int(line[1:])))
