"""Changes some entries of a JSON object without changing the spelling of the others."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ckpt_backends.codec.edits import Edit, added_value, changed_value
from ckpt_backends.codec.json.json_plus import DECODER, measure, skip_space


def set_json_keys(data: bytes, edits: Mapping[str, Edit]) -> bytes:
    """The changed text. Raises ValueError if it is not an object, or if something follows it."""
    text = data.decode("utf-8", "surrogatepass")
    changed, end = _set_keys(text, skip_space(text, text.startswith("\ufeff")), edits)
    made = changed.encode("utf-8", "surrogatepass")
    if skip_space(text, end) != len(text):
        raise ValueError("something follows it")
    return made


def append_json(data: bytes, item: bytes) -> bytes:
    """The list with one more item. Raises ValueError if it is not a list."""
    text = data.rstrip()
    if not (text.startswith(b"[") and text.endswith(b"]")):
        raise ValueError("not a list")
    inner = text[1:-1].rstrip()
    comma = b", " if b", " in inner else b","
    return b"[" + inner + (comma if inner else b"") + item + b"]"


def list_items(data: bytes) -> list[bytes]:
    """The items of a list in their spelling. Raises ValueError if it is not a list."""
    return _items(data)[0]


def list_of_json(items: Sequence[bytes], like: bytes) -> bytes:
    """A list of these items, with the spaces of the list `like`."""
    comma = _items(like)[1]
    return b"[" + comma.join(items) + b"]"


def _items(data: bytes) -> tuple[list[bytes], bytes]:
    """The items of a list, and the comma between them with its spaces."""
    text = data.decode("utf-8", "surrogatepass")
    at = skip_space(text, 0)
    if text[at : at + 1] != "[":
        raise ValueError("not a list")
    found: list[bytes] = []
    at, comma = skip_space(text, at + 1), ", " if ", " in text else ","
    while text[at : at + 1] != "]":
        end = measure(text, at).end
        found.append(text[at:end].encode("utf-8", "surrogatepass"))
        at = skip_space(text, end)
        if text[at : at + 1] == ",":
            at = skip_space(text, at + 1)
            comma = text[end:at]
        elif text[at : at + 1] != "]":
            raise ValueError(f"neither comma nor end at character {at}")
    return found, comma.encode()


def _set_keys(text: str, pos: int, edits: Mapping[str, Edit]) -> tuple[str, int]:
    """The changed object at `pos`, and the end of the stored object."""
    if text[pos : pos + 1] != "{":
        raise ValueError("not an object")
    first = at = ended = skip_space(text, pos + 1)
    kept: list[tuple[str, str]] = []  # (text before a member, the member)
    found: set[str] = set()
    before, comma, colon = "", ", ", ": "
    while text[at : at + 1] != "}":
        key, after = DECODER.raw_decode(text, at)
        at_colon = skip_space(text, after)
        if not isinstance(key, str) or text[at_colon : at_colon + 1] != ":":
            raise ValueError(f"no key and colon at character {at}")
        value_at = skip_space(text, at_colon + 1)
        colon = text[after:value_at]
        ended = measure(text, value_at).end
        value: str | None = text[value_at:ended]
        if key in edits:
            found.add(key)
            value = _changed(text, value_at, ended, edits[key])
        if value is not None:
            kept.append((before, text[at:value_at] + value))
        here = skip_space(text, ended)
        if text[here : here + 1] == ",":
            at = skip_space(text, here + 1)
            before = comma = text[ended:at]
        elif text[here : here + 1] == "}":
            at = here
        else:
            raise ValueError(f"neither comma nor end at character {here}")
    if len(kept) < 2 and not colon.endswith(" "):
        comma = ","
    for key, edit in edits.items():
        if key not in found and (added := added_value("json", edit)) is not None:
            kept.append((comma, json.dumps(key, ensure_ascii=False) + colon + added.decode()))
    members = "".join((gap if number else "") + one for number, (gap, one) in enumerate(kept))
    return f"{text[pos:first]}{members}{text[ended:at]}}}", at + 1


def _changed(text: str, pos: int, end: int, edit: Edit) -> str | None:
    if isinstance(edit, Mapping):
        return _set_keys(text, pos, edit)[0]
    stored = text[pos:end].encode("utf-8", "surrogatepass")
    changed = changed_value("json", stored, edit)
    return None if changed is None else changed.decode("utf-8", "surrogatepass")
