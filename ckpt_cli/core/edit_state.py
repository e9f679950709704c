"""Edits a state as `update_state` does: through a reducer, or by replacing a value."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ckpt_backends import model, shell
from ckpt_backends.codec import decode, from_json, to_json
from ckpt_backends.codec.bson import map_leaves
from ckpt_backends.codec.edits import Edit, Put, append_item, set_keys
from ckpt_backends.codec.lossless import Ext, decode_lossless, encode_lossless
from ckpt_backends.codec.values import JSON_TYPES, TUPLE, Tagged, Value
from ckpt_backends.encryption import is_encrypted_type
from ckpt_backends.errors import NotFound, Refused, Unsupported, UsageError
from ckpt_cli.core.conversation import as_message
from ckpt_cli.core.forking import as_snapshot, raised_channel, random_id
from ckpt_cli.core.state import Body, Version, is_state
from ckpt_cli.core.values import same

VALUES, VERSIONS, SEEN = "channel_values", "channel_versions", "versions_seen"
BRANCH = "branch:to:"
_CLEARED = ("__start__", "__pregel_tasks")
"""Channels that, besides edges, hold future tasks in format 4."""
_MESSAGE = ({"role", "content"}, {"type", "content"})


@dataclass(frozen=True, slots=True)
class ChannelEdit:
    """An edit of one channel's value."""

    kind: Literal["set", "append", "replace", "store"]
    channel: str
    value: Any
    """Plain JSON; with `store`, the decoded value of the channel after the edit."""
    stored: model.TypedBytes | None = None
    """With `store`, the new value as stored, before the caller's writes are merged into it."""


@dataclass(slots=True)
class EditedState:
    """What the edits change in a copy, apart from its id."""

    body: dict[str, Edit]
    writes: list[model.Record]
    blobs: list[model.Record]
    dropped: set[str]
    """Channels that are replaced; the caller's writes to them are not copied."""


def parse_edit(kind: Literal["set", "append", "replace"], text: str) -> ChannelEdit:
    """Parse `CHANNEL=JSON`.

    Raises `UsageError` if the channel is missing, or if the value is not plain JSON that can be
    stored.
    """
    channel, equals, form = text.partition("=")
    if not channel or not equals:
        raise UsageError(
            f"'{text}' is not CHANNEL=JSON", hint=f"strings are JSON: --{kind} 'plan=\"hello\"'"
        )
    try:
        value = json.loads(form)
        plain = from_json(value)
    except (ValueError, RecursionError) as error:
        named = shell.word(f"{channel}={json.dumps(form, ensure_ascii=False)}")
        raise UsageError(
            f"the value for '{channel}' is not JSON: {str(error).lower()}",
            hint=f"for a string, write --{kind} {named}",
        ) from None
    if _has_objects(plain):
        raise UsageError(
            f"cannot store an object of a class in '{channel}'",
            hint='give plain JSON; a message is {"role": "user", "content": "..."}',
        )
    try:
        encode_lossless("msgpack", plain)
    except Exception:
        raise UsageError(
            f"cannot store the value for '{channel}': it holds a number beyond 64 bits, or half of"
            " a surrogate pair",
            hint="write large numbers as strings",
        ) from None
    return ChannelEdit(kind, channel, plain)


def check_editable(original: model.Checkpoint) -> None:
    """Raise `Unsupported` if the checkpoint can only be copied, not edited (pickled body)."""
    if original.body is not None and original.body.type == "pickle":
        raise Unsupported(
            f"cannot edit checkpoint '{original.key.checkpoint_id}': it is pickled",
            hint="fork it without edits, then call update_state in the application",
        )


def edit_copy(
    original: model.Checkpoint,
    body: Body,
    key: model.CheckpointKey,
    edits: Sequence[ChannelEdit],
    kept: Sequence[model.Write],
    delta: Collection[str],
    known: Collection[str],
    version: Version,
) -> EditedState:
    """Return what the edits change in a copy stored under `key`.

    `kept` are the caller's writes that are copied, `delta` the DeltaChannels, `known` all channels
    of the thread. `version` is greater than all stored versions.

    Raises `NotFound` for an unknown channel, `UsageError` for a channel edited twice, `Refused` for
    an edit that LangGraph would not accept, and `Unsupported` for one that cannot be stored.
    """
    found = EditedState({}, [], [], set())
    channels = sorted(name for name in known if is_state(name, body))
    seen: set[str] = set()
    for edit in edits:
        _check(edit, channels, seen, kept)
        seen.add(edit.channel)
        if edit.kind == "set":
            continue
        is_delta = edit.channel in delta
        if edit.stored is not None:
            _store_value(
                found, original, key, edit.channel, version, edit.stored, is_delta=is_delta
            )
            continue
        if is_delta:
            raise Unsupported(
                f"cannot use --{edit.kind} on '{edit.channel}': a DeltaChannel stores no value",
                hint=f"--set {_json_for(edit)} merges a value into it",
            )
        _edit_value(found, original, body, key, edit, version)
    place = max((one.idx for one in kept if one.channel not in found.dropped), default=-1) + 1
    tag = value_type(original, body) if edits else ""
    for number, edit in enumerate(one for one in edits if one.kind == "set"):
        data = encode_lossless(tag, with_message_ids(edit.value))
        stored = model.TypedBytes(tag, data)
        found.writes.append(
            model.Record.write(key, model.NULL_TASK_ID, "", place + number, edit.channel, stored)
        )
    if form := _encryption(original):
        found.writes = [one._replace(value=_to_seal(one.value, form)) for one in found.writes]
        found.blobs = [one._replace(value=_to_seal(one.value, form)) for one in found.blobs]
    return found


def _encryption(original: model.Checkpoint) -> bool | model.Encryption:
    """Return whether and how values of a checkpoint are stored encrypted, as far as was read."""
    if original.body is not None and original.body.encrypted:
        return original.body.encrypted
    blobs = (original.blobs or {}).values()
    forms = [one.value.encrypted for one in blobs if one.value is not None]
    return max(forms, default=False) or any(is_encrypted_type(one.type) for one in blobs)


def _to_seal(value: model.TypedBytes | None, form: bool | model.Encryption) -> model.TypedBytes:
    """Return a new value that is to be stored encrypted."""
    if value is None:
        raise ValueError("a new write has its value")
    return value._replace(encrypted=form)


def _check(
    edit: ChannelEdit, channels: Sequence[str], seen: Collection[str], kept: Sequence[model.Write]
) -> None:
    """Raise `NotFound`, `UsageError` or `Refused` for an edit that cannot be made."""
    if edit.channel not in channels:
        raise NotFound(
            f"no channel '{edit.channel}' in this thread",
            hint=f"its channels: {', '.join(map(shell.word, channels)) or 'none'}",
        )
    if edit.channel in seen:
        raise UsageError(f"channel '{edit.channel}' is edited twice", hint="edit each channel once")
    if edit.kind == "set" and any(one.channel == edit.channel for one in kept):
        raise Refused(
            f"the caller has already written to '{edit.channel}' at this checkpoint",
            hint=f"--replace {_json_for(edit)} replaces that write and the stored value",
        )


def schedule_after_nodes(
    found: EditedState,
    original: model.Checkpoint,
    body: Body,
    key: model.CheckpointKey,
    channels: Iterable[str],
    version: Version,
) -> None:
    """Schedule exactly the tasks that a node's writes on these edges start.

    Source: `apply_writes` in `langgraph/pregel/_algo.py`: edges that are not written are emptied,
    and all changed channels get the same new version.
    """
    if body.v < 4 or body.is_javascript:
        raise Unsupported(
            "cannot use --as-node: it needs a checkpoint of Python's LangGraph 0.5 or later",
            hint="leave it out, then call update_state(..., as_node=NODE) in the application",
        )
    values = _part(found, VALUES)
    versions = _part(found, VERSIONS)
    for name in body.values:
        if name.startswith(BRANCH) or name in _CLEARED:
            values[name] = None
            versions[name] = Put(version)
    for name in channels:
        versions[name] = Put(version)
        if original.blobs is None or holds_values(original):
            values[name] = Put(None)
        else:
            nothing = model.TypedBytes("msgpack", b"\xc0", encrypted=_encryption(original))
            found.blobs.append(model.Record.apart(*key[:2], name, str(version), nothing))
    found.body["updated_channels"] = Put(None)


