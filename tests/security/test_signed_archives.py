"""Archives say who made them: signed when written, verified before anything is restored."""

import gzip
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from ckpt_cli import diagnostics
from tests.kit.cases import cases
from tests.kit.command import CommandResult, ckpt

THREAD = "trip-to-kyoto"
PHRASE = "correct horse"
Words = list[str | Path]


class Key:
    """A key pair in files, as `ssh-keygen` and `openssl` write them."""

    def __init__(self, folder: Path, name: str) -> None:
        self.key: Any = ed25519.Ed25519PrivateKey.generate()
        self.path, self.public = folder / name, folder / f"{name}.pub"
        self.write(forms.PrivateFormat.OpenSSH)
        self.public.write_text(f"{self.line} {name}@example\n")

    def write(self, form: forms.PrivateFormat, phrase: str = "") -> Path:
        lock: Any = forms.BestAvailableEncryption(phrase.encode()) if phrase else None
        self.path.write_bytes(
            self.key.private_bytes(forms.Encoding.PEM, form, lock or forms.NoEncryption())
        )
        self.path.chmod(0o600)
        return self.path

    @property
    def line(self) -> str:
        both = forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH
        return str(self.key.public_key().public_bytes(*both), "ascii")

    @property
    def pem(self) -> bytes:
        both = forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo
        return bytes(self.key.public_key().public_bytes(*both))

    @property
    def fingerprint(self) -> str:
        digest = sha256(b64decode(self.line.split()[1])).digest()
        return "SHA256:" + b64encode(digest).decode().rstrip("=")


@pytest.fixture
def alice(tmp_path: Path) -> Key:
    return Key(tmp_path, "alice")


@pytest.fixture
def mallory(tmp_path: Path) -> Key:
    return Key(tmp_path, "mallory")


def exported(store: Path, folder: Path, *words: str | Path) -> Path:
    ckpt("-s", store, "export", THREAD, "--to", folder, *words, code=0)
    (bundle,) = folder.glob("*.ckpt.gz")
    return bundle


def tried(store: Path, bundle: Path, *words: str | Path) -> CommandResult:
    return ckpt("-s", store, "import", bundle, "--dry-run", "-o", "json", *words)


def lines_of(bundle: Path) -> list[bytes]:
    return gzip.decompress(bundle.read_bytes()).splitlines(keepends=True)


