"""The form in which a layout stores threads, as far as it matters for moving them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from ckpt_backends.errors import Unsupported


class Language(StrEnum):
    """The LangGraph library that a store belongs to. Threads are not turned from one to another."""

    PYTHON = "python"
    JAVASCRIPT = "javascript"


class Serializer(StrEnum):
    """How values become bytes. Values of different serializers are converted, or refused."""

    TYPED = "typed"
    """`JsonPlusSerializer`: bytes with a type tag, such as `msgpack` or `json`."""
    REDIS_JSON = "redis-json"
    """`JsonPlusRedisSerializer`: JSON documents with markers."""
    JAVASCRIPT = "javascript"
    """LangGraph.js: JSON with `lc` envelopes."""
    PICKLE = "pickle"
    """A pickle of the whole checkpoint."""


class Place(StrEnum):
    """Where the values of a checkpoint's channels are."""

    BODY = "body"
    """In the body of each checkpoint that has them."""
    APART = "apart"
    """Under their channel and version, once for all checkpoints that name this version."""
    APART_BUT_PLAIN = "apart, but plain ones in the body"
    """As `APART`, but null, texts, numbers and booleans are in the body."""


class Form(NamedTuple):
    """The form in which one layout stores the threads of one language."""

    language: Language = Language.PYTHON
    serializer: Serializer = Serializer.TYPED
    values: Place = Place.BODY
    body_types: tuple[str, ...] = ("msgpack", "json")
    """The type tags that a body may have, besides encrypted ones; the usual one first."""
    metadata_type: str = "json"
    """The type tag of metadata: `json`, `msgpack`, `bson` or `redis-json`."""
    marks_absent: bool = False
    """Whether a version of a channel without a value is stored too, as a value of type `empty`."""
    can_encrypt: bool = True
    """Whether its saver takes an `EncryptedSerializer`."""
    encrypts_body: bool = True
    """Whether `EncryptedSerializer` encrypts bodies; it always encrypts values and writes."""
    encrypts_metadata: bool = False
    """Whether `EncryptedSerializer` encrypts metadata, too."""
    encrypts_together: bool = False
    """Whether body and metadata are encrypted as one; see `transfer.sealing.sealed_together`."""
    parses_json: bool = False
    """Whether the engine stores JSON parsed and spells it anew."""
    has_task_paths: bool = True
    keeps_write_order: bool = False
    """Whether writes stay in the order in which they come, so that they need no task paths."""
    counts_with_integers: bool = False
    """Whether the saver for Python counts versions with integers, and not with texts."""
    expires: bool = False
    """Whether the engine can remove checkpoints at a time that is stored with them."""
    receives: bool = True
    """Whether threads can be copied into this layout: it has `WritableStore.receive`."""


# Why a thread cannot be moved.


class CannotHold(Unsupported):
    """The target cannot hold something of a thread as it is; the message names it."""

    code = "cannot_hold"


# Why a value has no equal form in another serializer.


class NoEqualForm(ValueError):
    """A value has no equal form; the message continues a sentence that begins with the value."""
