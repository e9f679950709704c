"""Erases in a typed value, by its type."""

from __future__ import annotations

from ckpt_backends.codec import decode
from ckpt_backends.codec.limits import PastLimit
from ckpt_backends.codec.values import JSON_TYPES, Tagged, Value
from ckpt_backends.encryption import is_encrypted
from ckpt_backends.erasing.changes import ChangedPlaces, Spot
from ckpt_backends.erasing.erasure import ANY_STEP, Erasure, ScalarPlace
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold

_PLAIN_BSON = "bson-plain"
_DOCUMENTS = frozenset({"bson", _PLAIN_BSON})


def erased_value(
    value: TypedBytes, erasure: Erasure, spot: Spot, changed: ChangedPlaces, where: str
) -> TypedBytes:
    """The value without what is erased; the same object if nothing is.

    Raises `CannotHold` for a value that is encrypted or that cannot be read; `where` names it.
    """
    if is_encrypted(value):
        raise CannotHold(f"{where} is encrypted")
    number = len(changed.steps)
    try:
        data = _erased(value, erasure, spot, changed)
    except (ValueError, IndexError, KeyError, TypeError, PastLimit, RecursionError) as error:
        del changed.steps[number:]
        data = _overwritten(value, erasure, spot, changed)
        if erasure.hits(data):
            raise CannotHold(f"{where} cannot be read: {_without_value(error)}") from None
    return value if data == value.data else value._replace(data=data)


def _overwritten(value: TypedBytes, erasure: Erasure, spot: Spot, changed: ChangedPlaces) -> bytes:
    """Bytes of an unknown form: what is erased becomes as many other bytes."""
    made = erasure.replaced_bytes(value.data)
    if made != value.data:
        changed.steps.append(spot.steps)
    return made


def _erased(value: TypedBytes, erasure: Erasure, spot: Spot, changed: ChangedPlaces) -> bytes:
    if value.type == "msgpack":
        from ckpt_backends.erasing.msgpack import erased_msgpack

        return erased_msgpack(value.data, erasure, spot, changed)
    if value.type in JSON_TYPES:
        from ckpt_backends.erasing.json_texts import erased_json

        return erased_json(value.data, erasure, spot, changed)
    if value.type in _DOCUMENTS:
        from ckpt_backends.erasing.bson_documents import erased_document

        def leaf(one: TypedBytes, at: Spot) -> TypedBytes:
            return erased_value(one, erasure, at, changed, "a leaf of metadata")

        return erased_document(value.data, erasure, spot, leaf, changed)
    if value.type == "pickle":
        from ckpt_backends.erasing.pickles import erased_pickle  # loads pickletools

        if any(_is_there(decode(value), one) for one in spot.scalars):
            raise CannotHold("a number in a pickle cannot be erased")
        return erased_pickle(value.data, erasure, spot, changed)
    return _overwritten(value, erasure, spot, changed)


def _is_there(value: Value, place: ScalarPlace) -> bool:
    """Whether the value of a place is in a decoded value."""
    while isinstance(value, Tagged):
        value = value.payload
    if not place.steps:
        return place.is_at(value)
    step, left = place.steps[0], ScalarPlace(place.steps[1:], place.value)
    if isinstance(value, dict):
        inner = value.values() if step == ANY_STEP else [value.get(step)]
    else:
        at = isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
        inner = [value[step]] if at else []  # type: ignore[index]
    return any(_is_there(one, left) for one in inner)


def _without_value(error: Exception) -> str:
    """What is wrong, without a word of the value."""
    return str(error) if isinstance(error, PastLimit) else type(error).__name__
