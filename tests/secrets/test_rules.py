"""Each form is found as a whole, examples are not, and no text makes the search stall."""

import ast
import pkgutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from ckpt_backends.codec.values import Tagged
from ckpt_cli.core.secrets import (
    MASK,
    Scanner,
    SecretRule,
    TextRules,
    known_kinds,
    own_rules,
    rule_table,
)
from tests.kit.cases import cases
from tests.secrets.credentials import credentials

KNOWN = credentials()


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner()


@pytest.mark.parametrize("kind", KNOWN)
@pytest.mark.parametrize("around", [("", ""), ("key: ", "."), ('{"a": "', '"}'), ("\n", "\n")])
def test_a_form_is_found_as_a_whole(scanner: Scanner, kind: str, around: tuple[str, str]) -> None:
    for seed in range(3):
        text = credentials(seed)[kind]
        (part,) = scanner.parts(text.join(around))
        assert (part.kind, part.path) == (kind, ())
        # A token may take a full stop with it.
        assert text in part.text + "."
        assert len(part.text) <= len(text) + 1


def test_every_kind_of_a_rule_is_planted_somewhere() -> None:
    by_context = {
        *("password", "api-key", "secret-key", "access-token", "url-password", "assigned-secret"),
        *("authorization-header", "aws-secret-key", "azure-sas"),
    }
    rare = {"langfuse-key", "linear-key", "notion-token", "atlassian-token"}
    old = {"cloudant-key", "ibm-cloud-key", "softlayer-key"}
    assert set(known_kinds()) == {*KNOWN, *by_context, *rare, *old}


@cases(
    "kind text secret",
    ("assigned-secret", "export DB_PASSWORD='{}'\n", "Tr0ub4dor&3x"),
    ("assigned-secret", '{{"client_secret": "{}", "n": 1}}', "V1StGXR8Z5jdHi6BmyT"),
    ("assigned-secret", 'args: {{\\"api_key\\": \\"{}\\"}}', "V1StGXR8Z5jdHi6BmyT"),
    ("authorization-header", "Authorization: Bearer {}", "V1StGXR8Z5jdHi6BmyT9qL"),
    ("authorization-header", "authorization: basic {}", "YW5uYTpUcjB1YjRkb3ImMw=="),
    ("url-password", "see redis://:{}@cache:6379/0", "p4ss-w0rd"),
    ("aws-secret-key", KNOWN["aws-access-key"] + " {} us", "wJa1rXUtnFEMIK7MDENG" * 2),
    ("azure-sas", "https://x.blob.core.windows.net/c?se=1&sig={}&sp=r", "aB3" * 14 + "c%3D"),
)
def test_what_is_around_tells_a_secret(scanner: Scanner, kind: str, text: str, secret: str) -> None:
    found = {one.kind: one.text for one in scanner.parts(text.format(secret))}
    assert found[kind] == secret


@cases(
    "value",
    *(
        {"password": text}
        for text in (
            *("***", "********", "changeme", "<password>", "${DB_PASSWORD}", "{{ pw }}"),
            *("string", "None", "REDACTED", "your-password", "DB_PASSWORD", "vault:db/pw"),
            *("", "12345678", "the password of the user", "xxxxxxxx", "[erased]", "required"),
            *("https://example.com/reset", "6f1b2c3d-0000-4000-8000-123456789abc", "..."),
        )
    ),
    {"password": None, "secret": 4711, "api_key": True, "token": 12.5},
    {"password": {"type": "string", "description": "The password"}},
    {"api_key": "OPENAI_API_KEY"},
    {"api_key": "sk-..."},
    {"token": "hello"},
    {"next_page_token": "CAUQAA9xkLm31mPq0LxW9"},
    {"max_tokens": "4096", "token_count": "12"},
    {"idempotency_key": "V1StGXR8Z5jdHi6BmyT", "cache_key": "V1StGXR8Z5jdHi6BmyT"},
    {"id": "run--6f1b2c3d-0000-4000-8000-123456789abc", "tool": "call_V1StGXR8Z5jdHi6BmyT9qLx"},
    {"name": "password", "value": "required"},
    "ghp_" + "x" * 36,
    "sk-" + "ant-api03-" + "x" * 95,
    "postgresql://user:password@localhost/db and https://me:${TOKEN}@example.com",
    "http://localhost:8080/@scope/name and mailto:a@example.com",
    "Use `Authorization: Bearer <token>`, or a bearer of internationalization.",
    "Basic information-about-2024-events, and basic internationalization2",
    "API_KEY = get_key_of_user_42()",
    '{"password": "string", "token": "abc", "secret_name": "db-credentials-secret"}',
    "eyJ" + "hbGciOi.not.json",
    "3f786850e387550fdab836ed7e6dc881de23001b",
    "-----BEGIN PRIVATE KEY-----",
    ids=repr,
)
def test_examples_are_no_secrets(scanner: Scanner, value: object) -> None:
    assert list(scanner.parts(value)) == []  # type: ignore[arg-type]