def raise_version(
    found: EditedState,
    original: model.Checkpoint,
    body: Body,
    key: model.CheckpointKey,
    new: Version,
) -> None:
    """Raise one version above all others of the thread, so that later versions are unused.

    LangGraph.js numbers versions per branch and keeps the first value stored under a number, so two
    branches would share values. Nodes that have seen the old version are recorded as having seen
    the new one.
    """
    channel = raised_channel(body)
    old = body.versions[channel]
    value = stored_value(original, body, channel) or model.TypedBytes("empty", b"")
    found.blobs.append(model.Record.apart(*key[:2], channel, str(new), value))
    _part(found, VERSIONS)[channel] = Put(new)
    seen = {
        node: {channel: Put(new)}
        for node, versions in body.seen.items()
        if versions.get(channel) == old
    }
    if seen:
        found.body[SEEN] = seen


def value_type(original: model.Checkpoint, body: Body) -> str:
    """Return the type tag under which the application's saver stores plain values.

    Without the `+aes` of encrypted values.
    """
    if original.blobs is None and original.body is not None:
        return original.body.type
    if body.is_javascript:
        return "json"
    tags = {blob.type.partition("+")[0] for blob in (original.blobs or {}).values()}
    return "json" if "json" in tags and "msgpack" not in tags else "msgpack"


def with_message_ids(value: Any) -> Any:
    """Return the value with an id for each message; without one it gets a new id at each load.

    Source: `ensure_message_ids`, which LangGraph calls before it stores a caller's writes.
    """
    if isinstance(value, list):
        return [with_message_ids(item) for item in value]
    if isinstance(value, dict) and any(part <= value.keys() for part in _MESSAGE):
        return value if value.get("id") else {**value, "id": random_id()}
    return value


def _edit_value(
    found: EditedState,
    original: model.Checkpoint,
    body: Body,
    key: model.CheckpointKey,
    edit: ChannelEdit,
    version: Version,
) -> None:
    """Replace a stored value under a new version."""
    name = edit.channel
    found.dropped.add(name)
    _part(found, VERSIONS)[name] = Put(version)
    tag = value_type(original, body)
    if edit.kind == "append":
        _check_item(body.values.get(name), edit)
    if original.blobs is None:
        new: Edit = Put(edit.value)
        if edit.kind == "append":
            item = encode_lossless(tag, edit.value)
            new = lambda stored: append_item(model.TypedBytes(tag, stored), item).data  # noqa: E731
        _part(found, VALUES)[name] = new
        return
    value = model.TypedBytes(tag, encode_lossless(tag, edit.value))
    if edit.kind == "append":
        stored = stored_value(original, body, name)
        if stored is None:
            raise Unsupported(f"cannot append to '{name}': its value is not stored")
        value = append_item(stored, encode_lossless(stored.type, edit.value))
    found.blobs.append(model.Record.apart(*key[:2], name, str(version), value))
    if holds_values(original):
        # The body also holds the old value: remove it.
        _part(found, VALUES)[name] = None


