"""The types of keys in answers, and the keys that many answers have."""

from __future__ import annotations

from ckpt_backends.codec import to_json
from ckpt_cli.render.fields import Field, Type, inside
from ckpt_cli.render.table import iso, values_record

TEXT = Type({"type": "string"}, "VARCHAR")
INTEGER = Type({"type": "integer"}, "BIGINT")
NUMBER = Type({"type": "number"}, "DOUBLE")
BYTES = Type(INTEGER.schema, INTEGER.sql, unit="bytes")
SECONDS = Type(NUMBER.schema, NUMBER.sql, lambda seconds: round(seconds, 6), "seconds")
"""Stores keep microseconds."""
FLAG = Type({"type": "boolean"}, "BOOLEAN")
TIME = Type({"type": "string", "format": "date-time"}, "TIMESTAMPTZ", iso)
"""A `datetime`, or a text that is one already."""
VALUE = Type({}, convert=to_json)
"""A value of a store, in the codec's JSON form."""
ANY = Type({})
"""JSON of any form."""
OBJECT = Type({"type": "object"})
"""A JSON object with any keys."""
VALUES = OBJECT.converted_by(values_record)
"""Values of a store by name, such as those of channels."""


def one_of(*texts: str) -> Type:
    """Return the type of one of some texts; an enum's member becomes its text."""
    return Type({"enum": list(texts)}, "VARCHAR", str)


def either(text: str, *kinds: Type) -> Type:
    """Return the type of answers of several forms; what makes them chooses among these."""
    return Type({"description": text, "anyOf": [one.schema for one in kinds]})


KEY_IN_THREAD = (
    Field("checkpoint_ns", TEXT, "Namespace; '' is the root graph."),
    Field("checkpoint_id", TEXT, "Checkpoint."),
)
"""Names a checkpoint of a known thread."""
KEY = (Field("thread_id", TEXT, "Thread.", "key.thread_id"), *inside("key", *KEY_IN_THREAD))
"""Names a checkpoint."""
