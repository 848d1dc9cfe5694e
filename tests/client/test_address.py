"""What a client connects to, and as whom."""

from __future__ import annotations

import ssl
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.errors import InputError
from lakebed.client.address import Address, Credentials, address_of
from tests.http.certificates import write_pair

SECRET = "s3cr3t/with:odd@letters"  # noqa: S105


def _pair(access_key: str, secret_key: str) -> dict[str, Any]:
    return {"access_key": access_key, "secret_key": secret_key}


def test_a_root_is_its_socket(tmp_path: Path) -> None:
    address = address_of(tmp_path, environment={})
    assert address == Address(path=str(tmp_path / "lakebed.sock"))
    assert str(address) == str(tmp_path / "lakebed.sock")
    assert address_of(str(tmp_path), environment={}) == address


@pytest.mark.parametrize(
    ("url", "host", "port", "told"),
    [
        ("http://example.org:9100", "example.org", 9100, "example.org:9100"),
        ("http://example.org/", "example.org", 80, "example.org:80"),
        ("https://example.org", "example.org", 443, "example.org:443"),
        ("http://[::1]:9100", "::1", 9100, "[::1]:9100"),
        ("HTTP://127.0.0.1:1", "127.0.0.1", 1, "127.0.0.1:1"),
    ],
)
def test_a_url_is_a_host_and_a_port(url: str, host: str, port: int, told: str) -> None:
    address = address_of(url, environment={})
    assert (address.host, address.port, str(address)) == (host, port, told)
    assert address.host_header == told
    assert (address.tls is not None) == url.startswith("https")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://k:SECRET@example.org",
        "://k:SECRET@example.org",
        "http://",
        "http://k:SECRET@",
        "http://k:SECRET@example.org:0",
        "http://k:SECRET@example.org:99999",
        "http://k:SECRET@example.org:port",
        "http://k:SECRET@example.org/path",
        "http://k:SECRET@example.org?query",
        "http://k:SECRET@example.org#part",
        "http://k:SECRET@exa mple.org",
        "http://k:SECRET@[::1",
        "http://SECRET@example.org",
        "http://:SECRET@example.org",
    ],
)
def test_what_is_no_url_of_a_store_is_refused_without_a_word_of_it(url: str) -> None:
    with pytest.raises(InputError) as told:
        address_of(url, environment={})
    assert "SECRET" not in str(told.value)


def test_credentials_are_those_given_then_the_urls_then_the_environments() -> None:
    environment = {"LAKEBED_ACCESS_KEY": "third", "LAKEBED_SECRET_KEY": "3"}
    url = "http://second:a%2Fb@example.org"
    given = address_of(url, environment=environment, **_pair("first", "1"))
    assert given.credentials == Credentials("first", "1")
    assert address_of(url, environment=environment).credentials == Credentials("second", "a/b")
    bare = address_of("http://example.org", environment=environment)
    assert bare.credentials == Credentials("third", "3")
    assert address_of("http://example.org", environment={}).credentials is None


def test_a_root_takes_no_credentials_of_the_environment(tmp_path: Path) -> None:
    environment = {"LAKEBED_ACCESS_KEY": "key", "LAKEBED_SECRET_KEY": "secret"}
    assert address_of(tmp_path, environment=environment).credentials is None


@pytest.mark.parametrize("given", [{"access_key": "a"}, {"secret_key": "b"}, {"access_key": ""}])
def test_half_of_the_credentials_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="one of them is missing"):
        address_of("http://example.org", environment={}, **given)


def test_an_access_key_with_a_colon_could_not_be_told_from_its_secret() -> None:
    with pytest.raises(InputError, match="must not contain a colon"):
        address_of("http://example.org", environment={}, **_pair("a:b", "c"))


def test_secrets_are_in_no_text() -> None:
    address = address_of(
        "http://example.org", access_key="known", secret_key=SECRET, environment={}
    )
    assert SECRET not in repr(address) + str(address) + repr(address.credentials)
    assert address.credentials is not None
    coded = address.credentials.authorization.removeprefix("Basic ")
    assert b64decode(coded).decode() == f"known:{SECRET}"


def test_a_ca_file_is_for_https_and_must_be_one(tmp_path: Path) -> None:
    write_pair(tmp_path, "example.org")
    good = tmp_path / "cert.pem"
    assert address_of("https://example.org", ca_file=good, environment={}).tls is not None
    with pytest.raises(InputError, match="for https"):
        address_of("http://example.org", ca_file=good, environment={})
    with pytest.raises(InputError, match="for https"):
        address_of(tmp_path, ca_file=good, environment={})
    for bad in (tmp_path / "missing.pem", tmp_path / "key.pem"):
        with pytest.raises(InputError, match="cannot load certificates"):
            address_of("https://example.org", ca_file=bad, environment={})
    context = ssl.create_default_context()
    assert address_of("https://example.org", context=context, environment={}).tls is context
    with pytest.raises(InputError, match="cannot be combined"):
        address_of("https://example.org", ca_file=good, context=context, environment={})