def changed_end(bundle: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the last line of an archive."""
    *rows, end = lines_of(bundle)
    record = json.loads(end)
    change(record)
    bundle.write_bytes(gzip.compress(b"".join([*rows, json.dumps(record).encode() + b"\n"])))


def test_an_import_tells_who_signed_an_archive(sample: Path, tmp_path: Path, alice: Key) -> None:
    answer = tried(sample, exported(sample, tmp_path / "a"))
    assert [one["signed_by"] for one in answer.json] == [None]
    assert "note: 1 archive is unsigned" in answer.err
    signed = exported(sample, tmp_path / "b", "--sign-key", alice.path)
    answer = tried(sample, signed)
    assert [one["signed_by"] for one in answer.json] == [alice.fingerprint]
    assert f"note: 1 archive is signed by {alice.fingerprint} (unknown key)" in answer.err
    answer = tried(sample, signed, "--trusted-key", alice.public)
    assert answer.code == 0
    assert f"note: 1 archive is signed by {alice.fingerprint} (alice@example)" in answer.err
    # What is signed, for whoever wants to verify it without ckpt.
    *rows, end = lines_of(signed)
    record = json.loads(end)
    digest = sha256(b"".join(rows))
    signature = b64decode(record["signature"]["value"])
    alice.key.public_key().verify(signature, b"ckpt archive signature 1\n" + digest.digest())
    # An older ckpt finds what it knows.
    assert (record["sha256"], sum(record["rows"].values())) == (digest.hexdigest(), len(rows) - 1)


def test_with_a_trusted_key_every_other_archive_is_refused(
    sample: Path, tmp_path: Path, alice: Key, mallory: Key
) -> None:
    by_alice = exported(sample, tmp_path / "a", "--sign-key", alice.path)
    by_mallory = exported(sample, tmp_path / "b", "--sign-key", mallory.path)
    unsigned = exported(sample, tmp_path / "c")
    ckpt("-s", sample, "threads", "delete", THREAD, "--yes", code=0)
    trusting: Words = ["import", "--trusted-key", alice.public, "--yes"]
    for bundle, why in ((by_mallory, mallory.fingerprint), (unsigned, "it is unsigned")):
        ckpt("-s", sample, *trusting, by_alice, bundle, code=5, says=why)
        ckpt("-s", sample, "show", THREAD, code=3)
    both: Words = ["--trusted-key", mallory.public]
    ckpt("-s", sample, *trusting, by_alice, by_mallory, *both, code=0)
    ckpt("-s", sample, "show", THREAD, code=0)


def test_a_signature_that_does_not_fit_is_refused_by_every_import(
    sample: Path, tmp_path: Path, alice: Key, mallory: Key
) -> None:
    bundle = exported(sample, tmp_path / "a", "--sign-key", alice.path)
    good = bundle.read_bytes()
    other = ckpt("-s", sample, "threads", "list", "-o", "json").json[1]["thread_id"]
    ckpt("-s", sample, "export", other, "--to", tmp_path / "b", code=0)
    digest = sha256(b"".join(lines_of(bundle)[:-1])).digest()
    theirs = b64encode(mallory.key.sign(digest)).decode()
    changes: list[Callable[[dict[str, Any]], object]] = [
        lambda end: end["signature"].update(value=theirs),
        lambda end: end["signature"].update(key=mallory.line.split()[1]),
        # Without the prefix, as a signature made for another purpose.
        lambda end: end["signature"].update(value=b64encode(alice.key.sign(digest)).decode()),
        lambda end: end["signature"].update(value="not base64"),
        lambda end: end["signature"].update(key=""),
        lambda end: end["signature"].update(algorithm="rot13"),
        lambda end: end["signature"].pop("value"),
        lambda end: end.update(signature=None),
    ]
    for change in changes:
        bundle.write_bytes(good)
        changed_end(bundle, change)
        for trusted in ((), ("--trusted-key", alice.public)):
            refused = tried(sample, bundle, *trusted)
            assert (refused.code, json.loads(refused.err)["error"]) == (4, "unreadable")
    # The signature of another archive.
    signature = json.loads(gzip.decompress(good).splitlines()[-1])["signature"]
    (stolen,) = (tmp_path / "b").iterdir()
    changed_end(stolen, lambda end: end.update(signature=signature))
    assert tried(sample, stolen).code == 4
    # A changed row with a new checksum.
    bundle.write_bytes(good)
    *rows, _ = lines_of(bundle)
    bundle.write_bytes(gzip.compress(b"".join([rows[0], *rows[2:]])))
    assert tried(sample, bundle).code == 4


def test_every_command_that_archives_can_sign(sample: Path, tmp_path: Path, alice: Key) -> None:
    for name, words in {
        "delete": ["threads", "delete", THREAD],
        "prune": ["purge", "--keep-last", "1"],
        "purge": ["purge", "--match", "weekly-*"],
    }.items():
        folder = tmp_path / name
        ckpt("-s", sample, *words, "--archive", folder, "--sign-key", alice.path, "--yes", code=0)
        signers = {json.loads(lines_of(one)[-1])["signature"]["key"] for one in folder.iterdir()}
        assert signers == {b64encode(alice.key.public_key().public_bytes_raw()).decode()}


def test_memory_archives_are_signed_and_verified(tmp_path: Path, alice: Key, mallory: Key) -> None:
    store = tmp_path / "memory.json"
    fact = {"id": "fact_1", "content": "likes tea", "category": "preference"}
    store.write_text(json.dumps({"version": "1.0", "user": {}, "history": {}, "facts": [fact]}))
    words = ["memory", "delete", "fact_1", "--write", "--yes"]
    ckpt("-s", store, *words, "--archive", tmp_path / "a", "--sign-key", alice.path, code=0)
    (bundle,) = (tmp_path / "a").iterdir()
    (found,) = ckpt("-s", store, "memory", "import", bundle, "--dry-run", "-o", "json").json
    assert found["signed_by"] == alice.fingerprint
    back: Words = ["-s", store, "memory", "import", bundle, "--write", "--yes", "--trusted-key"]
    ckpt(*back, mallory.public, code=5)
    assert json.loads(store.read_text())["facts"] == []
    ckpt(*back, alice.public, code=0)
    assert [one["id"] for one in json.loads(store.read_text())["facts"]] == ["fact_1"]
    changed_end(bundle, lambda end: end["signature"].update(value="AAAA"))
    ckpt(*back, alice.public, code=4)


def test_public_keys_are_read_in_the_forms_that_people_have(
    sample: Path, tmp_path: Path, alice: Key, mallory: Key
) -> None:
    bundle = exported(sample, tmp_path / "a", "--sign-key", alice.path)
    trusted = tmp_path / "trusted"
    several = f"# who may sign\n\nssh-rsa AAAA old\n{mallory.line}\n  {alice.line}  the night job\n"
    forms_of_key = {
        alice.pem: "trusted",
        f"{alice.line}\n".encode(): "trusted",
        several.encode(): "the night job",
        f"alice@example,*@ops {alice.line}\r\n".encode(): "alice@example,*@ops",
    }
    for data, name in forms_of_key.items():
        trusted.write_bytes(data)
        answer = tried(sample, bundle, "--trusted-key", trusted)
        assert answer.code == 0, answer.err
        assert f"{alice.fingerprint} ({name})" in answer.err


@cases(
    "text why",
    ("ssh-rsa AAAA x\n", "it holds no Ed25519 key"),
    ("ssh-ed25519 !!!!\n", "line 1 is not an Ed25519 key"),
    # An option may take a key's validity away, so none is passed over.
    ("\ncert-authority LINE\n", "line 2 has options"),
    ('a@b valid-before="20200101" LINE\n', "line 1 has options"),
    ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "it holds no public key"),
    ("-----BEGIN PRIVATE KEY-----\nAAAA\n", "it is a private key"),
)
def test_a_file_of_trusted_keys_that_is_not_understood_is_refused(
    sample: Path, tmp_path: Path, alice: Key, text: str, why: str
) -> None:
    bundle = exported(sample, tmp_path / "a", "--sign-key", alice.path)
    trusted = tmp_path / "trusted"
    trusted.write_text(text.replace("LINE", alice.line))
    refused = tried(sample, bundle, "--trusted-key", trusted)
    assert refused.code == 2
    assert json.loads(refused.err)["message"] == f"cannot trust '{trusted}': {why}"


def test_the_passphrase_of_a_key_is_asked_for(
    sample: Path, tmp_path: Path, alice: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice.write(forms.PrivateFormat.PKCS8)
    (found,) = tried(sample, exported(sample, tmp_path / "a", "--sign-key", alice.path)).json
    assert found["signed_by"] == alice.fingerprint
    alice.write(forms.PrivateFormat.OpenSSH, PHRASE)
    words: Words = ["-s", sample, "export", THREAD, "--to", tmp_path / "b"]
    words += ["--sign-key", alice.path]
    ckpt(*words, code=5, says="it has a passphrase, and there is no terminal")
    asked: list[str] = []

    def answer(phrase: str) -> Callable[[str], str]:
        return lambda question: asked.append(question) or phrase  # type: ignore[func-returns-value]

    monkeypatch.setattr(diagnostics, "ask_secret", answer("wrong"))
    ckpt(*words, code=2, says="wrong passphrase")
    assert not list((tmp_path / "b").glob("*"))
    monkeypatch.setattr(diagnostics, "ask_secret", Mock(side_effect=EOFError))  # Ctrl-D
    ckpt(*words, code=130)
    monkeypatch.setattr(diagnostics, "ask_secret", answer(PHRASE))
    done = ckpt(*words)
    assert PHRASE not in done.out + done.err
    assert asked == [f"Passphrase of '{alice.path}': "] * 2
    (bundle,) = (tmp_path / "b").iterdir()
    assert tried(sample, bundle, "--trusted-key", alice.public).code == 0


def test_a_key_that_cannot_sign_is_refused_first(sample: Path, tmp_path: Path, alice: Key) -> None:
    other, shared = Key(tmp_path, "other"), Key(tmp_path, "shared").path
    other.key = rsa.generate_private_key(65537, 2048)
    other.write(forms.PrivateFormat.PKCS8)
    alice.public.chmod(0o600)
    shared.chmod(0o640)
    before = ckpt("-s", sample, "threads", "list", "-o", "json").json
    for path, code, why in [
        (other.path, 2, "it is not an Ed25519 key"),
        (alice.public, 2, "it holds no private key"),
        (tmp_path / "missing", 2, "no such file"),
        (tmp_path, 4, "it is a folder"),
        (shared, 5, "other users can read it (mode 0640)"),
    ]:
        words: Words = ["threads", "delete", THREAD, "--archive", tmp_path / "a", "--yes"]
        refused = ckpt("-s", sample, *words, "--sign-key", path, code=code, says=why)
    assert ckpt("-s", sample, "threads", "list", "-o", "json").json == before
    for without in (
        f"threads delete {THREAD} --yes",
        f"export {THREAD} --format jsonl",
        "purge --keep-last 1 --yes",
        "gc --scope all --yes",
    ):
        refused = ckpt("-s", sample, *without.split(), "--sign-key", alice.path)
        assert (refused.code, "--sign-key signs archives" in refused.err) == (2, True)
