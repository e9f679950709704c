"""Finds JSON texts that RedisJSON would refuse or change, and spells numbers as it needs them."""

from __future__ import annotations

import json
import re

from ckpt_backends.model import TypedBytes
from ckpt_backends.redis.engine.keyspace import text
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.unfit import NoEqualForm

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
    from ckpt_backends.transfer.exact_floats import exact_floats  # rarely needed

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
