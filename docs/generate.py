"""Writes all that the documents quote from the program.

That is docs/cli.md, the console blocks in README.md, docs/tour.md and docs/incidents.md, the matrix
in docs/stores.md, the codes and their matrix in docs/doctor.md, the keys in docs/tui.md, the
matrices in docs/copy.md, the tables in docs/sql.md, and the keys of answers in docs/json.md and
docs/schema. Run it after a change of an option or of
printed text: `python docs/generate.py`. A test compares each of them with what the program prints.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from ckpt_backends.declaration import LAST_STORED, Backend, bundled, is_read_only, layouts
from ckpt_backends.model import Capability as C
from ckpt_backends.transfer.copying import languages_of, refusal
from ckpt_backends.transfer.form import Language
from ckpt_cli.answers import ANSWERS, file_name, schema_of
from ckpt_cli.app import root
from ckpt_cli.core.doctor.findings import CODES
from ckpt_cli.core.support_matrix import LIMITS, limit
from ckpt_cli.output import Output
from ckpt_cli.run import run
from ckpt_cli.session import Session
from ckpt_cli.sql.tables import TABLES

DOCS = Path(__file__).parent
TARGET = DOCS / "cli.md"
STORES = DOCS / "stores.md"
CHECKS = DOCS / "doctor.md"
COPIES = DOCS / "copy.md"
QUERIES = DOCS / "sql.md"
SCREEN = DOCS / "tui.md"
KEYS = DOCS / "json.md"
SCHEMAS = DOCS / "schema"
TOURS = (DOCS.parent / "README.md", DOCS / "tour.md", DOCS / "incidents.md")
"""Documents with console blocks, whose `$ ckpt` lines are run on the sample store."""
NOW = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
"""The time at which console blocks are run, so that ages do not change."""
_END = "<!-- end -->\n"


def reference() -> str:
    """The text of docs/cli.md."""
    parts = [
        "# Commands",
        "The output of each command's `--help`; [the tour](tour.md) shows them in use.",
    ]
    for words in ("", *(name for name, _ in root().walk())):
        title = f"ckpt {words}".strip()
        parts += [f"## `{title}`", f"```text\n{_help(words.split())}\n```"]
    return "\n\n".join(parts) + "\n"


def stores(text: str) -> str:
    """The text of docs/stores.md with its matrix made anew."""
    return _between("<!-- matrix -->\n", _matrix(), text)


def checks(text: str) -> str:
    """The text of docs/doctor.md with its table of codes made anew."""
    columns = ["code", "severity", "what is wrong", "the usual cause", "fix, where it mends", "see"]
    rows = [columns, ["---"] * len(columns)]
    for name, code in CODES.items():
        deep = " `--deep`" if code.is_deep else ""
        told = [f"`ckpt {one}`" if one else "" for one in (code.fix, code.look)]
        if any(name in one.partition(":")[::2] for back in bundled() for one in back.mended_faults):
            told[0] = told[0] or "the statement in the finding"
        rows.append([f"`{name}`{deep}", code.severity.value, code.what, code.cause, *told])
    renewed = _between("<!-- codes -->\n", _table(rows), text)
    backends = dict(sorted((name, one) for one in bundled() for name in one.layouts))
    renewed = _between("<!-- occurrence -->\n", _occurrence(backends), renewed)
    return _between("<!-- fixes -->\n", _fixes(backends), renewed)


def copies(text: str) -> str:
    """The text of docs/copy.md with the matrix of each language made anew."""
    for language in Language:
        text = _between(f"<!-- {language.value} -->\n", _routes(language), text)
    return text


def tables(text: str) -> str:
    """The text of docs/sql.md with the reference of tables made anew."""
    parts = []
    for table in TABLES.values():
        rows = [["column", "type", "reads", "what"], ["---"] * 4]
        for one in table.columns:
            unit = f" In {one.unit}." if one.unit == "tokens" else ""
            rows.append([f"`{one.name}`", f"`{one.type}`", one.needs.value, f"{one.text}{unit}"])
        parts.append(f"### `{table.name}`\n\n{table.text}\n\n{_table(rows)}")
    return _between("<!-- tables -->\n", "\n".join(parts), text)


def keys(text: str) -> str:
    """The text of docs/json.md with the keys of each answer made anew."""
    parts = []
    shown: dict[str, str] = {}
    for name in ANSWERS:
        schema = schema_of(name)
        kind = "A list. " if schema.get("type") == "array" else ""
        parts.append(f"### `{name}`\n\n{kind}{schema['description']}")
        same = [(one, shown.setdefault(json.dumps(one), name)) for one in _forms(schema)]
        others = list(dict.fromkeys(f"`{other}`" for _, other in same if other != name))
        own = {"anyOf": [one for one, other in same if other == name]}
        rows = [[f"`{key}`", kind, what] for key, kind, what in _nested("", own, {})]
        if rows:
            parts.append(_table([["key", "type", "what"], ["---"] * 3, *rows]).rstrip())
        if others:
            parts.append(f"Its keys are {'also ' if rows else ''}those of {', '.join(others)}.")
        link = file_name(name)
        parts.append(f"[{link}](schema/{link})")
    return _between("<!-- answers -->\n", "\n\n".join(parts) + "\n", text)


def _forms(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the forms of an answer, or of its items, without what is particular to a file."""
    if "items" in schema:
        yield from _forms(schema["items"])
    elif "anyOf" in schema:
        for one in schema["anyOf"]:
            yield from _forms(one)
    else:
        yield {key: one for key, one in schema.items() if key not in {"$schema", "$id", "title"}}


