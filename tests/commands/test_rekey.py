"""`rekey` on the command line; what LangGraph reads afterwards is tested in tests/rekey."""

from pathlib import Path

from tests.commands.words import asks_first, refusals
from tests.kit.command import ckpt


def test_threads_are_encrypted_and_read_with_the_key_only(sample: Path) -> None:
    key = sample.with_name("new.key")
    key.write_text("k" * 32)
    key.chmod(0o600)
    asks_first(sample, f"rekey trip-to-kyoto --encrypt --new-key-file {key}")
    assert b"Kyoto" not in sample.read_bytes()
    words = ("show", "trip-to-kyoto", "--path", "destination")
    assert "LANGGRAPH_AES_KEY" in ckpt("-s", sample, *words).err
    assert "Kyoto" in ckpt("-s", sample, "--aes-key-file", key, *words).out


test_wrong_words_are_refused = refusals(
    ("rekey", 2, "nothing to do"),
    ("rekey trip-to-kyoto --encrypt", 2, "no key to encrypt with"),
    ("rekey trip-to-kyoto --decrypt", 2, "no key to decrypt with"),
)
