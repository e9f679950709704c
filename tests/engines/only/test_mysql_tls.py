"""TLS to MySQL and MariaDB: used where it is there, had where it is asked for, checked."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.kit import servers
from tests.kit.command import ckpt
from tests.kit.plugin import started

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that the server's user can read."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A database of a server for `localhost` that has TLS, and one user who must use it."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(folder / "other.pem"))
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    for file in folder.iterdir():
        file.chmod(0o644)
    options = [f"--ssl-cert={folder / 'cert.pem'}", f"--ssl-key={folder / 'key.pem'}"]
    with (
        started("mysql", lambda: servers.start_mysql(*options)) as server,
        servers.mysql_database(server) as made,
        servers.mysql_connection(made) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE songs (name TEXT)")
        cursor.execute("CREATE USER careful@'%' REQUIRE SSL")
        cursor.execute("GRANT ALL ON *.* TO careful@'%'")
        yield made.replace("root@127.0.0.1", "careful@localhost")


OPENED = "found songs"
"""What is said once the connection stands."""


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", OPENED),
        ("?ssl_mode=disabled", "wrong user or password"),
        ("?ssl_mode=required", OPENED),
        ("?ssl_ca={}/ca.pem", OPENED),
        ("?ssl_ca={}/other.pem", "TLS failed"),
        ("?ssl_ca={}/other.pem&ssl_mode=required", OPENED),
        ("?ssl_mode=verify_identity", "TLS failed"),
    ],
)
def test_tls_is_as_it_was_asked_for(url: str, folder: Path, query: str, says: str) -> None:
    answer = ckpt("-s", url + query.format(folder), "threads", "list")
    assert (answer.code, says in answer.err) == (4, True), answer.err


def test_the_name_of_the_host_is_checked(url: str, folder: Path) -> None:
    other = url.replace("localhost", "127.0.0.1") + f"?ssl_ca={folder / 'ca.pem'}"
    assert "TLS failed" in ckpt("-s", other, "threads", "list").err
    assert OPENED in ckpt("-s", other + "&ssl_mode=verify_ca", "threads", "list").err