def schemas() -> Mapping[str, str]:
    """The text of each file in docs/schema, by its name."""
    return {file_name(name): f"{json.dumps(schema_of(name), indent=2)}\n" for name in ANSWERS}


def _nested(
    path: str, schema: Mapping[str, Any], told: dict[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield path, type and text of each key of an answer; `[]` is an item, `*` is any key.

    An object with the keys of one that was told before only names that.
    """
    for one in schema.get("anyOf", ()):
        yield from _nested(path, one, told)
    if "items" in schema:
        yield from _nested(f"{path}[]" if path else "", schema["items"], told)
    if "additionalProperties" in schema:
        yield from _nested(f"{path}.*" if path else "*", schema["additionalProperties"], told)
    if "properties" in schema:
        same = told.setdefault(json.dumps(schema["properties"]), path)
        if same != path:
            yield f"{path}. …", "", f"The keys of `{same}`."
            return
    for key, one in schema.get("properties", {}).items():
        inner = f"{path}.{key}" if path else key
        kind = _kind(one) + ("" if key in schema["required"] else ", may be absent")
        yield inner, kind, one["description"]
        yield from _nested(inner, one, told)


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join("null" if one is None else f"`{one}`" for one in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    names = {"array": "list", "date-time": "time"}
    given = schema.get("type", "any")
    kinds = [given] if isinstance(given, str) else given
    found = [names.get(schema.get("format", one), names.get(one, one)) for one in kinds]
    if len(kinds) > 1:
        found[-1] = "null"
    return " or ".join(found)


def _routes(language: Language) -> str:
    """The sources by targets, for the threads of one language, with the reasons for each "no"."""
    names = [one for one in layouts() if language in (languages_of(one) or (Language.PYTHON,))]
    refused = {one: {other: refusal(one, other, language) for other in names} for one in names}
    targets = [one for one in names if not all(refused[other][one] for other in names)]
    numbers: dict[str, int] = {}
    rows = [["from \\ to", *(f"`{name}`" for name in targets)], ["---"] * (len(targets) + 1)]
    closed: dict[str, list[str]] = {}
    for one in names:
        reasons = [refused[one][other] for other in targets]
        cells = [
            f"no ({numbers.setdefault(why, len(numbers) + 1)})" if why else "yes" for why in reasons
        ]
        rows.append([f"`{one}`", *cells])
        if one not in targets and targets:
            closed.setdefault(refused[targets[0]][one], []).append(one)
    notes = "".join(f"{number}. {reason}\n" for reason, number in numbers.items())
    sources = "".join(
        f"These are sources only: {', '.join(f'`{name}`' for name in names)}. The reason: {why}.\n"
        for why, names in closed.items()
    )
    return "\n".join(filter(None, (_table(rows), notes, sources)))


def _table(rows: Iterable[Iterable[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def screen(text: str) -> str:
    """The text of docs/tui.md with its keys made anew."""
    from ckpt_cli.tui.keys import MEMORY_GROUP, WRITING_GROUPS

    groups = (*WRITING_GROUPS, MEMORY_GROUP)
    tables = "\n".join(_keys(group.heading, group.rows) for group in groups)
    return _between("<!-- keys -->\n", tables, text)


def tour(text: str) -> str:
    """A document with the output of each command in its console blocks made anew."""

    def rerun(block: re.Match[str]) -> str:
        lines = [line for line in block[1].splitlines() if line.startswith("$ ")]
        return "```console\n" + "\n".join(f"{line}\n{_printed(line)}" for line in lines) + "```"

    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        patch.object(Session, "now", NOW),
        patch.object(Output, "width", 100),
        patch(
            "random.SystemRandom.getrandbits", return_value=0xA9E2C04B1F7D
        ),  # of the ids in plans
        patch.dict(os.environ, {"TZ": "UTC"}),
    ):
        time.tzset()
        run(["demo", "sample.db", "-q"])
        return _CONSOLE.sub(rerun, text)


_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _printed(line: str) -> str:
    """What a terminal of 100 columns shows, without notes."""
    words = shlex.split(line)[2:]
    form = [] if "-o" in words else ["-o", "table"]
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([*words, *form, "-q"])
        out.flush()
    if code != 0:
        raise RuntimeError(f"{line} ended with {code}: {err.getvalue()}")
    text = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    return "".join(f"{one.rstrip()}\n" for one in text.splitlines())


def _keys(heading: str, keys: Iterable[tuple[str, str]]) -> str:
    rows = [(heading, ""), ("---", "---"), *((f"`{name}`", text) for name, text in keys)]
    return "".join(f"| {name} | {text} |\n" for name, text in rows)


def _between(begin: str, made: str, text: str) -> str:
    """A text with the part between a mark and the end mark replaced."""
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{made}{_END}{rest.partition(_END)[2]}"


def _matrix() -> str:
    """Commands by layouts; below it, the reasons of cells that are not `yes`."""
    reasons: dict[tuple[str, str], int] = {}
    rows = [["command", *(f"`{name}`" for name in layouts())], ["---"] * (len(layouts()) + 1)]
    for command in LIMITS:
        cells = [f"`{command}`"]
        for can in layouts().values():
            found = limit(command, can)
            if found is None:
                cells.append("yes")
            else:
                number = reasons.setdefault((found.cell, found.why), len(reasons) + 1)
                cells.append(f"{found.cell} ({number})")
        rows.append(cells)
    notes = "".join(f"{number}. {cell}: {why}\n" for (cell, why), number in reasons.items())
    return f"{_table(rows)}\n{notes}"


def _help(words: list[str]) -> str:
    """A command's help. Only the root's includes the options that all commands share."""
    printed = io.StringIO()
    with (
        patch.dict(os.environ, {"TERMINAL_WIDTH": "100", "_TYPER_FORCE_DISABLE_TERMINAL": "1"}),
        contextlib.redirect_stdout(printed),
    ):
        run([*words, "--help"])
    lines = [line.rstrip() for line in printed.getvalue().strip().splitlines()]
    shared = next((at for at, line in enumerate(lines) if "─ Global options ─" in line), None)
    return "\n".join(lines[:shared] if words else lines)


# Where each code of a finding can occur, and what mends it there.

_NOTHING = C(0)
STATEMENT = "statement"
"""What mends a fault of an engine, in place of a command."""


class Obstacle(NamedTuple):
    """Why a code cannot occur: a capability that a layout lacks, or a trait that it has."""

    why: str
    lacking: C = _NOTHING
    having: C = _NOTHING

    def applies(self, can: C) -> bool:
        return self.lacking not in can or bool(self.having & can)


_NO_HISTORY = Obstacle("keeps the newest checkpoint only", lacking=C.HISTORY)
_NO_WRITES = Obstacle("stores no writes of tasks", lacking=C.WRITES)
_ONE_STATE = Obstacle("keeps the values of the newest checkpoint only", having=C.LATEST_VALUES)
_NO_BODY = Obstacle("stores values only, no checkpoints and no metadata", having=C.VALUES_ONLY)
_NO_VERSIONS = Obstacle("stores values only, without versions", having=C.VALUES_ONLY)
_DONE_WRITES = Obstacle(
    "stores writes with the checkpoint that they produced", having=C.VALUES_ONLY
)
_INSIDE = Obstacle("values are stored inside checkpoints", having=C.INLINE_VALUES)
_BY_TIME = Obstacle(LAST_STORED, having=C.VALUES_ONLY)

OBSTACLES: Mapping[str, tuple[Obstacle, ...]] = {
    "value-missing": (_INSIDE, _NO_VERSIONS),
    "body-unreadable": (_NO_BODY,),
    "state-mismatch": (_NO_HISTORY, _NO_WRITES, _ONE_STATE),
    "delta-unanchored": (_NO_HISTORY, _NO_WRITES, _NO_VERSIONS),
    "state-by-library": (_NO_HISTORY, _NO_WRITES, _NO_VERSIONS),
    "branches-share-value": (_NO_HISTORY, _INSIDE, _NO_VERSIONS),
    "step-uncommitted": (_NO_WRITES, _DONE_WRITES),
    "resume-stale": (_NO_WRITES, _DONE_WRITES),
    "answer-unused": (_NO_WRITES, _DONE_WRITES),
    "head-not-newest": (_NO_HISTORY,),
    "id-not-increasing": (_NO_HISTORY, _BY_TIME),
    "parent-missing": (_NO_HISTORY,),
    "write-orphaned": (
        _NO_WRITES,
        Obstacle("its saver leaves writes of replaced checkpoints", lacking=C.HISTORY),
    ),
    "value-orphaned": (
        _INSIDE,
        _ONE_STATE,
        Obstacle("keeps one value of each channel", lacking=C.HISTORY),
    ),
    "namespace-orphaned": (_NO_HISTORY, _NO_BODY),
    "memory-of-abandoned-branch": (_NO_HISTORY, _NO_BODY),
    "messages-emptied": (_NO_HISTORY, _NO_BODY, _NO_WRITES),
}
"""Why codes cannot occur, as far as capabilities tell; the first that applies counts."""

ENGINES: Mapping[str, str] = {
    "rows-hidden": "the engine refuses to read what a user may not see",
    "file-damaged": "the engine checks its files itself",
    "value-replaced": "LangGraph.js has no such saver, or the engine refuses such values",
    "keys-evicted": "the engine removes no rows by itself",
    "saver-limit": "its saver depends on no setting that is known",
    "index-missing": "its saver creates no index",
    "schema-old": "its saver has no migrations",
    "ttl-partial": "its rows do not expire one by one",
    "index-stale": "no index or pointer can disagree with the rows",
    "journal-hot": "the engine has no rollback journal beside its file",
    "log-large": "the engine bounds its log",
    "space-free": "the engine reports no unused space",
    "document-near-limit": "values have no limit that a state comes close to",
}
"""Codes of engines, each with the reason where a backend does not declare it."""


def why_not(code: str, layout: str, backend: Backend) -> str:
    """Return why a code cannot occur on a layout of a backend; `''` if it can."""
    can = backend.layouts[layout]
    found = next((one for one in OBSTACLES.get(code, ()) if one.applies(can)), None)
    if found is not None:
        return found.why
    names = (f"{layout}:{code}", code)
    for name in names:
        if name in backend.impossible_faults:
            return backend.impossible_faults[name]
    is_declared = any(name in backend.engine_faults for name in names)
    return "" if is_declared else ENGINES.get(code, "")


def mended_by(code: str, layout: str, backend: Backend) -> str:
    """Return what mends findings of a code on a layout: the name of a command, or `statement`.

    `''` if no finding has a fix. A finding has one only if a plan shows that it is mended by it.
    """
    names = {f"{layout}:{code}", code}
    if why_not(code, layout, backend) or not names.isdisjoint(backend.unmended_faults):
        return ""
    if not names.isdisjoint(backend.mended_faults):
        return STATEMENT
    words = CODES[code].fix.split()
    command = next((one for one in LIMITS if one.split() == words[: len(one.split())]), "")
    if not command:
        return ""
    found = limit(command, backend.layouts[layout], read_only=is_read_only(backend))
    return "" if found is not None and found.cell == "no" else command


def _occurrence(backends: Mapping[str, Backend]) -> str:
    """Codes by layouts; below it, the reasons of cells that are not `found`."""
    reasons: dict[str, int] = {}
    rows = [["code", *(f"`{name}`" for name in backends)], ["---"] * (len(backends) + 1)]
    for code in CODES:
        cells = [f"`{code}`"]
        for name, backend in backends.items():
            why = why_not(code, name, backend)
            cells.append(f"({reasons.setdefault(why, len(reasons) + 1)})" if why else "found")
        rows.append(cells)
    notes = "".join(f"{number}. {why}\n" for why, number in reasons.items())
    return f"{_table(rows)}\n{notes}"


def _fixes(backends: Mapping[str, Backend]) -> str:
    """Codes by layouts: `yes` where the command mends it, or `statement`; `none` where nothing
    does, and an empty cell where it cannot occur.
    """
    rows = [["code", "fix", *(f"`{name}`" for name in backends)], ["---"] * (len(backends) + 2)]
    for code in CODES:
        found = {name: mended_by(code, name, one) for name, one in backends.items()}
        commands = [f"`{one}`" for one in sorted({*found.values()} - {"", STATEMENT})]
        cells = [
            STATEMENT
            if found[name] == STATEMENT
            else "yes"
            if found[name]
            else ""
            if why_not(code, name, one)
            else "none"
            for name, one in backends.items()
        ]
        rows.append([f"`{code}`", *(commands or [""]), *cells])
    return _table(rows)


if __name__ == "__main__":
    TARGET.write_text(reference(), "utf-8")
    marked = (
        *((STORES, stores), (CHECKS, checks), (SCREEN, screen), (COPIES, copies)),
        *((QUERIES, tables), (KEYS, keys)),
    )
    for path, renewed in (*marked, *((one, tour) for one in TOURS)):
        path.write_text(renewed(path.read_text("utf-8")), "utf-8")
    made = schemas()
    for old in SCHEMAS.glob("*.json"):
        if old.name not in made:
            old.unlink()
    for name, renewed_schema in made.items():
        (SCHEMAS / name).write_text(renewed_schema, "utf-8")
