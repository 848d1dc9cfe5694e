"""obstore: the object store library of Rust, which Lakebed's own tiers use too."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from urllib.request import Request, urlopen

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

from lakebed.base.units import KIB, MIB
from tests.clients.names import HOSTILE, but, called, contents
from tests.clients.nodes import Many, S3Client, check_sum, s3_store
from tests.s3.endpoint import Endpoint
from tests.seglake.lakes import body


@pytest.fixture
def store(endpoint: Endpoint, bucket: str) -> S3Store:
    return s3_store(endpoint, bucket)


def read(store: S3Store, name: str) -> bytes:
    return bytes(obstore.get(store, name).bytes())


def test_an_object_comes_back_with_its_attributes(store: S3Store) -> None:
    data = body(100 * KIB)
    given = {"Content-Type": "a/b", "Cache-Control": "no-store", "colour": "blue"}
    put = obstore.put(store, "a b/ü+", data, attributes=given)
    got = obstore.get(store, "a b/ü+")
    assert dict(got.attributes) == given
    assert got.meta["e_tag"] == put["e_tag"]
    assert got.meta["version"] == put["version"]
    assert bytes(got.bytes()) == data


def test_ranges_are_read_alone_and_together(store: S3Store) -> None:
    data = body(100 * KIB)
    obstore.put(store, "key", data)
    assert bytes(obstore.get_range(store, "key", start=5, length=10)) == data[5:15]
    spans = obstore.get_ranges(store, "key", starts=[0, 90_000, 50], lengths=[10, 100, 1])
    assert [bytes(span) for span in spans] == [data[:10], data[90_000:90_100], data[50:51]]
    last = obstore.get(store, "key", options={"range": {"suffix": 7}})
    assert bytes(last.bytes()) == data[-7:]


def test_large_objects_go_in_parts(store: S3Store, s3: S3Client, bucket: str) -> None:
    data = body(11 * MIB)
    obstore.put(store, "large", data, use_multipart=True, chunk_size=5 * MIB)
    assert s3.head_object(Bucket=bucket, Key="large")["ETag"].endswith('-3"')
    check_sum(s3, bucket, "large", data)
    assert read(store, "large") == data
    streamed = b"".join(map(bytes, obstore.get(store, "large").stream(min_chunk_size=MIB)))
    assert streamed == data


def test_a_checksum_that_it_is_told_to_send_is_kept(
    endpoint: Endpoint, s3: S3Client, bucket: str
) -> None:
    data = body(6 * MIB)
    store = s3_store(endpoint, bucket, checksum_algorithm="SHA256")
    obstore.put(store, "whole", data, use_multipart=False)
    obstore.put(store, "parts", data, use_multipart=True, chunk_size=5 * MIB)
    for name in ("whole", "parts"):
        assert "ChecksumSHA256" in s3.head_object(Bucket=bucket, Key=name, ChecksumMode="ENABLED")
        assert read(store, name) == data


def test_a_writer_and_a_reader_are_files(store: S3Store) -> None:
    data = body(11 * MIB)
    with obstore.open_writer(store, "file", buffer_size=5 * MIB) as file:
        for start in range(0, len(data), MIB):
            file.write(data[start : start + MIB])
    reader = obstore.open_reader(store, "file")
    reader.seek(6 * MIB)
    assert bytes(reader.read(100)) == data[6 * MIB : 6 * MIB + 100]


def test_only_one_creates_and_updates_are_compared(store: S3Store) -> None:
    first = obstore.put(store, "key", b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "key", b"2", mode="create")
    second = obstore.put(store, "key", b"2", mode={"e_tag": first["e_tag"]})
    with pytest.raises(PreconditionError):
        obstore.put(store, "key", b"3", mode={"e_tag": first["e_tag"]})
    assert obstore.head(store, "key")["e_tag"] == second["e_tag"]


def test_listings_have_folders(store: S3Store) -> None:
    for name in ("a/1", "a/2", "b/1", "c"):
        obstore.put(store, name, b"12")
    found = obstore.list_with_delimiter(store)
    assert list(found["common_prefixes"]) == ["a", "b"]
    assert [entry["path"] for entry in found["objects"]] == ["c"]
    under = obstore.list(store, prefix="a", offset="a/1").collect()
    assert [entry["path"] for entry in under] == ["a/2"]


def test_listings_turn_pages(endpoint: Endpoint, many: Many) -> None:
    store = s3_store(endpoint, many.bucket)
    found = obstore.list(store).collect()
    assert [entry["path"] for entry in found] == many.names
    folders = obstore.list_with_delimiter(store)["common_prefixes"]
    assert [f"{folder}/" for folder in folders] == many.folders


def test_copies_renames_and_deletes(store: S3Store, s3: S3Client, bucket: str) -> None:
    obstore.put(store, "a", b"data", attributes={"colour": "blue"})
    obstore.copy(store, "a", "b +")
    assert s3.head_object(Bucket=bucket, Key="b +")["Metadata"] == {"colour": "blue"}
    obstore.rename(store, "b +", "c")
    assert contents(s3, bucket) == {"a": b"data", "c": b"data"}
    names = [f"{number:02}" for number in range(50)]

    async def put_all() -> None:
        await asyncio.gather(*(obstore.put_async(store, name, b"") for name in names))

    asyncio.run(put_all())
    obstore.delete(store, [*names, "c"])
    assert contents(s3, bucket) == {"a": b"data"}


def test_presigned_urls_get_and_put(store: S3Store) -> None:
    name, minute = "a b/ü+", timedelta(minutes=1)
    put = Request(obstore.sign(store, "PUT", name, minute), data=b"x", method="PUT")  # noqa: S310
    with urlopen(put) as answer:  # noqa: S310
        assert answer.status == 200
    with urlopen(obstore.sign(store, "GET", name, minute)) as answer:  # noqa: S310
        assert answer.read() == b"x"


# It drops a slash at either end of a name, and refuses others that are no path to it.
TRIMMED = ("leading slash", "trailing slash")
REFUSED = ("two slashes", "dots inside", "dots first", "dot", "line ends", "controls")


def test_names_it_refuses_do_not_get_here(store: S3Store, s3: S3Client, bucket: str) -> None:
    for what in REFUSED:
        with pytest.raises(ValueError, match="Could not parse path"):
            obstore.put(store, HOSTILE[what], b"")
    assert contents(s3, bucket) == {}


@pytest.mark.parametrize("name", but(*TRIMMED, *REFUSED), ids=called)
def test_the_name_round_trips(store: S3Store, s3: S3Client, bucket: str, name: str) -> None:
    obstore.put(store, name, name.encode())
    assert contents(s3, bucket) == {name: name.encode()}
    assert [entry["path"] for entry in obstore.list(store).collect()] == [name]
    assert read(store, name) == name.encode()
    copy = f"C{name[1:]}"
    obstore.copy(store, name, copy)
    assert read(store, copy) == name.encode()
    obstore.delete(store, name)
    assert list(contents(s3, bucket)) == [copy]
    obstore.delete(store, [copy])
    assert contents(s3, bucket) == {}
