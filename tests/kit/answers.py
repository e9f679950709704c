"""Each answer in JSON that a test prints is as its JSON Schema says."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from ckpt_backends.testing.command_line import CommandResult
from ckpt_cli.answers import ANSWERS, LINES, SAME_AS, schema_of
from ckpt_cli.app import root


def check_answer(argv: list[str], result: CommandResult) -> None:
    """Fail the test if an answer in JSON is not what the schema of its command says."""
    form = _form(argv)
    if form is None or result.code not in {0, 1, 7}:
        return
    answers = _closest(argv)
    try:
        found = [json.loads(line) for line in (result.raw.splitlines() if form else [result.raw])]
    except ValueError:  # nothing, or half of an answer
        return
    assert answers, f"{argv} prints JSON that no answer of ckpt_cli.answers describes"
    for record in found:
        errors = [list(_strict(one, is_item=form).iter_errors(record)) for one in answers]
        if all(errors):
            told = [f"{one.json_path}: {one.message[:300]}" for one in errors[0]]
            raise AssertionError(f"{argv} does not print the answer {answers[0]!r}: {told}")


def _form(argv: list[str]) -> bool | None:
    """Whether each line is a record, or all is one; None if it is no JSON."""
    last = None
    if "--raw" in argv or "jsonl" in argv:  # prints what is stored
        return None
    for word, following in zip(argv, [*argv, ""][1:], strict=True):
        if word in {"-o", "--output"}:
            last = following
        elif word.startswith(("-o", "--output=")):
            last = word.removeprefix("--output=").removeprefix("-o")
    return {"json": False, "ndjson": True}.get(last or "")


def _closest(argv: list[str]) -> list[str]:
    """Return the answers with the most options of a command line; several differ in arguments."""
    command = root().named_in(argv).split()
    given = set(argv) | {part for one in argv for part in one.split("=", 1)}
    found: dict[int, list[str]] = {}
    for name in {*ANSWERS, *SAME_AS}:
        words = name.split()
        options = [one for one in words[len(command) :] if not one.isupper()]
        if words[: len(command)] == command and given.issuperset(options):
            found.setdefault(len(options), []).append(name)
    return found[max(found)] if found else []


@cache
def _strict(name: str, *, is_item: bool) -> Draft202012Validator:
    schema = schema_of(SAME_AS.get(name, name))
    if is_item and name in LINES:
        schema = LINES[name].schema
    elif is_item:
        schema = _item(schema)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(_closed(schema))


def _item(schema: Any) -> Any:
    if "anyOf" in schema:
        return {**schema, "anyOf": [_item(one) for one in schema["anyOf"]]}
    return schema["items"] if schema.get("type") == "array" else schema


def _closed(schema: Any) -> Any:
    """Return a schema that allows no keys but its own."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(one) for key, one in schema.items()}
    if isinstance(schema.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed
