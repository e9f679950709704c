"""Converts the parts of a thread from the form of one layout to the form of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace

from ckpt_backends.encryption import (
    has_encrypted_parts,
    is_encrypted,
    map_parts,
    opened_metadata,
    sealed_metadata,
)
from ckpt_backends.model import Encryption, TypedBytes
from ckpt_backends.transfer.bodies import OpenBody, close_body, open_body
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.form import Form, Language, Place, Serializer
from ckpt_backends.transfer.kept_values import KeptValues
from ckpt_backends.transfer.metadata import converted_metadata
from ckpt_backends.transfer.parts import CheckpointPart, Part, ValuePart, WritePart
from ckpt_backends.transfer.pending_sends import TASKS
from ckpt_backends.transfer.plain_values import from_plain_json, plain_json
from ckpt_backends.transfer.sealing import Sealing, place_of, sealed_together
from ckpt_backends.transfer.seen_thread import EMPTY, LastValues, SeenThread, checkpoint_words
from ckpt_backends.transfer.spelling import respelled
from ckpt_backends.transfer.values import apart_type, as_type, converted_value, is_snapshot
from ckpt_backends.transfer.versions import convert_versions, converted_version


class Conversion:
    """Converts threads from one form to another."""

    def __init__(self, source: Form, target: Form, sealing: Sealing) -> None:
        self._source = source
        self._target = target
        self._sealing = sealing
        self.unexpiring = 0
        """Parts so far that expire in the source, and never in the target."""
        self._keeps_writes = (
            source.serializer is target.serializer
            and target.has_task_paths
            and not sealing.changes()
        )
        self._loses_order = source.keeps_write_order and not target.keeps_write_order
        self._keeps_json = target.metadata_type == "json" and not (
            target.encrypts_metadata or target.encrypts_together
        )
        """Whether metadata in JSON is JSON in the target, too, and not encrypted."""
        self._respells_json = target.parses_json and not source.parses_json
        self._keeps_bodies = (
            source.serializer is target.serializer
            and source.values is target.values
            and source.counts_with_integers is target.counts_with_integers
            and set(source.body_types) <= set(target.body_types)
            and source.encrypts_together is target.encrypts_together
        )

    def of_thread(self, parts: Iterable[Part]) -> Iterator[Part]:
        """The parts of one thread in the form of the target.

        Raises `CannotHold` at the first part that the target cannot hold as it is.
        """
        if self._source == self._target and not self._sealing.changes():
            yield from parts
            return
        with closing(KeptValues()) as kept:
            thread = SeenThread(kept, self._target, self._sealing)
            for part in parts:
                if isinstance(part, WritePart):
                    if part.channel == TASKS:
                        thread.sends.note(part)
                    if self._loses_order:
                        thread.order.add(part)
                    yield self._write(part)
                elif isinstance(part, ValuePart):
                    yield from self._value(part, thread)
                else:
                    yield from self._checkpoint(part, thread)
            yield from thread.end(self._target)

    def _write(self, part: WritePart) -> WritePart:
        if self._keeps_writes and part.expires_at is None:
            return part
        where = f"the write to '{part.channel}' at {checkpoint_words(part.key)}"
        has_path = self._target.has_task_paths
        if part.task_path and not has_path and not self._target.keeps_write_order:
            raise CannotHold(f"the target has no column for the task path of {where}")
        return replace(
            part,
            task_path=part.task_path if has_path else "",
            order=part.task_path,
            value=self._moved(part, where),
            expires_at=self._expiry(part),
        )

    def _moved(self, part: WritePart | ValuePart, where: str) -> TypedBytes:
        """A value that is stored by itself here and there."""
        source, target = self._source.serializer, self._target.serializer
        if source is target and not self._sealing.changes():
            return part.value
        opened = self._sealing.opened(part.value, where)
        moved = converted_value(opened, source, target, where)
        return self._sealed(moved, part, where, was_encrypted=opened.encrypted)

    def _sealed(
        self, value: TypedBytes, part: Part, where: str, *, was_encrypted: bool | Encryption
    ) -> TypedBytes:
        """A value of a part, encrypted if it is to be."""
        is_plain = not (was_encrypted or value.encrypted or self._sealing.changes())
        if value.type == EMPTY or is_plain:
            return value
        sealed = self._sealing.sealed(value, place_of(part), was_encrypted=was_encrypted)
        if is_encrypted(sealed) and self._target.serializer is not Serializer.TYPED:
            raise CannotHold(
                f"{where} is encrypted, which the target cannot hold; --decrypt copies it decrypted"
            )
        return sealed

    def _value(self, part: ValuePart, thread: SeenThread) -> Iterator[ValuePart]:
        """A value that the source stores apart from bodies."""
        where = f"version '{part.version}' of channel '{part.channel}'"
        if self._target.values is Place.BODY:
            # Encrypted values stay so: kept values may go to a file.
            thread.kept.put((part.checkpoint_ns, part.channel, part.version), part.value)
            return
        if part.value.type == EMPTY and not self._target.marks_absent:
            return
        version = part.version
        if not self._keeps_bodies:
            version = str(converted_version(version, self._target, where))
        thread.note_apart((part.checkpoint_ns, part.channel, version))
        yield replace(
            part, version=version, value=self._moved(part, where), expires_at=self._expiry(part)
        )

    def _checkpoint(self, part: CheckpointPart, thread: SeenThread) -> Iterator[Part]:
        where = checkpoint_words(part.key)
        metadata = self._metadata(part, where)
        expires_at = self._expiry(part)
        loses_order = self._loses_order and thread.order.may_matter(part)
        if self._keeps_bodies and not loses_order:
            made = CheckpointPart(part.key, part.parent, part.body, metadata, expires_at)
            yield self._resealed(made, where)
            return
        body = self._sealing.opened(part.body, f"the body of {where}")
        known = thread.values_of(part.key.checkpoint_ns)
        found = open_body(body, where, known.stored)
        if loses_order:
            thread.order.check(part, found)
        was_encrypted = body.encrypted
        if self._source.values is not Place.BODY:
            gathered = self._gather(part, found, thread)
            was_encrypted = was_encrypted or gathered
        is_parted = self._source.values is Place.BODY and self._target.values is not Place.BODY
        convert_versions(found, self._target, where, by_value=is_parted)
        self._move_sends(part, found, thread, where)
        thread.note_absent(part.key, found)
        if self._target.values is Place.BODY:
            closed = self._joined(found, where)
        else:
            for value in self._parted(part, found, thread, known, where):
                sealed = self._sealed(value.value, value, where, was_encrypted=was_encrypted)
                yield value if sealed is value.value else replace(value, value=sealed)
            closed = self._closed(found, self._target.body_types[0], where)
        made = CheckpointPart(part.key, part.parent, closed, metadata, expires_at)
        yield self._sealed_body(made, where, was_encrypted=was_encrypted)

    def _closed(self, found: OpenBody, tag: str, where: str) -> TypedBytes:
        target = self._target
        has_values = target.values is not Place.APART
        in_order = target.parses_json
        return close_body(found, tag, where, has_values=has_values, in_order=in_order)

    def _move_sends(
        self, part: CheckpointPart, found: OpenBody, thread: SeenThread, where: str
    ) -> None:
        source, target = self._source, self._target
        is_typed = source.serializer is target.serializer is Serializer.TYPED
        if is_typed and (source.values is Place.BODY) != (target.values is Place.BODY):
            move = thread.sends.put_in if target.values is Place.BODY else thread.sends.leave_out
            move(part, found, where)

    def _resealed(self, part: CheckpointPart, where: str) -> CheckpointPart:
        """A checkpoint whose body fits as it is, encrypted or decrypted if it is to be."""
        if not (self._sealing.changes() and self._target.encrypts_body):
            return part
        body = self._sealing.opened(part.body, f"the body of {where}")
        made = replace(part, body=body)
        return self._sealed_body(made, where, was_encrypted=body.encrypted)

    def _sealed_body(
        self, part: CheckpointPart, where: str, *, was_encrypted: bool | Encryption
    ) -> CheckpointPart:
        """A checkpoint with its body encrypted if it is to be."""
        if not self._target.encrypts_body:
            return part

        def sealed(value: TypedBytes) -> TypedBytes:
            return self._sealed(value, part, where, was_encrypted=was_encrypted)

        if not self._target.encrypts_together:
            body = sealed(part.body)
            return part if body is part.body else replace(part, body=body)
        body, metadata = sealed_together(part.body, part.metadata, sealed)
        return replace(part, body=body, metadata=metadata)

    def _expiry(self, part: Part) -> int | None:
        """When a part expires in the target, in milliseconds since 1970."""
        if part.expires_at is not None and not self._target.expires:
            self.unexpiring += 1
            return None
        return part.expires_at

    def _metadata(self, part: CheckpointPart, where: str) -> TypedBytes:
        source, target = self._source, self._target
        if self._keeps_json and part.metadata.type == "json":
            if has_encrypted_parts(part.metadata) and self._sealing.changes():
                return map_parts(part.metadata, lambda one: self._field(one, part, where))
            return self._spelled(part.metadata)
        fits = source.metadata_type == target.metadata_type and target.encrypts_metadata
        fits &= source.encrypts_together is target.encrypts_together
        if fits and source.encrypts_metadata and not self._sealing.changes():
            return part.metadata
        named = f"the metadata of {where}"
        stored = opened_metadata(part.metadata, lambda one: self._sealing.opened(one, named))
        converted = converted_metadata(stored, target, where)
        if converted.type == "json":
            converted = self._spelled(converted)
        if not target.encrypts_metadata or target.encrypts_together:
            return converted
        was = stored.encrypted or is_encrypted(part.body)
        return sealed_metadata(
            converted, lambda one: self._sealed(one, part, named, was_encrypted=was)
        )

    def _field(self, field: TypedBytes, part: CheckpointPart, where: str) -> TypedBytes:
        """An encrypted field of metadata in JSON."""
        opened = self._sealing.opened(field, f"the metadata of {where}")
        return self._sealing.sealed(opened, place_of(part), was_encrypted=opened.encrypted)

    def _spelled(self, metadata: TypedBytes) -> TypedBytes:
        """Metadata in JSON as the target spells it."""
        return TypedBytes("json", respelled(metadata.data)) if self._respells_json else metadata

    def _gather(
        self, part: CheckpointPart, found: OpenBody, thread: SeenThread
    ) -> bool | Encryption:
        """Add the values that are stored apart to an open body, if the target has them in bodies.

        Returns whether one of them was encrypted, and in which form.
        """
        if self._target.values is not Place.BODY:
            return False
        was_encrypted: bool | Encryption = False
        values: dict[str, TypedBytes] = {}
        for channel, version in found.versions.items():
            value = thread.kept.get((part.key.checkpoint_ns, channel, version))
            if value is not None and value.type != EMPTY:
                value = self._sealing.opened(value, f"version '{version}' of channel '{channel}'")
                was_encrypted = was_encrypted or value.encrypted
                values[channel] = value
            elif channel in found.values:
                values[channel] = found.values[channel]
        found.values = found.values | values
        return was_encrypted

    def _joined(self, found: OpenBody, where: str) -> TypedBytes:
        """A body with all values in it."""
        tag = self._target.body_types[0]
        kinds = {value.type for value in found.values.values()}
        if kinds <= {"json", "null"} and "json" in self._target.body_types:
            # Old releases wrote values as JSON. Some of its objects have no equal form in msgpack.
            objects = any(value.data[:1] in (b"{", b"[") for value in found.values.values())
            tag = "json" if objects else tag
        source, target = self._source.serializer, self._target.serializer
        for channel, value in found.values.items():
            named = f"channel '{channel}' of {where}"
            plain = from_plain_json(value) if tag == "msgpack" else None
            moved = plain or converted_value(value, source, target, named, in_body=True)
            found.values[channel] = as_type(moved, tag, named, target)
        return self._closed(found, tag, where)

    def _parted(
        self,
        part: CheckpointPart,
        found: OpenBody,
        thread: SeenThread,
        known: LastValues,
        where: str,
    ) -> Iterator[ValuePart]:
        """The values of a body that are stored apart in the target, each version once.

        What stays in the body remains in `found`. `known` has the last values of the namespace.
        """
        stays: dict[str, TypedBytes] = {}
        versions = found.versions
        source, target = self._source, self._target
        here, there = source.serializer, target.serializer
        for channel, stored in found.values.items():
            if known.is_same(channel, stored, versions.get(channel)):
                if (stayed := known.stays[channel]) is not None:
                    stays[channel] = stayed
                continue
            named = f"channel '{channel}' of {where}"
            place = (part.key.checkpoint_ns, channel, versions.get(channel, ""))
            plain = plain_json(stored) if target.values is Place.APART_BUT_PLAIN else None
            if plain is not None:
                stays[channel] = plain
                if channel in versions:
                    thread.is_new(place, plain, named, is_apart=False)
                    known.note(channel, stored, versions[channel], plain)
                continue
            if channel not in versions and here is Serializer.JAVASCRIPT:
                # The first value of a channel, which no step has set. LangGraph.js makes it anew,
                # and its own savers that store values apart leave it out.
                continue
            if channel not in versions and target.language is Language.JAVASCRIPT:
                continue  # LangGraph.js stores the start value of a channel that nobody has written
            if channel not in versions:
                raise CannotHold(f"{named} has a value, but no version")
            was_plain = from_plain_json(stored) if source.values is Place.APART_BUT_PLAIN else None
            value = apart_type(was_plain or stored)
            if here is not there:
                value = apart_type(converted_value(value, here, there, named, in_body=True))
            if thread.is_new(place, value, named):
                yield ValuePart(
                    part.key.thread_id, *place, value, part.expires_at if target.expires else None
                )
            if is_snapshot(value) and target.values is Place.APART_BUT_PLAIN:
                stays[channel] = TypedBytes("json", b"true")
            known.note(channel, stored, versions[channel], stays.get(channel))
        found.values = stays