@cases(
    "text",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + "a" * 36,
    "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "sk-" + "ant-api03-" + "0" * 93 + "AA",
    "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "SG." + "a" * 22 + "." + "b" * 43,
)
def test_a_token_that_could_be_real_is_found_however_plain(scanner: Scanner, text: str) -> None:
    assert [one.text for one in scanner.parts(f"use {text} now")] == [text]


def test_an_object_is_searched_once_and_paths_skip_its_class(scanner: Scanner) -> None:
    token = KNOWN["groq-key"]
    message = Tagged("m.HumanMessage", {"content": [{"text": token}], "id": "1"})
    value = {"messages": [Tagged("builtins.tuple", [message, message])]}
    found = [one.path for one in scanner.parts(value)]  # type: ignore[arg-type]
    assert found == [("messages", 0, n, "content", 0, "text") for n in (0, 1)]


def test_a_key_that_is_a_secret_is_in_no_path(scanner: Scanner) -> None:
    token, other = KNOWN["groq-key"], KNOWN["npm-token"]
    found = list(scanner.parts({"a": [{token: {"deep": [other]}}]}))
    assert [(one.path, one.kind) for one in found] == [
        (("a", 0), "groq-key"),
        (("a", 0), "npm-token"),
    ]
    assert scanner.masked(f"user {token}!") == f"user {MASK}!"
    assert scanner.masked("user-42") == "user-42"


def test_the_name_of_a_field_may_be_given(scanner: Scanner) -> None:
    (one,) = scanner.parts("Tr0ub4dor&3", key="db_password")
    assert (one.kind, one.text) == ("password", "Tr0ub4dor&3")
    assert list(scanner.parts("Tr0ub4dor&3", key="name")) == []


def test_a_secret_is_found_wherever_long_texts_are_cut(scanner: Scanner) -> None:
    random, key = Random(3), KNOWN["private-key"]
    filler = "lorem ipsum dolor " * 12_000
    for at in (0, 48_000, 49_152 - len(key) // 2, 65_536 - len(key) // 2, 65_530, 98_300):
        start = at + random.randrange(20)
        text = filler[:start] + key + " " + filler[start:]
        assert [one.text for one in scanner.parts(text)] == [key]
    tokens = [credentials(seed)["groq-key"] for seed in range(400)]
    spread = "".join(f"{filler[:900]}{one} " for one in tokens)
    assert [one.text for one in scanner.parts(spread)] == tokens


@cases(
    "text",
    "eyJ" * 100_000,
    "//_authToken=" * 20_000,
    "-----BEGIN PRIVATE KEY-----" * 10_000,
    "AKIA" + "Q" * 200_000,
    "a://a:" * 40_000,
    '"api_key' * 30_000,
    "bearer " * 40_000,
    " " * 200_000 + "PASSWORD",
    "A" * 200_000 + "_PASSWORD",
    "xoxb-1-" * 30_000,
    "\ud800password\x00" * 20_000,
    ids=lambda text: text[:12],
)
def test_hostile_texts_are_searched_to_the_end(scanner: Scanner, text: str) -> None:
    token = KNOWN["npm-token"]
    assert token in {one.text for one in scanner.parts(f"{text}\n{token}\n")}
    assert scanner.stopped == 0


def test_a_rule_that_takes_too_long_is_counted_and_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ckpt_cli.core.secrets._SECONDS", 0.05)
    slow = SecretRule("slow", r"(?:a|aa)+$", ("a",))
    rules = TextRules([slow, *own_rules()])
    for n in range(5):
        text = "a" * 60 + f"b {KNOWN['npm-token']} {n}"
        assert [one.kind for one in rules.find(text)] == ["npm-token"]
    assert rules.stopped == 3


def test_every_detector_of_the_library_is_used_or_left_out() -> None:
    package = import_module("detect_secrets.plugins")
    found = set()
    for module in pkgutil.iter_modules(package.__path__):
        spec = find_spec(f"detect_secrets.plugins.{module.name}")
        assert spec is not None
        assert spec.origin is not None
        tree = ast.parse(Path(spec.origin).read_text("utf-8"))
        found |= {
            one.name
            for one in tree.body
            if isinstance(one, ast.ClassDef)
            and any(
                isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "secret_type"
                for part in one.body
            )
        }
    table = rule_table()
    assert found == {*table["left_out"], *(one["name"] for one in table["detectors"])}