def _store_value(
    found: EditedState,
    original: model.Checkpoint,
    key: model.CheckpointKey,
    name: str,
    version: Version,
    stored: model.TypedBytes,
    *,
    is_delta: bool,
) -> None:
    """Put stored bytes in the place of a value, under a new version; for a DeltaChannel a snapshot.

    The caller's writes are kept: LangGraph merges them when it loads the checkpoint.
    """
    values = _part(found, VALUES)
    _part(found, VERSIONS)[name] = Put(version)
    if original.blobs is None:
        values[name] = Put(as_snapshot(stored)) if is_delta else lambda _: stored.data
        return
    if not is_delta:
        found.blobs.append(model.Record.apart(*key[:2], name, str(version), stored))
        if holds_values(original):
            values[name] = None
        return
    snapshot = model.TypedBytes(stored.type, encode_lossless(stored.type, as_snapshot(stored)))
    found.blobs.append(model.Record.apart(*key[:2], name, str(version), snapshot))
    if holds_values(original):
        # PostgreSQL's saver marks a snapshot with this value.
        values[name] = Put(True)


def stored_value(original: model.Checkpoint, body: Body, channel: str) -> model.TypedBytes | None:
    """Return a value as stored, either apart from the body or inside it; None if it is not stored.

    On Redis, LangGraph.js stores the values that changed in the step in the body.
    """
    blob = (original.blobs or {}).get(channel)
    if blob is not None:
        if blob.value is None:
            raise ValueError(f"the value of '{channel}' was not read")
        return blob.value
    if original.body is None or channel not in body.values:
        return None
    found: list[bytes] = []

    def keep(stored: bytes) -> bytes:
        found.append(stored)
        return stored

    set_keys(original.body, {VALUES: {channel: keep}})
    return model.TypedBytes(original.body.type, found[0]) if found else None


def _check_item(value: Value, edit: ChannelEdit) -> None:
    if not isinstance(value, list):
        raise Refused(
            f"cannot append to '{edit.channel}': it does not hold a list",
            hint=f"--replace {_json_for(edit)} replaces its value",
        )
    if any(as_message(item) is not None and isinstance(item, Tagged) for item in value):
        raise Refused(
            f"cannot append plain JSON to '{edit.channel}': its items are message objects",
            hint=f"--set {shell.word(f'{edit.channel}=[...]')} lets the application convert JSON to"
            " messages",
        )


def _json_for(edit: ChannelEdit) -> str:
    return shell.word(f"{edit.channel}=JSON")


def holds_values(original: model.Checkpoint) -> bool:
    """Return whether the body holds small values although other values are stored apart."""
    return original.body is not None and b'"channel_values"' in original.body.data


def _part(found: EditedState, name: str) -> dict[str, Edit]:
    part = found.body.setdefault(name, {})
    if not isinstance(part, dict):
        raise TypeError(f"'{name}' is replaced as a whole")
    return part


def _has_objects(value: Value) -> bool:
    if isinstance(value, list):
        return any(map(_has_objects, value))
    if isinstance(value, Mapping):
        return any(map(_has_objects, value.values()))
    return not isinstance(value, bool | int | float | str | None)


# Write objects in a value that was edited as JSON in the form that the store uses.
#
# No class is known here. An object that the value already contained keeps its stored form. A
# changed or new object is written in the form of a stored object of its class, then decoded and
# compared.


def objects_of(checkpoint: model.Checkpoint, body: Body) -> StoredObjects:
    """Return the objects in a checkpoint and in those of its values that were read."""
    tag = value_type(checkpoint, body)
    values = [blob.value for blob in (checkpoint.blobs or {}).values()]
    stored = [one for one in (checkpoint.body, *values) if one is not None]
    if tag == "bson":
        tag, documents, stored = "msgpack", stored, []

        def keep(leaf: model.TypedBytes) -> model.TypedBytes:
            stored.append(leaf)
            return leaf

        for one in documents:
            map_leaves(one.data, keep)
    return StoredObjects(tag, (one for one in stored if one.type == tag))


