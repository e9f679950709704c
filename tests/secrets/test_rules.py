"""Each form is found as a whole, examples are not, and no text makes the search stall."""

import ast
import pkgutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from ckpt_backends.codec.values import Tagged
from ckpt_cli.core.secrets import MASK, Scanner, SecretRule, TextRules, own_rules, rule_table
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


@cases(
    "kind text secret",
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
            *("***", "changeme", "<password>", "${DB_PASSWORD}", "{{ pw }}", "REDACTED"),
            *("your-password", "vault:db/pw", "", "12345678", "the password of the user"),
            *("[erased]", "https://example.com/reset", "6f1b2c3d-0000-4000-8000-123456789abc"),
        )
    ),
    {"password": None, "secret": 4711, "api_key": True, "token": 12.5},
    {"password": {"type": "string", "description": "The password"}},
    {"api_key": "OPENAI_API_KEY"},
    {"token": "hello"},
    {"next_page_token": "CAUQAA9xkLm31mPq0LxW9"},
    {"max_tokens": "4096", "token_count": "12"},
    {"idempotency_key": "V1StGXR8Z5jdHi6BmyT", "cache_key": "V1StGXR8Z5jdHi6BmyT"},
    {"id": "run--6f1b2c3d-0000-4000-8000-123456789abc", "tool": "call_V1StGXR8Z5jdHi6BmyT9qLx"},
    "ghp_" + "x" * 36,
    "sk-" + "ant-api03-" + "x" * 95,
    "postgresql://user:password@localhost/db and https://me:${TOKEN}@example.com",
    "Use `Authorization: Bearer <token>`, or a bearer of internationalization.",
    '{"password": "string", "token": "abc", "secret_name": "db-credentials-secret"}',
    "eyJ" + "hbGciOi.not.json",
    "-----BEGIN PRIVATE KEY-----",
    ids=repr,
)
def test_examples_are_no_secrets(scanner: Scanner, value: object) -> None:
    assert list(scanner.parts(value)) == []  # type: ignore[arg-type]


def test_paths_skip_classes_and_keys_that_are_secrets(scanner: Scanner) -> None:
    token, other = KNOWN["groq-key"], KNOWN["npm-token"]
    message = Tagged("m.HumanMessage", {"content": [{"text": token}], "id": "1"})
    value = {"messages": [Tagged("builtins.tuple", [message, message])]}
    found = list(scanner.parts(value))  # type: ignore[arg-type]
    assert [one.path for one in found] == [("messages", 0, n, "content", 0, "text") for n in (0, 1)]
    found = list(scanner.parts({"a": [{token: {"deep": [other]}}]}))
    assert [(one.path, one.kind) for one in found] == [
        (("a", 0), "groq-key"),
        (("a", 0), "npm-token"),
    ]
    assert scanner.masked(f"user {token}!") == f"user {MASK}!"
    assert scanner.masked("user-42") == "user-42"
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
    "-----BEGIN PRIVATE KEY-----" * 10_000,
    "AKIA" + "Q" * 200_000,
    "a://a:" * 40_000,
    '"api_key' * 30_000,
    "A" * 200_000 + "_PASSWORD",
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
