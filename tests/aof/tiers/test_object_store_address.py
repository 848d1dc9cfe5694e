"""Addresses of object stores, and options that are refused."""

from __future__ import annotations

from random import Random

import pytest

from lakebed.aof.tiers.folder_store import FolderStore
from lakebed.aof.tiers.object_store_address import open_object_store
from lakebed.aof.tiers.obstore_store import ObstoreStore, S3Options
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.base.errors import BadConfig
from lakebed.base.simulation.disk import SimulatedDisk
from tests.aof.tiers.canned_server import Answer, canned_server
from tests.aof.tiers.conftest import s3_options


def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(1))


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/store/tier2", "/store/tier2"),
        ("file:///store/tier2", "/store/tier2"),
        ("file:///with%20space", "/with space"),
        ("relative/folder", "/relative/folder"),
    ],
)
def test_a_folder_may_be_given_as_path_or_as_address(url: str, path: str) -> None:
    where = disk()
    store = open_object_store(url, disk=where)
    assert isinstance(store, FolderStore)
    assert not where.exists(path), "opening creates nothing"
    store.put("a/b", BytesSource(b"x"), metadata={})
    assert where.exists(f"{path}/a/b")


@pytest.mark.parametrize("url", ["s3://bucket", "s3://bucket/", "s3://my.bucket-1/some/prefix/"])
def test_a_bucket_may_have_a_prefix(url: str) -> None:
    options = S3Options(access_key_id="a", secret_access_key="b")  # noqa: S106
    assert isinstance(open_object_store(url, disk=disk(), options=options), ObstoreStore)


def test_memory_is_empty_whenever_it_is_opened() -> None:
    store = open_object_store("memory://", disk=disk())
    store.put("a", BytesSource(b"x"), metadata={})
    assert list(open_object_store("memory://", disk=disk()).list("")) == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/",
        "file://",
        "file:///",
        "file://relative/folder",
        "s3://",
        "s3:///key",
        "s3://Bucket",
        "s3://b/../x",
        "s3://bucket/with space",
        "ftp://host/folder",
        "memory://something",
        "http://127.0.0.1/bucket",
        "a\0b",
    ],
)
def test_an_address_that_means_nothing_is_refused(url: str) -> None:
    with pytest.raises(BadConfig):
        open_object_store(url, disk=disk())


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.1:9000",
        "http://localhost",
        "http://localhost:80/",
        "http://[::1]:9000",
        "https://s3.example.com",
    ],
)
def test_plain_http_is_for_this_machine(endpoint: str) -> None:
    assert S3Options(endpoint=endpoint).endpoint == endpoint


@pytest.mark.parametrize(
    "endpoint",
    ["http://minio.example.com", "http://10.0.0.1:9000", "http://127.0.0.1.example.com:80"],
)
def test_plain_http_over_a_network_must_be_asked_for(endpoint: str) -> None:
    with pytest.raises(BadConfig, match="not encrypted"):
        S3Options(endpoint=endpoint)
    assert S3Options(endpoint=endpoint, allow_http=True).may_use_http


def test_secrets_are_not_shown() -> None:
    options = S3Options(access_key_id="me", secret_access_key="hush", session_token="psst")  # noqa: S106
    assert "hush" not in repr(options)
    assert "psst" not in repr(options)


def test_the_endpoint_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    with canned_server(Answer(200)) as server:
        store = open_object_store("s3://tier2/p", disk=disk(), options=s3_options(server.endpoint))
        store.put("a/b", BytesSource(b"x"), metadata={})
        assert server.requests == ["PUT /tier2/p/a/b"]
