"""Objects through the door: stored, read, described, deleted, whatever their keys and sizes."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from lakebed.api import media, objects
from lakebed.api.objects import DeleteMany, ObjectDeletion
from lakebed.api.problems import error_of
from lakebed.base.errors import InputError
from lakebed.base.units import MIB
from lakebed.seglake.errors import (
    BadKey,
    BadRange,
    Damaged,
    MethodNotAllowed,
    NoSuchBucket,
    NoSuchKey,
    NoSuchVersion,
    PreconditionFailed,
)
from lakebed.seglake.model import Algorithm, Content, Deleted, ObjectInfo, State
from tests.http_api.live_api import Answer, LiveApi, open_api, target_of
from tests.http_api.waiters import wait_until

PHOTOS = {"bucket": "photos"}
BLOCK = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture
def door(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path) as door:
        door.store.bucket("photos")
        yield door


def at(key: str) -> dict[str, object]:
    return {**PHOTOS, "key": key}


def put(door: LiveApi, key: str, data: bytes, **query: object) -> ObjectInfo:
    return door.call(objects.PUT_OBJECT, at(key), query, data)


def get(door: LiveApi, key: str, **query: object) -> Answer:
    answer = door.ask("GET", target_of(objects.GET_OBJECT, at(key), query))
    if answer.status != 200:
        raise answer.problem
    return answer


SIZES = [0, 1, 60_000, 70_000, MIB, 5 * MIB + 3, 13 * MIB]


@pytest.mark.parametrize("size", SIZES)
def test_what_is_stored_is_given_back(door: LiveApi, size: int) -> None:
    data = (BLOCK * (size // MIB + 1))[:size]
    state = put(door, "a", data)
    assert (state.size, state.etag) == (size, hashlib.md5(data, usedforsecurity=False).hexdigest())
    assert door.store.bucket("photos").read("a") == data
    answer = get(door, "a")
    assert answer.body == data
    assert answer.headers["etag"] == f'"{state.etag}"'
    assert answer.headers["lakebed-size"] == str(size)
    assert answer.headers["lakebed-version-id"] == state.version_id
    assert door.call(objects.DESCRIBE_OBJECT, at("a")) == state


def test_a_body_without_a_length_is_stored_too(door: LiveApi) -> None:
    target = target_of(objects.PUT_OBJECT, at("chunked"))
    answer = door.ask("PUT", target, iter([BLOCK] * 9 + [b"end"]))
    assert answer.json["size"] == 9 * MIB + 3
    assert get(door, "chunked").body == BLOCK * 9 + b"end"


KEYS = [
    "..", "../../etc/passwd", "a/../b", "//", "/a", "a//b", "a/", "ünï/😀", " a b ", "a?b#c%20",
    "a\nb\x01\x7f", "\0", "+&=;", "x" * 1024, "%2F", ".",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_a_key_is_any_text(door: LiveApi, key: str) -> None:
    target = f"/v1/buckets/photos/objects/{quote(key, safe='')}"
    stored = door.ask("PUT", target, key.encode())
    assert stored.status == 200, stored
    assert stored.json["key"] == key
    assert door.store.bucket("photos").read(key) == key.encode()
    assert door.ask("GET", target).body == key.encode()
    info = door.ask("GET", f"/v1/buckets/photos/info/{quote(key, safe='')}")
    assert info.json["key"] == key
    assert [one.key for one in door.call(objects.LIST_OBJECTS, PHOTOS).items] == [key]
    assert door.ask("DELETE", target).status == 200
    with pytest.raises(NoSuchKey):
        door.store.bucket("photos").head(key)


def test_a_key_that_is_none_is_refused(door: LiveApi) -> None:
    with pytest.raises(BadKey):
        put(door, "x" * 1025, b"1")
    assert door.ask("PUT", "/v1/buckets/photos/objects/%ff", b"1").status == 400
    assert door.ask("PUT", "/v1/buckets/photos/objects/", b"1").status == 404


def test_what_is_said_of_an_object_is_kept(door: LiveApi) -> None:
    given = {
        "content_type": "text/plain; charset=utf-8",
        "cache_control": "no-store",
        "content_disposition": "inline",
        "content_encoding": "gzip",
        "content_language": "de",
        "expires": "never",
    }
    metadata = {"owner": "Jürgen", "empty": ""}
    state = put(door, "a", b"1", **given, metadata=json.dumps(metadata), algorithm="SHA256")
    assert state.content == Content(**given, metadata=metadata)
    assert [one.algorithm for one in state.checksums] == [Algorithm.SHA256]
    content = door.store.bucket("photos").head("a").content
    assert (content.content_encoding, dict(content.metadata)) == ("gzip", metadata)
    assert get(door, "a").headers["content-type"] == media.BYTES, "no browser shall run it"
    assert put(door, "b", b"1").content == Content()


def test_the_type_of_the_body_is_the_objects(door: LiveApi) -> None:
    target = target_of(objects.PUT_OBJECT, at("a"))
    for said, kept in (("image/png", "image/png"), (media.BYTES, None)):
        answer = door.ask("PUT", target, b"1", {"Content-Type": said})
        assert answer.json["content"]["content_type"] == kept


WRONG = [
    {"metadata": "[]"},
    {"metadata": '{"a": 1}'},
    {"metadata": "{"},
    {"metadata": '{"a": "\\n"}'},
    {"content_type": "text/plain\r\nX-Injected: 1"},
    {"algorithm": "MD5"},
    {"if_none_match": "etag"},
    {"typo": "1"},
]


@pytest.mark.parametrize("query", WRONG, ids=str)
@pytest.mark.parametrize("size", [1, 3 * MIB])
def test_a_wrong_query_stores_nothing(door: LiveApi, query: dict[str, str], size: int) -> None:
    with pytest.raises(InputError):
        put(door, "a", bytes(size), **query)
    door.hang_up()  # a body that was not read ends the connection
    with pytest.raises(NoSuchKey):
        get(door, "a")


@pytest.mark.parametrize("size", [1, 5 * MIB])
def test_conditions_are_kept(door: LiveApi, size: int) -> None:
    first = put(door, "a", bytes(size), if_none_match="*")
    with pytest.raises(PreconditionFailed):
        put(door, "a", bytes(size), if_none_match="*")
    door.hang_up()
    second = put(door, "a", b"2" * size, if_match=first.etag)
    with pytest.raises(PreconditionFailed):
        put(door, "a", bytes(size), if_match=first.etag)
    door.hang_up()
    with pytest.raises(PreconditionFailed):
        door.call(objects.DELETE_OBJECT, at("a"), {"if_match": first.etag})
    assert door.call(objects.DESCRIBE_OBJECT, at("a")) == second
    door.call(objects.DELETE_OBJECT, at("a"), {"if_match": second.etag})


def test_ranges_are_those_bytes(door: LiveApi) -> None:
    data = BLOCK * 9
    put(door, "a", data)
    for first, last in ((0, 0), (5, 10), (4 * MIB - 1, 4 * MIB + 1), (MIB, 9 * MIB - 1)):
        answer = get(door, "a", first=first, last=last)
        assert answer.body == data[first : last + 1]
        assert answer.headers["lakebed-size"] == str(9 * MIB), "of all of it"
    assert get(door, "a", first=9 * MIB - 2).body == data[-2:]
    assert get(door, "a", last=3).body == data[-3:]
    assert get(door, "a", first=1, last=1 << 62).body == data[1:]
    for wrong in ({"first": 9 * MIB}, {"first": 5, "last": 4}, {"last": 0}):
        with pytest.raises(BadRange):
            get(door, "a", **wrong)
    with pytest.raises(InputError):
        get(door, "a", first=-1)
    head = door.ask("HEAD", target_of(objects.GET_OBJECT, at("a"), {"first": 1}))
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(9 * MIB - 1)


def test_versions_are_read_and_removed_one_by_one(door: LiveApi) -> None:
    first, second = put(door, "a", b"1"), put(door, "a", b"22")
    assert get(door, "a").body == b"22"
    assert get(door, "a", version_id=first.version_id).body == b"1"
    old = door.call(objects.DESCRIBE_OBJECT, at("a"), {"version_id": first.version_id})
    assert (old.is_latest, second.is_latest) == (False, True)
    marker = door.call(objects.DELETE_OBJECT, at("a"))
    assert marker.is_marker
    with pytest.raises(NoSuchKey) as hidden:
        get(door, "a")
    assert hidden.value.marker_id == marker.version_id
    with pytest.raises(MethodNotAllowed):
        get(door, "a", version_id=marker.version_id)
    door.call(objects.DELETE_OBJECT, at("a"), {"version_id": marker.version_id})
    assert get(door, "a").body == b"22"
    for version_id in ("0" * 32, "", "ü", "x" * 900, "\0"):
        with pytest.raises(NoSuchVersion):
            get(door, "a", version_id=version_id)


def test_many_are_deleted_each_by_itself(door: LiveApi) -> None:
    for number in range(50):
        door.store.bucket("photos").put(f"{number}", b"1")
    doomed = [ObjectDeletion(f"{number}") for number in range(50)]
    doomed[7] = ObjectDeletion("")
    doomed[8] = ObjectDeletion("8", "no such version")
    outcomes = door.call(objects.DELETE_OBJECTS, PHOTOS, body=DeleteMany(doomed)).outcomes
    assert len(outcomes) == 50
    problem = outcomes[7].problem
    assert outcomes[7].deleted is None
    assert problem is not None
    assert isinstance(error_of(problem), BadKey)
    others = [one.deleted for index, one in enumerate(outcomes) if index != 7]
    assert all(one is not None for one in others)
    assert outcomes[8].deleted == Deleted("8", "no such version", is_marker=False)
    left = [one.key for one in door.call(objects.LIST_OBJECTS, PHOTOS).items]
    assert left == ["7", "8"]


def test_a_list_of_too_many_or_in_no_bucket_deletes_nothing(door: LiveApi) -> None:
    target = target_of(objects.DELETE_OBJECTS, PHOTOS)
    many = msgspec.json.encode({"objects": [{"key": "a"}] * 1001})
    for wrong in (many, b'{"objects": [{}]}', b'{"objects": "a"}', b"{}"):
        assert door.ask("POST", target, wrong).status == 400
    with pytest.raises(NoSuchBucket):
        door.call(objects.DELETE_OBJECTS, {"bucket": "none"}, body=DeleteMany([]))
    assert door.call(objects.DELETE_OBJECTS, PHOTOS, body=DeleteMany([])).outcomes == []


def test_a_body_that_breaks_off_stores_nothing(door: LiveApi) -> None:
    target = target_of(objects.PUT_OBJECT, at("half"))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(door.socket_path)
        head = f"PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {8 * MIB}\r\n\r\n"
        client.sendall(head.encode() + BLOCK * 5)
    wait_until(door, lambda: door.api.service.budget.requests == 0)
    with pytest.raises(NoSuchKey):
        get(door, "half")


def test_a_bucket_that_is_not_there_is_told_before_the_body_is_read(door: LiveApi) -> None:
    target = target_of(objects.PUT_OBJECT, {"bucket": "none", "key": "a"})
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(door.socket_path)
        client.sendall(
            f"PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {MIB}\r\n\r\n".encode()
        )
        answer = client.recv(65536)
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"no-such-bucket" in answer
    with pytest.raises(NoSuchBucket):
        door.call(objects.PUT_OBJECT, {"bucket": "none", "key": "a"}, body=b"small")


def test_a_damaged_object_is_an_error_and_not_wrong_bytes_or_copied(door: LiveApi) -> None:
    put(door, "a", BLOCK * 5)
    segments = Path(door.store.root) / "objects" / "segments"
    (segment,) = [path for path in segments.rglob("*") if path.is_file()]
    data = bytearray(segment.read_bytes())
    data[MIB] ^= 1
    segment.write_bytes(data)
    with pytest.raises(Damaged):
        get(door, "a")
    assert door.ask("GET", target_of(objects.GET_OBJECT, at("a"))).status == 500
    bucket = door.store.bucket("photos")
    wait_until(door, lambda: bucket.head("a").state is State.DAMAGED)
    with pytest.raises(Damaged, match="cannot be copied"):
        door.call(objects.COPY_OBJECT, at("a"), body=objects.CopyObject("copy"))
    with pytest.raises(Damaged, match="cannot be copied"):
        bucket.copy("a", "copy")
    assert [info.key for info in bucket.list()] == ["a"]


@pytest.mark.process
def test_an_object_of_200_mib_streams_through_little_memory(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tests.http_api.stream_through", str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=Path(__file__).parents[2],
    )
    growth = json.loads(found.stdout)
    assert growth["put"] < 40 * MIB
    assert growth["get"] < 40 * MIB
