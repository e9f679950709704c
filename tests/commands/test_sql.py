"""`sql` on the command line; tables and files are tested in tests/doors."""

from pathlib import Path

from tests.commands.words import refusals
from tests.kit.command import ckpt


def test_a_query_is_answered_in_each_form(sample: Path) -> None:
    query = ("sql", "SELECT thread_id, status FROM threads WHERE status = 'error'")
    row = {"thread_id": "invoice-import", "status": "error"}
    assert ckpt("-s", sample, *query, "-o", "json").json == [row]
    assert ckpt("-s", sample, *query).out == "thread_id\tstatus\ninvoice-import\terror\n"


test_wrong_words_are_refused = refusals(
    ("sql", 2, "no query"),
    ("sql 'DELETE FROM threads'", 2, "cannot run DELETE here"),
    ("sql 'SELECT 1' --tables", 2, "give one of QUERY"),
    ("sql 'SELECT 1' --thread trip-to-kyoto --match x", 2, "cannot be combined with --match"),
)
