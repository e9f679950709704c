"""How a text stands in stored bytes: a value without these bytes need not be decoded to search it.

msgpack stores a text as its UTF-8 bytes. JSON may store each character as an escape; Python's and
JavaScript's encoders escape quotes, backslashes, control characters and maybe what is not ASCII.
An array of numpy holds texts as UTF-32. `JsonPlusSerializer` stores arrays in msgpack as ext type 6
with four parts, of which the first is the type of the items, such as `<U5`.

Numbers are searched like texts, but stored in another form: see `stored_numbers`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from struct import unpack

# How a number stands in stored bytes: whether the text of one may contain a searched text.
#
# msgpack stores a number as a header byte with up to 8 bytes behind it. These are read at each
# place that looks like a header, also inside texts and bytes, where there may be none: the values
# around need not be walked through. JSON stores a number as a text; that of a float may have
# other digits.


_NUMBER = re.compile(r"[0-9eE.+\-]+|-?[iI]?[nN]?[fF]?|[nN]?[aA]?[nN]?")
"""Parts of the texts of numbers, such as `-12`, `1.5e-07`, `inf` and `nan`."""
_LONGEST = 24
"""Characters of the longest text of a number of 8 bytes: `-2.2250738585072014e-308`."""
_ONE_BYTE_DIGITS = 3
"""Numbers of one byte have no header."""
_INTEGERS = (
    (5, b"\xcd", 2, "H"),
    (10, b"\xce", 4, "I"),
    (20, b"\xcf", 8, "Q"),
    (5, b"\xd1", 2, "h"),
    (10, b"\xd2", 4, "i"),
    (19, b"\xd3", 8, "q"),
)
"""Of integers: the most digits, the header, the number of bytes, and their code in `struct`."""
_FLOATS = ((b"\xca", 4, "f"), (b"\xcb", 8, "d"))
_WIDEST = 8
"""Bytes behind a header."""
_HEADER = re.compile(rb"[\xca\xcb\xcd-\xcf\xd1-\xd3]")
_SMALL = 500
"""In values of fewer bytes, all headers are looked for at once."""
_AT_ONCE = 1 << 16
"""Bytes of a value, or floats, that are looked through at once, so that memory stays small."""
_ARRAY = re.compile(rb"\x06\x94(?:[\xa0-\xbf]|\xd9.|\xda..|\xdb....)[<>|=]", re.DOTALL)
_FLOAT = rb"-?\d+(?:\.\d+(?:[eE][+\-]?\d+)?|[eE][+\-]?\d+)"
_ONLY_FLOAT = re.compile(rb"(?:\xef\xbb\xbf)?\s*(%b)\s*" % _FLOAT)
_INNER_FLOAT = re.compile(rb"[\s:,\[](%b)" % _FLOAT)
"""It begins with a small set of bytes, so that the others are passed over quickly."""
_HUGE_DIGITS = 3000
"""An integer with so many digits may be shown in another base."""
_HUGE = re.compile(rb"\d{%d}" % _HUGE_DIGITS)
_DATETIME = b"datetime"
"""JSON may store the numbers of a date instead of its text."""
_OF_HUGE_OR_DATE = re.compile(r"[0-9a-fxT:+\-.]+", re.IGNORECASE)


def may_be_derived(text: str) -> bool:
    """Return whether a number or a date may contain this text, although its bytes do not."""
    return _NUMBER.fullmatch(text) is not None or _OF_HUGE_OR_DATE.fullmatch(text) is not None


class StoredNumbers:
    """Texts that are searched in stored numbers and dates as Python's `repr` writes them."""

    def __init__(self, texts: Collection[str]) -> None:
        self._is_of_json = any(map(_OF_HUGE_OR_DATE.fullmatch, texts))
        self._texts = sorted({one.lower() for one in texts if _NUMBER.fullmatch(one)})
        digits = [len(one.lstrip("-")) for one in self._texts if one.lstrip("-").isdigit()]
        self._is_short = min(digits, default=_LONGEST) <= _ONE_BYTE_DIGITS or "-" in self._texts
        is_long = all(len(one) > _LONGEST for one in self._texts)
        found = [] if is_long else list(_places(min(digits, default=_LONGEST)))
        self._places = [(_behind(header, width), code) for header, width, code in found]
        self.headers = None if self._is_short else [header for header, _, _ in found]
        """Bytes, one of which stands in each number in msgpack that may contain one of the texts;
        None if that is not known.
        """

    def may_be_in_msgpack(self, data: bytes) -> bool:
        """Return whether a number in msgpack may contain one of the texts."""
        if not self._texts:
            return False
        if self._is_short or _ARRAY.search(data):
            return True
        if len(data) < _SMALL and _HEADER.search(data) is None:
            return False
        for part in _windows(data):
            for pattern, code in self._places:
                found = pattern.findall(part)
                if found and self._are_in(unpack(f">{len(found)}{code}", b"".join(found))):
                    return True
        return False

    def may_be_in_json(self, data: bytes) -> bool:
        """The same for JSON that does not have one of the texts in its bytes."""
        if self._is_of_json and (_DATETIME in data or _has_huge(data)):
            return True
        if not self._texts:
            return False
        if only := _ONLY_FLOAT.fullmatch(data):
            return self._are_in([float(only[1])])
        floats = (float(one[1]) for one in _INNER_FLOAT.finditer(data))
        while some := list(islice(floats, _AT_ONCE)):
            if self._are_in(some):
                return True
        return False

    def _are_in(self, numbers: Sequence[float]) -> bool:
        # Much faster than one text for each number. None of the texts has a comma or a space.
        written = repr(numbers)
        return any(one in written for one in self._texts)