class StoredObjects:
    """The objects in some stored values, in their stored form."""

    def __init__(self, tag: str, stored: Iterable[model.TypedBytes]) -> None:
        """`stored` are values with the same type tag as the edited value."""
        self._tag = tag
        self._whole: dict[str, Any] = {}
        """Stored objects by the JSON form of their decoded value."""
        self._by_class: dict[str, list[Any]] = {}
        """Stored objects by class: one of each shape."""
        for node in (node for one in stored for node in _nodes(one)):
            value = self._decoded(node)
            if node == value:
                continue
            self._whole.setdefault(_form(value), node)
            if isinstance(value, Tagged):
                shapes = self._by_class.setdefault(value.type, [])
                if not any(_shape(one) == _shape(node) for one in shapes):
                    shapes.append(node)

    def encodable(self, value: Value) -> Any:
        """Return the value for `encode_lossless`. Raises `UsageError` if it cannot be written."""
        found = self._written(value)
        try:
            encode_lossless(self._tag, found)
        except Unsupported as error:
            raise UsageError(error.message) from None
        return found

    def _written(self, value: Value) -> Any:
        if isinstance(value, list):
            return [self._written(item) for item in value]
        if isinstance(value, str | int | float | None):
            return value
        if (known := self._whole.get(_form(value))) is not None:
            return known
        if isinstance(value, dict):
            return {_key(key): self._written(item) for key, item in value.items()}
        if isinstance(value, bytes):
            return value
        if not isinstance(value, Tagged):
            raise UsageError("a value that is cut or cannot be read cannot be written back")
        for sample in self._by_class.get(value.type, ()):
            for node in self._like(sample, self._written(value.payload)):
                if same(self._decoded(node), value):
                    return node
        raise UsageError(
            f"cannot write an object of class '{value.type}'",
            hint="objects are written like those that the value already holds",
        )

    def _decoded(self, node: Any) -> Value:
        return decode(model.TypedBytes(self._tag, encode_lossless(self._tag, node)))

    def _like(self, sample: Any, payload: Any) -> Iterator[Any]:
        """Yield an object like the sample with another payload, in each possible form."""
        if isinstance(sample, Ext):
            parts = _inside(sample)
            if isinstance(parts, list) and len(parts) > 2:
                parts = [*parts[:2], payload, *parts[3:]]
                yield Ext(sample.code, encode_lossless("msgpack", parts))
            yield Ext(sample.code, encode_lossless("msgpack", payload))
            return
        # A mark and its fields, such as `{"__send__": true, "node": "ask", "arg": {}}`.
        if isinstance(payload, dict) and payload.keys() < sample.keys():
            yield {**sample, **payload}
        elif isinstance(payload, list) and len(payload) == len(sample) - 1:
            mark, *names = sample
            yield {mark: sample[mark], **dict(zip(names, payload, strict=True))}
        for name in ("kwargs", "args"):
            if name in sample:
                yield {**sample, name: payload}
                yield {**sample, name: [payload]}


def _nodes(stored: model.TypedBytes) -> Iterator[Any]:
    """Yield every map and object of a stored value, including those inside objects."""
    try:
        todo = [decode_lossless(stored)]
    except Unsupported:
        return
    for item in todo:
        if isinstance(item, dict):
            todo += item.values()
            if stored.type in JSON_TYPES:
                yield item
        elif isinstance(item, list):
            todo += item
        elif isinstance(item, Ext):
            yield item
            todo.append(_inside(item))


def _inside(node: Ext) -> Any:
    """Return the contents of an object; its bytes if their form is not known."""
    try:
        return decode_lossless(model.TypedBytes("msgpack", node.data))
    except Unsupported:
        return node.data


def _shape(node: Any) -> Any:
    """Return what identifies the form of a stored object, apart from its contents."""
    if isinstance(node, Ext):
        parts = _inside(node)
        rest = parts[3:] if isinstance(parts, list) else None
        return node.code, rest
    return sorted(node)


def _key(key: Value) -> Any:
    if isinstance(key, Tagged) and key.type == TUPLE and isinstance(key.payload, list):
        return tuple(map(_key, key.payload))
    return key


def _form(value: Value) -> str:
    return json.dumps(to_json(value), sort_keys=True)
