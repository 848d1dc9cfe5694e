"""What every object store promises: the fake, memory, folders on both disks, and real S3."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from lakebed.aof.tiers.errors import Missing
from lakebed.aof.tiers.object_store import (
    METADATA_BYTES_MAX,
    ObjectSource,
    ObjectStore,
    check_key,
    check_metadata,
)
from lakebed.aof.tiers.ranges import BytesSource, pieces
from lakebed.aof.tiers.retrying_store import RetryingStore
from lakebed.base.errors import BadName, Corrupt, InputError, NotFound, TooLarge
from lakebed.base.units import MIB
from tests.aof.tiers.conftest import KINDS_FOR_THREADS

KEY = "aof2/00000000000000ff/segment-00000000000000000003-17.zst"
METADATA = {"crc64": "00ff00ff00ff00ff", "record-count": "12", "note": 'any "text" at all'}


def put(store: ObjectStore, key: str, data: bytes) -> str:
    return store.put(key, BytesSource(data), metadata={}).etag


def get(store: ObjectStore, key: str) -> bytes:
    return b"".join(pieces(ObjectSource(store, key, size=store.head(key).size)))


def test_what_was_put_is_there_with_its_metadata(store: ObjectStore) -> None:
    result = store.put(KEY, BytesSource(b"some bytes"), metadata=METADATA)
    info = store.head(KEY)
    assert (info.key, info.size, info.etag) == (KEY, 10, result.etag)
    assert info.metadata == METADATA
    assert info.etag
    assert get(store, KEY) == b"some bytes"


def test_an_object_may_be_empty(store: ObjectStore) -> None:
    put(store, KEY, b"")
    assert store.head(KEY).size == 0
    assert store.head(KEY).metadata == {}
    assert store.get_range(KEY, offset=0, length=10) == b""


def test_putting_again_replaces_bytes_and_metadata(store: ObjectStore) -> None:
    first = store.put(KEY, BytesSource(b"first"), metadata={"a": "1"})
    second = store.put(KEY, BytesSource(b"the second one"), metadata={"b": "2"})
    assert first.etag != second.etag
    assert store.head(KEY).metadata == {"b": "2"}
    assert get(store, KEY) == b"the second one"


def test_putting_the_same_again_is_fine(store: ObjectStore) -> None:
    put(store, KEY, b"same")
    put(store, KEY, b"same")
    assert [info.key for info in store.list("")] == [KEY]


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        (0, 4, b"0123"),
        (3, 4, b"3456"),
        (6, 4, b"6789"),
        (8, 4, b"89"),
        (10, 4, b""),
        (99, 4, b""),
        (3, 0, b""),
    ],
)
def test_a_range_is_cut_only_by_the_end(
    store: ObjectStore, offset: int, length: int, expected: bytes
) -> None:
    put(store, KEY, b"0123456789")
    assert store.get_range(KEY, offset=offset, length=length) == expected


def test_what_is_not_there_is_missing(store: ObjectStore) -> None:
    put(store, "a/other", b"x")
    for key in (KEY, "a", "a/other/below"):
        with pytest.raises(Missing):
            store.head(key)
        with pytest.raises(Missing):
            store.get_range(key, offset=0, length=1)
    with pytest.raises(NotFound):
        store.head(KEY)


def test_a_deleted_object_is_gone_and_may_be_deleted_again(store: ObjectStore) -> None:
    put(store, KEY, b"x")
    put(store, "aof2/other", b"y")
    store.delete(KEY)
    store.delete(KEY)
    with pytest.raises(Missing):
        store.head(KEY)
    store.delete("never/was")
    store.delete("aof2")
    assert [info.key for info in store.list("")] == ["aof2/other"]
    put(store, KEY, b"again")
    assert get(store, KEY) == b"again"


def test_a_listing_has_what_is_below_the_prefix(store: ObjectStore) -> None:
    etags = {key: put(store, key, key.encode()) for key in ("a/b", "a/c/d", "a/c/e", "ab/x", "z")}
    assert sorted(info.key for info in store.list("")) == sorted(etags)
    assert sorted(info.key for info in store.list("a/")) == ["a/b", "a/c/d", "a/c/e"]
    assert sorted(info.key for info in store.list("a/c/")) == ["a/c/d", "a/c/e"]
    assert list(store.list("nothing/here/")) == []
    (found,) = store.list("ab/")
    assert (found.size, found.etag, found.metadata) == (4, etags["ab/x"], None)


def test_an_empty_store_lists_nothing(store: ObjectStore) -> None:
    assert list(store.list("")) == []


def test_a_large_object_is_stored_in_parts_and_read_in_ranges(store: ObjectStore) -> None:
    data = Random(1).randbytes(18 * MIB + 5)
    store.put(KEY, BytesSource(data), metadata=METADATA)
    info = store.head(KEY)
    assert (info.size, info.metadata) == (len(data), METADATA)
    assert store.get_range(KEY, offset=9 * MIB, length=100) == data[9 * MIB : 9 * MIB + 100]
    assert get(store, KEY) == data


class BrokenSource(BytesSource):
    """Gives its first half."""

    def read_range(self, offset: int, length: int) -> bytes:
        if offset + length > self.size // 2:
            raise Corrupt("the source is damaged", path=self.name)
        return super().read_range(offset, length)


@pytest.mark.parametrize("size", [100, 20 * MIB])
def test_an_error_of_the_source_comes_through_and_nothing_is_stored(
    store: ObjectStore, size: int
) -> None:
    with pytest.raises(Corrupt, match="the source is damaged"):
        store.put(KEY, BrokenSource(bytes(size)), metadata={})
    with pytest.raises(Missing):
        store.head(KEY)
    put(store, KEY, b"whole")
    with pytest.raises(Corrupt, match="the source is damaged"):
        store.put(KEY, BrokenSource(bytes(size)), metadata={})
    assert get(store, KEY) == b"whole"


class GoneSource(BytesSource):
    """A warm file that was removed."""

    def read_range(self, offset: int, length: int) -> bytes:
        raise NotFound("the warm file is gone")


def test_a_source_that_is_gone_is_not_a_missing_object(store: ObjectStore) -> None:
    with pytest.raises(NotFound, match="the warm file is gone") as caught:
        store.put(KEY, GoneSource(b"1234"), metadata={})
    assert not isinstance(caught.value, Missing)


@pytest.mark.parametrize("store", KINDS_FOR_THREADS, indirect=True)
def test_many_may_put_and_read_at_once(store: ObjectStore) -> None:
    # As everybody uses one: a server may fail under contention, and is asked again.
    store = RetryingStore(store, random=Random(1), sleep_ns=lambda _: None)

    def work(number: int) -> None:
        for turn in range(5):
            key = f"shared/{number}-{turn}"
            put(store, key, b"%d" % number * 1000)
            assert get(store, key) == b"%d" % number * 1000
            put(store, "shared/contended", b"%d" % number * 1000)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(list(store.list("shared/"))) == 21
    assert len(get(store, "shared/contended")) == 1000


BAD_KEYS = [
    "",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "a/.hidden",
    "with space",
    "ümlaut",
    "a/b.tmp",
    "a\\b",
    "a\0b",
    "x" * 201,
    "/".join(["x" * 150] * 6),
    "-rf",
]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_does_not_mean_the_same_everywhere_is_refused(key: str) -> None:
    with pytest.raises(BadName):
        check_key(key)


def calls(store: ObjectStore) -> Iterator[object]:
    yield lambda: put(store, "../a", b"")
    yield lambda: store.get_range("../a", offset=0, length=1)
    yield lambda: store.head("../a")
    yield lambda: store.delete("../a")
    yield lambda: list(store.list("../"))
    yield lambda: list(store.list("no-slash"))
    yield lambda: store.put("a", BytesSource(b""), metadata={"Upper": "x"})


def test_every_call_checks_its_names(store: ObjectStore) -> None:
    for call in calls(store):
        with pytest.raises(BadName):
            call()  # type: ignore[operator]


@pytest.mark.parametrize(
    "metadata",
    [
        {"": "x"},
        {"under_score": "x"},
        {"Upper": "x"},
        {"content-type": "x"},
        {"cache-control": "x"},
        {"a": ""},
        {"a": " x"},
        {"a": "x\n"},
        {"a": "ü"},
        {"a" * 65: "x"},
    ],
)
def test_metadata_that_does_not_travel_is_refused(metadata: dict[str, str]) -> None:
    with pytest.raises(InputError):
        check_metadata(metadata)


def test_metadata_has_a_size_limit() -> None:
    check_metadata({"a": "x" * (METADATA_BYTES_MAX - 1)})
    with pytest.raises(TooLarge):
        check_metadata({"a": "x" * METADATA_BYTES_MAX})


def test_the_largest_metadata_is_kept(store: ObjectStore) -> None:
    metadata = {f"n{number}": '"\\' * 60 for number in range(16)}
    store.put(KEY, BytesSource(b"x"), metadata=metadata)
    assert store.head(KEY).metadata == metadata
