"""Objects through the API: stored, read, described, deleted, whatever their keys and sizes."""

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
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path) as live_api:
        live_api.store.bucket("photos")
        yield live_api


def at(key: str) -> dict[str, object]:
    return {**PHOTOS, "key": key}


def put(live_api: LiveApi, key: str, data: bytes, **query: object) -> ObjectInfo:
    return live_api.call(objects.PUT_OBJECT, at(key), query, data)


def get(live_api: LiveApi, key: str, **query: object) -> Answer:
    answer = live_api.ask("GET", target_of(objects.GET_OBJECT, at(key), query))
    if answer.status != 200:
        raise answer.problem
    return answer


SIZES = [0, 1, 60_000, 70_000, MIB, 5 * MIB + 3, 13 * MIB]


@pytest.mark.parametrize("size", SIZES)
def test_what_is_stored_is_given_back(live_api: LiveApi, size: int) -> None:
    data = (BLOCK * (size // MIB + 1))[:size]
    state = put(live_api, "a", data)
    assert (state.size, state.etag) == (size, hashlib.md5(data, usedforsecurity=False).hexdigest())
    assert live_api.store.bucket("photos").read("a") == data
    answer = get(live_api, "a")
    assert answer.body == data
    assert answer.headers["etag"] == f'"{state.etag}"'
    assert answer.headers["lakebed-size"] == str(size)
    assert answer.headers["lakebed-version-id"] == state.version_id
    assert live_api.call(objects.DESCRIBE_OBJECT, at("a")) == state


def test_a_body_without_a_length_is_stored_too(live_api: LiveApi) -> None:
    target = target_of(objects.PUT_OBJECT, at("chunked"))
    answer = live_api.ask("PUT", target, iter([BLOCK] * 9 + [b"end"]))
    assert answer.json["size"] == 9 * MIB + 3
    assert get(live_api, "chunked").body == BLOCK * 9 + b"end"


KEYS = [
    "..", "../../etc/passwd", "a/../b", "//", "/a", "a//b", "a/", "ünï/😀", " a b ", "a?b#c%20",
    "a\nb\x01\x7f", "\0", "+&=;", "x" * 1024, "%2F", ".",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_a_key_is_any_text(live_api: LiveApi, key: str) -> None:
    target = f"/v1/buckets/photos/objects/{quote(key, safe='')}"
    stored = live_api.ask("PUT", target, key.encode())
    assert stored.status == 200, stored
    assert stored.json["key"] == key
    assert live_api.store.bucket("photos").read(key) == key.encode()
    assert live_api.ask("GET", target).body == key.encode()
    info = live_api.ask("GET", f"/v1/buckets/photos/info/{quote(key, safe='')}")
    assert info.json["key"] == key
    assert [one.key for one in live_api.call(objects.LIST_OBJECTS, PHOTOS).items] == [key]
    assert live_api.ask("DELETE", target).status == 200
    with pytest.raises(NoSuchKey):
        live_api.store.bucket("photos").head(key)


def test_a_key_that_is_none_is_refused(live_api: LiveApi) -> None:
    with pytest.raises(BadKey):
        put(live_api, "x" * 1025, b"1")
    assert live_api.ask("PUT", "/v1/buckets/photos/objects/%ff", b"1").status == 400
    assert live_api.ask("PUT", "/v1/buckets/photos/objects/", b"1").status == 404


def test_what_is_said_of_an_object_is_kept(live_api: LiveApi) -> None:
    given = {
        "content_type": "text/plain; charset=utf-8",
        "cache_control": "no-store",
        "content_disposition": "inline",
        "content_encoding": "gzip",
        "content_language": "de",
        "expires": "never",
    }
    metadata = {"owner": "Jürgen", "empty": ""}
    state = put(live_api, "a", b"1", **given, metadata=json.dumps(metadata), algorithm="SHA256")
    assert state.content == Content(**given, metadata=metadata)
    assert [one.algorithm for one in state.checksums] == [Algorithm.SHA256]
    content = live_api.store.bucket("photos").head("a").content
    assert (content.content_encoding, dict(content.metadata)) == ("gzip", metadata)
    assert get(live_api, "a").headers["content-type"] == media.BYTES, "no browser shall run it"
    assert put(live_api, "b", b"1").content == Content()


def test_the_type_of_the_body_is_the_objects(live_api: LiveApi) -> None:
    target = target_of(objects.PUT_OBJECT, at("a"))
    for said, kept in (("image/png", "image/png"), (media.BYTES, None)):
        answer = live_api.ask("PUT", target, b"1", {"Content-Type": said})
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
def test_a_wrong_query_stores_nothing(live_api: LiveApi, query: dict[str, str], size: int) -> None:
    with pytest.raises(InputError):
        put(live_api, "a", bytes(size), **query)
    live_api.hang_up()  # a body that was not read ends the connection
    with pytest.raises(NoSuchKey):
        get(live_api, "a")


@pytest.mark.parametrize("size", [1, 5 * MIB])
def test_conditions_are_kept(live_api: LiveApi, size: int) -> None:
    first = put(live_api, "a", bytes(size), if_none_match="*")
    with pytest.raises(PreconditionFailed):
        put(live_api, "a", bytes(size), if_none_match="*")
    live_api.hang_up()
    second = put(live_api, "a", b"2" * size, if_match=first.etag)
    with pytest.raises(PreconditionFailed):
        put(live_api, "a", bytes(size), if_match=first.etag)
    live_api.hang_up()
    with pytest.raises(PreconditionFailed):
        live_api.call(objects.DELETE_OBJECT, at("a"), {"if_match": first.etag})
    assert live_api.call(objects.DESCRIBE_OBJECT, at("a")) == second
    live_api.call(objects.DELETE_OBJECT, at("a"), {"if_match": second.etag})


def test_ranges_are_those_bytes(live_api: LiveApi) -> None:
    data = BLOCK * 9
    put(live_api, "a", data)
    for first, last in ((0, 0), (5, 10), (4 * MIB - 1, 4 * MIB + 1), (MIB, 9 * MIB - 1)):
        answer = get(live_api, "a", first=first, last=last)
        assert answer.body == data[first : last + 1]
        assert answer.headers["lakebed-size"] == str(9 * MIB), "of all of it"
    assert get(live_api, "a", first=9 * MIB - 2).body == data[-2:]
    assert get(live_api, "a", last=3).body == data[-3:]
    assert get(live_api, "a", first=1, last=1 << 62).body == data[1:]
    for wrong in ({"first": 9 * MIB}, {"first": 5, "last": 4}, {"last": 0}):
        with pytest.raises(BadRange):
            get(live_api, "a", **wrong)
    with pytest.raises(InputError):
        get(live_api, "a", first=-1)
    head = live_api.ask("HEAD", target_of(objects.GET_OBJECT, at("a"), {"first": 1}))
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(9 * MIB - 1)


def test_versions_are_read_and_removed_one_by_one(live_api: LiveApi) -> None:
    first, second = put(live_api, "a", b"1"), put(live_api, "a", b"22")
    assert get(live_api, "a").body == b"22"
    assert get(live_api, "a", version_id=first.version_id).body == b"1"
    old = live_api.call(objects.DESCRIBE_OBJECT, at("a"), {"version_id": first.version_id})
    assert (old.is_latest, second.is_latest) == (False, True)
    marker = live_api.call(objects.DELETE_OBJECT, at("a"))
    assert marker.is_marker
    with pytest.raises(NoSuchKey) as hidden:
        get(live_api, "a")
    assert hidden.value.marker_id == marker.version_id
    with pytest.raises(MethodNotAllowed):
        get(live_api, "a", version_id=marker.version_id)
    live_api.call(objects.DELETE_OBJECT, at("a"), {"version_id": marker.version_id})
    assert get(live_api, "a").body == b"22"
    for version_id in ("0" * 32, "", "ü", "x" * 900, "\0"):
        with pytest.raises(NoSuchVersion):
            get(live_api, "a", version_id=version_id)


def test_many_are_deleted_each_by_itself(live_api: LiveApi) -> None:
    for number in range(50):
        live_api.store.bucket("photos").put(f"{number}", b"1")
    doomed = [ObjectDeletion(f"{number}") for number in range(50)]
    doomed[7] = ObjectDeletion("")
    doomed[8] = ObjectDeletion("8", "no such version")
    outcomes = live_api.call(objects.DELETE_OBJECTS, PHOTOS, body=DeleteMany(doomed)).outcomes
    assert len(outcomes) == 50
    problem = outcomes[7].problem
    assert outcomes[7].deleted is None
    assert problem is not None
    assert isinstance(error_of(problem), BadKey)
    others = [one.deleted for index, one in enumerate(outcomes) if index != 7]
    assert all(one is not None for one in others)
    assert outcomes[8].deleted == Deleted("8", "no such version", is_marker=False)
    left = [one.key for one in live_api.call(objects.LIST_OBJECTS, PHOTOS).items]
    assert left == ["7", "8"]


def test_a_list_of_too_many_or_in_no_bucket_deletes_nothing(live_api: LiveApi) -> None:
    target = target_of(objects.DELETE_OBJECTS, PHOTOS)
    many = msgspec.json.encode({"objects": [{"key": "a"}] * 1001})
    for wrong in (many, b'{"objects": [{}]}', b'{"objects": "a"}', b"{}"):
        assert live_api.ask("POST", target, wrong).status == 400
    with pytest.raises(NoSuchBucket):
        live_api.call(objects.DELETE_OBJECTS, {"bucket": "none"}, body=DeleteMany([]))
    assert live_api.call(objects.DELETE_OBJECTS, PHOTOS, body=DeleteMany([])).outcomes == []


def test_a_body_that_breaks_off_stores_nothing(live_api: LiveApi) -> None:
    target = target_of(objects.PUT_OBJECT, at("half"))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(live_api.socket_path)
        head = f"PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {8 * MIB}\r\n\r\n"
        client.sendall(head.encode() + BLOCK * 5)
    wait_until(live_api, lambda: live_api.api.service.budget.requests == 0)
    with pytest.raises(NoSuchKey):
        get(live_api, "half")


def test_a_bucket_that_is_not_there_is_told_before_the_body_is_read(live_api: LiveApi) -> None:
    target = target_of(objects.PUT_OBJECT, {"bucket": "none", "key": "a"})
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(live_api.socket_path)
        client.sendall(
            f"PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {MIB}\r\n\r\n".encode()
        )
        answer = client.recv(65536)
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"no-such-bucket" in answer
    with pytest.raises(NoSuchBucket):
        live_api.call(objects.PUT_OBJECT, {"bucket": "none", "key": "a"}, body=b"small")


def test_a_damaged_object_is_an_error_and_not_wrong_bytes_or_copied(live_api: LiveApi) -> None:
    put(live_api, "a", BLOCK * 5)
    segments = Path(live_api.store.root) / "objects" / "segments"
    (segment,) = [path for path in segments.rglob("*") if path.is_file()]
    data = bytearray(segment.read_bytes())
    data[MIB] ^= 1
    segment.write_bytes(data)
    with pytest.raises(Damaged):
        get(live_api, "a")
    assert live_api.ask("GET", target_of(objects.GET_OBJECT, at("a"))).status == 500
    bucket = live_api.store.bucket("photos")
    wait_until(live_api, lambda: bucket.head("a").state is State.DAMAGED)
    with pytest.raises(Damaged, match="cannot be copied"):
        live_api.call(objects.COPY_OBJECT, at("a"), body=objects.CopyObject("copy"))
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
