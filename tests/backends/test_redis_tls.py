"""Redis over TLS: an authority of one's own is named in the URL, and no other one is believed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.backends.test_redis import CANARY, QUOTED, _shows_nothing, client, fill_plain
from tests.conftest import redis_of_its_own
from tests.servers import Server
from tests.support import Answer, ckpt
from tests.tls import Authority, tls_in_front


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server that asks for a password."""
    with redis_of_its_own(modules=False) as server:
        fill_plain(server.url, "trip")
        client(server.url).config_set("requirepass", CANARY)
        yield server


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def port(guarded: Server, authority: Authority) -> Iterator[int]:
    """Where the server speaks TLS."""
    inner = urlsplit(guarded.url).port
    assert inner is not None
    with tls_in_front(inner, authority.context("localhost", "127.0.0.1")) as found:
        yield found


def asked(port: int, *words: str, host: str = "127.0.0.1", **params: str | Path) -> Answer:
    query = "&".join(f"{name}={quote(str(value))}" for name, value in params.items())
    return ckpt("-s", f"rediss://:{QUOTED}@{host}:{port}/0?{query}", *words)


def refused(answer: Answer, *says: str) -> None:
    assert (answer.code, answer.out) == (4, ""), answer.err
    message, hint = answer.err.splitlines()
    assert message.startswith("ckpt: cannot read 'rediss://")
    assert hint.startswith("hint: ")
    for part in says:
        assert part in answer.err
    _shows_nothing(answer.err)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_authority_is_named_in_the_url(port: int, authority: Authority, host: str) -> None:
    def known(*words: str) -> Answer:
        answer = asked(port, *words, host=host, ssl_ca_certs=authority.file)
        assert answer.code == 0, answer.err
        _shows_nothing(answer.out + answer.err)
        return answer

    (row,) = known("stores", "-o", "json").json
    assert row["layout"] == "redis-hash"
    assert row["url"].startswith(f"rediss://:***@{host}:{port}/0?")
    known("rollback", "trip", "~1", "--yes")
    assert known("show", "trip", "-o", "json").json["values"]["items"] == ["in trip", "from a"]
    known("undo", "trip", "--yes")
    shown = known("show", "trip", "-o", "json").json
    assert shown["values"]["items"] == ["in trip", "from a", "from b"]


def test_another_authority_is_not_believed(port: int, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    for answer in (
        asked(port, "threads", "list", ssl_ca_certs=other.file),
        asked(port, "threads", "list"),
    ):
        refused(answer, "the server's certificate is not trusted", "?ssl_ca_certs=FILE")


def test_a_certificate_for_another_name_is_not_believed(
    guarded: Server, authority: Authority
) -> None:
    inner = urlsplit(guarded.url).port
    assert inner is not None
    with tls_in_front(inner, authority.context("redis.example")) as port:
        answer = asked(port, "threads", "list", ssl_ca_certs=authority.file)
        refused(answer, "the server's certificate is not trusted")
        unchecked = asked(
            port, "threads", "list", ssl_ca_certs=authority.file, ssl_check_hostname="false"
        )
        assert unchecked.code == 0, unchecked.err


def test_a_file_of_the_authority_that_is_not_there(port: int, tmp_path: Path) -> None:
    refused(asked(port, "threads", "list", ssl_ca_certs=tmp_path / "none.pem"), "ssl_ca_certs")


def test_plain_words_to_a_port_that_speaks_tls(port: int) -> None:
    answer = ckpt("-s", f"redis://127.0.0.1:{port}/0?socket_timeout=5", "threads", "list")
    assert answer.code == 4
    assert "rediss://" in answer.err