def _places(digits: int) -> Iterator[tuple[bytes, int, str]]:
    """Yield header, width and code of the numbers that may have so many digits."""
    for most, header, width, code in _INTEGERS:
        if most >= digits:
            yield header, width, code
    yield from _FLOATS


def _behind(header: bytes, width: int) -> re.Pattern[bytes]:
    """Return the pattern for the bytes behind a header, at each place where it may be one."""
    return re.compile(b"%b(?=(.{%d}))" % (header, width), re.DOTALL)


def _has_huge(data: bytes) -> bool:
    return len(data) >= _HUGE_DIGITS and _HUGE.search(data) is not None


def _windows(data: bytes) -> Iterable[bytes]:
    """Return the parts of a value to look through one after the other; a number is in one whole."""
    if len(data) <= _AT_ONCE:
        return (data,)
    return (data[at : at + _AT_ONCE + _WIDEST] for at in range(0, len(data), _AT_ONCE))


EMPTY_TYPES = ("null", "empty")
"""The type tags of values without a text."""
KNOWN_TYPES = ("msgpack", "json", "bytes", "bytearray", *EMPTY_TYPES)
"""The type tags of values that hold a text only as described here. Others may be compressed,
encrypted or pickled.
"""
ARRAY = b"\x06\x94"
"""Each array contains these bytes."""
TEXT_ARRAY = (b"<U", b">U")
"""Each array of texts also contains one of these."""
_TEXT_ARRAY = re.compile(rb"\x06\x94(?:[\xa0-\xbf]|\xd9.|\xda..|\xdb....)[<>]U", re.DOTALL)
_ESCAPED = re.compile(r'["\\/\x00-\x1f\x7f\ud800-\udfff\ufffd]')
"""What JSON may write in another way, and what may stand for bytes that are not UTF-8."""
_OF_ONE_CASE = re.compile(r"[\x20-\x7e]+")
_OTHER_CASES = re.compile(r"[iksIKS]")
"""The letters of ASCII that have other cases outside of ASCII: İ, ı, K (the sign of kelvins), ſ."""


def is_findable(text: str) -> bool:
    """Return whether a text stands in stored bytes as it is, if it is part of a stored text."""
    return bool(text) and _ESCAPED.search(text) is None


def is_findable_in_any_case(text: str) -> bool:
    """Return whether all spellings of a text in upper and lower case are findable, and in ASCII."""
    is_plain = _OF_ONE_CASE.fullmatch(text) is not None and _OTHER_CASES.search(text) is None
    return is_plain and is_findable(text)


def escape_in_json(text: str) -> bytes:
    """Return the bytes that JSON contains if it stores a character of the text as an escape."""
    return rb"\u00" if text.isascii() else rb"\u"


class StoredTexts:
    """Texts that are searched in stored texts and numbers, each of them findable.

    With `ignore_case`, they are found in upper and lower case; each is `is_findable_in_any_case`.
    """

    def __init__(self, texts: Collection[str], *, ignore_case: bool = False) -> None:
        self._ignore_case = ignore_case
        self._parts = [(one.lower() if ignore_case else one).encode() for one in texts]
        self._escapes = sorted({escape_in_json(one) for one in texts})
        numbers = StoredNumbers(texts)
        self._headers = numbers.headers
        self._in_msgpack, self._in_json = numbers.may_be_in_msgpack, numbers.may_be_in_json
        self._with_numbers = any(map(may_be_derived, texts))

    @property
    def marks(self) -> Sequence[bytes]:
        """Bytes, one of which stands in each value in msgpack that may contain one of the texts;
        empty if that is not known.
        """
        is_folded = self._ignore_case and any(part.upper() != part for part in self._parts)
        if is_folded or self._headers is None:
            return ()
        return (*self._parts, ARRAY, *self._headers)

    def may_be_in(self, tag: str, data: bytes) -> bool:
        """Return whether a value with this type tag may contain one of the texts; False only if it
        does not.
        """
        return self.finder(tag)(data)

    def finder(self, tag: str) -> Callable[[bytes], bool]:
        """Return the function that tells the same of the bytes of values with this type tag."""
        if tag not in KNOWN_TYPES:
            return lambda _: True
        parts, ignores_case, in_other_form = self._parts, self._ignore_case, self._other_form(tag)

        def may_hold(data: bytes) -> bool:
            bytes_ = data.lower() if ignores_case else data
            for part in parts:  # No `any`: this runs for each value of a store.
                if part in bytes_:
                    return True
            return bool(in_other_form(data))

        return may_hold

    def _other_form(self, tag: str) -> Callable[[bytes], object]:
        """Return the function that tells whether a text may be stored in another form."""
        if tag == "msgpack":
            if not self._with_numbers:
                return _TEXT_ARRAY.search
            return lambda data: _TEXT_ARRAY.search(data) or self._in_msgpack(data)
        if tag == "json":
            return lambda data: (
                any(one in data for one in self._escapes)
                or (self._with_numbers and self._in_json(data))
            )
        return lambda _: False
