"""The contract about backends breaks where it must. `lint-imports` runs it on the whole program."""

from ckpt_backends.declaration import Backend
from tests.kit.cases import cases
from tests.kit.command import ROOT
from tests.packaging.import_contract import Rooms, forbidden, rooms_of


def _modules() -> set[str]:
    folder = ROOT / "backends"
    paths = (one.relative_to(folder).with_suffix("") for one in folder.rglob("*.py"))
    return {".".join(one.parts).removesuffix(".__init__") for one in paths}


ROOMS = rooms_of(_modules())
_NEW = Backend(title="New", schemes=("new",), driver="newdriver", checkpoints="new:open_store")
WITH_NEW = Rooms({**ROOMS.backends, "ckpt_backends.new": _NEW}, ROOMS.engines)


def test_all_backends_are_found() -> None:
    assert {
        "ckpt_backends.sqlite",
        "ckpt_backends.redis.hashes",
        "ckpt_backends.apps.kaflow",
    } < set(ROOMS.backends)
    assert {"ckpt_backends.redis.engine", "ckpt_backends.sql"} < set(ROOMS.engines)


@cases(
    "importer imported",
    ("ckpt_cli.queries.show", "ckpt_backends.sqlite.store"),
    ("ckpt_backends.base", "ckpt_backends.redis.engine.connection"),
    ("ckpt_backends.base", "psycopg"),
    ("ckpt_backends.sqlite.store", "ckpt_backends.mysql.store"),
    ("ckpt_backends.sqlite.store", "ckpt_backends.redis.engine.connection"),
    ("ckpt_backends.redis.hashes.layout", "ckpt_backends.redis.official.documents"),
    ("ckpt_backends.apps.kaflow.store", "ckpt_backends.apps.deerflow.memory"),
    ("ckpt_backends.redis.engine.store", "ckpt_backends.redis.hashes.layout"),
    ("ckpt_backends.mongodb.engine.store", "ckpt_backends.redis.engine.connection"),
    ("ckpt_backends.sql.store", "ckpt_backends.sqlite.store"),
    ("ckpt_cli.queries.show", "ckpt_backends.new.read"),
    ("ckpt_backends.new.read", "ckpt_backends.sqlite.store"),
    ("ckpt_backends.servers", "newdriver"),
)
def test_an_import_between_backends_is_found(importer: str, imported: str) -> None:
    assert list(forbidden(WITH_NEW, [(importer, imported)])) == [(importer, imported)]


@cases(
    "importer imported",
    ("ckpt_cli.queries.show", "ckpt_backends.protocol"),
    ("ckpt_backends.sqlite.store", "ckpt_backends.sqlite.database"),
    ("ckpt_backends.postgres.store", "psycopg"),
    ("ckpt_backends.postgres.store", "ckpt_backends.sql.store"),
    ("ckpt_backends.redis.hashes.layout", "ckpt_backends.redis.engine.connection"),
    ("ckpt_backends.apps.kaflow.store", "ckpt_backends.mongodb.engine.store"),
    ("ckpt_backends.new.read", "newdriver"),
)
def test_other_imports_are_allowed(importer: str, imported: str) -> None:
    assert list(forbidden(WITH_NEW, [(importer, imported)])) == []
