"""Replaces entries of a BSON document. New leaves get the same form as the existing ones."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends.codec.bson import documents
from ckpt_backends.codec.edits import Edit, Put
from ckpt_backends.codec.lossless import encode_lossless
from ckpt_backends.model import TypedBytes

_DOCUMENT = 0x03
"""BSON's kind of a document."""


def set_bson_keys(data: bytes, edits: Mapping[str, Edit]) -> bytes:
    """The changed document. Raises ValueError if an entry is not replaced as a whole."""
    tags = documents.leaf_tags(data)
    made: dict[str, bytes | None] = {}
    for name, edit in edits.items():
        if edit is not None and not isinstance(edit, Put):
            raise ValueError("its entries are replaced as a whole")
        made[name] = None if edit is None else _bson_leaf(tags, edit.value)
    return documents.splice_bson(data, made)


def _bson_leaf(tags: frozenset[str], value: object) -> bytes:
    if isinstance(value, dict):
        inner = {str(name): _bson_leaf(tags, item) for name, item in value.items()}
        return bytes([_DOCUMENT]) + documents.document_of(inner)
    if not tags.isdisjoint({"msgpack", "json"}):
        return documents.typed(TypedBytes("msgpack", encode_lossless("msgpack", value)))
    if documents.JSON_TEXT in tags:
        return documents.binary(encode_lossless("json", value))
    if tags <= {""}:
        return documents.plain(value)
    raise ValueError(f"its leaves are of type {', '.join(sorted(tags))}")
