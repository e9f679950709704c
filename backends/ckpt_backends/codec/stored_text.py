"""How a text stands in stored bytes: a value without these bytes need not be decoded to search it.

msgpack stores a text as its UTF-8 bytes. JSON may store each character as an escape; Python's and
JavaScript's encoders escape quotes, backslashes, control characters and maybe what is not ASCII.
An array of numpy holds texts as UTF-32. `JsonPlusSerializer` stores arrays in msgpack as ext type 6
with four parts, of which the first is the type of the items, such as `<U5`.

Numbers are searched like texts, but stored in another form: see `stored_numbers`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from ckpt_backends.codec.stored_numbers import StoredNumbers, may_be_derived

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
