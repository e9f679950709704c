"""Spells floats so that RedisJSON reads them exactly.

RedisJSON 2 parses numbers with serde_json without its feature `float_roundtrip`: it rounds the
digits to a float and then divides or multiplies by a power of ten, which rounds again. About one
of three floats with 17 digits comes out as its neighbour. For these, there are other digits that
both this and an exact parser read as the same float.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from ckpt_backends.transfer.unfit import NoEqualForm

_NUMBER = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?\d++(?:\.\d++)?(?:e[+-]?\d++)?', re.DOTALL)
_SURE_DIGITS = 15
_MOST = 1 << 64


def exact_floats(text: str) -> str:
    """A JSON text with other digits for floats that RedisJSON would not read exactly.

    Raises `NoEqualForm` if there are none for a float.
    """
    return _NUMBER.sub(_respelled, text)


def _respelled(match: re.Match[str]) -> str:
    token = match[0]
    is_short = len(token) <= _SURE_DIGITS and "e" not in token
    if is_short or token[0] == '"' or token.lstrip("-").isdecimal():
        return token
    number = abs(float(token))
    digits, power = _parts(token.lstrip("-"))
    if _read(digits, power) == number:
        return token
    sign = "-" if token[0] == "-" else ""
    return sign + _other_digits(number)


def _parts(token: str) -> tuple[int, int]:
    """The digits of a float as an integer, and the power of ten."""
    mantissa, _, exponent = token.partition("e")
    whole, _, fraction = mantissa.partition(".")
    return int(whole + fraction), int(exponent or 0) - len(fraction)


def _read(digits: int, power: int) -> float:
    """The float that serde_json reads."""
    return _scaled(float(digits), power)


def _scaled(found: float, power: int) -> float:
    while power < -308:
        found /= 1e308
        power += 308
    return found * float(f"1e{power}") if power >= 0 else found / float(f"1e{-power}")


def _other_digits(number: float) -> str:
    estimate = int(f"{number:e}".partition("e")[2])
    for count in (19, 18, 20, 17, 16):
        power = estimate - count + 1
        exact = Fraction(number) / Fraction(10) ** power
        near = float(exact)
        for rounded in (near, math.nextafter(near, 0), math.nextafter(near, math.inf)):
            if not 0 < rounded < _MOST or _scaled(rounded, power) != number:
                continue
            # All integers around the middle are rounded to it.
            room = int(math.ulp(rounded) / 2.5)
            middle = int(rounded)
            digits = min(max(round(exact), middle - room), middle + room)
            text = f"{digits}e{power}"
            if digits < _MOST and _read(digits, power) == number == float(text):
                return text
    raise NoEqualForm(f"holds the number {number!r}, which RedisJSON does not store exactly")
