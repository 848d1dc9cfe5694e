"""Objects: their bytes in all sizes and pieces, ranges of them, and what is kept beside them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lakebed.base.errors import Closed, InputError, TooLarge
from lakebed.base.units import KIB, MIB
from lakebed.seglake.body import Source
from lakebed.seglake.conditions import NotModified, ReadCondition
from lakebed.seglake.errors import BadRange, BadSize, NoSuchKey, NoSuchVersion, PreconditionFailed
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import Condition, Content, Deleted, ObjectToDelete, State, Versioning
from lakebed.seglake.ranges import ByteRange
from tests.fakes.object_model import md5
from tests.seglake.lakes import (
    BUCKET,
    IF_ABSENT,
    IF_PRESENT,
    add_bucket,
    body,
    in_pieces,
    keys,
    open_lake,
    segment_bytes,
    stored,
    told_versions,
)

SIZES = [0, 1, MIB - 1, MIB, MIB + 1, 4 * MIB, 4 * MIB + 1, 9 * MIB]
CONTENT = Content(
    content_type="image/jpeg",
    cache_control="no-cache",
    content_disposition='attachment; filename="a.jpg"',
    content_encoding="gzip",
    content_language="de, en",
    expires="Thu, 01 Dec 1994 16:00:00 GMT",
    metadata={"camera": "Ä7", "empty": "", "line": "a\r\nb"},
)


class OwnError(Exception):
    """What a body's source may raise."""


@pytest.mark.parametrize("size", SIZES)
def test_a_body_of_any_size_is_given_back(lake: Lake, size: int) -> None:
    data = body(size)
    sources: dict[str, Source] = {
        "bytes": data,
        "bytearray": bytearray(data),
        "view": memoryview(data),
        "file": io.BytesIO(data),
        "pieces": in_pieces(data, 1, 65_537, 3 * MIB + 11, 0, 4 * MIB),
        "large pieces": [data],
    }
    for key, source in sources.items():
        info = lake.objects.put(BUCKET, key, source, size=size)
        assert (info.size, info.etag) == (size, md5(data))
        assert stored(lake, key) == data
        found = lake.objects.head(BUCKET, key)
        assert found == info
        assert (found.key, found.bucket, found.state) == (key, BUCKET, State.ACTIVE)


def test_a_file_is_read_from_where_it_stands(lake: Lake) -> None:
    file = io.BytesIO(b"0123456789")
    file.seek(4)
    lake.objects.put(BUCKET, "key", file)
    assert stored(lake, "key") == b"456789"


def test_bytes_that_come_by_and_by_may_be_reused(lake: Lake) -> None:
    buffer = bytearray(300 * KIB)
    expected = bytearray()
    with lake.objects.begin_put(BUCKET, "key") as put:
        for number in range(20):
            buffer[:] = bytes([number]) * len(buffer)
            expected += buffer
            put.write(buffer)
            buffer[:] = bytes(len(buffer))
        put.finish()
    assert stored(lake, "key") == bytes(expected)


def test_a_large_body_comes_back_chunk_by_chunk(lake: Lake) -> None:
    data = body(9 * MIB)
    lake.objects.put(BUCKET, "key", data)
    reader = lake.objects.get(BUCKET, "key")
    assert len(reader) == 9 * MIB
    assert [len(piece) for piece in reader] == [4 * MIB, 4 * MIB, MIB]
    assert b"".join(reader) == data


@pytest.mark.parametrize("size", [1, 1000, 4 * MIB, 9 * MIB])
def test_every_kind_of_range_is_given(lake: Lake, size: int) -> None:
    data = body(size)
    lake.objects.put(BUCKET, "key", data)
    random = Random(size)
    places = {0, size - 1, size, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 8 * MIB}
    places |= {random.randrange(size) for _ in range(5)}
    for first in places:
        for last in (None, *(place for place in places if place >= first)):
            byte_range = ByteRange(first, last)
            if first >= size:
                with pytest.raises(BadRange) as caught:
                    lake.objects.get(BUCKET, "key", byte_range=byte_range)
                assert caught.value.size == size
                continue
            reader = lake.objects.get(BUCKET, "key", byte_range=byte_range)
            expected = data[first:] if last is None else data[first : last + 1]
            assert (reader.start, reader.end) == (first, first + len(expected))
            assert reader.read() == expected
    for length in places - {0}:
        byte_range = ByteRange(None, length)
        assert lake.objects.get(BUCKET, "key", byte_range=byte_range).read() == data[-length:]


def test_an_empty_object_has_no_ranges(lake: Lake) -> None:
    lake.objects.put(BUCKET, "key", b"")
    for byte_range in (ByteRange(0), ByteRange(0, 0), ByteRange(None, 5)):
        with pytest.raises(BadRange):
            lake.objects.get(BUCKET, "key", byte_range=byte_range)


@pytest.mark.parametrize("size", [0, 10, MIB + 1, 9 * MIB])
def test_a_body_that_fails_leaves_nothing_behind(lake: Lake, size: int) -> None:
    def failing() -> Iterator[bytes]:
        yield body(size)
        raise OwnError

    lake.objects.put(BUCKET, "key", b"before")
    with pytest.raises(OwnError):
        lake.objects.put(BUCKET, "key", failing())
    with pytest.raises(OwnError):
        lake.objects.put(BUCKET, "other", failing())
    assert keys(lake) == ["key"]
    assert stored(lake, "key") == b"before"
    assert len(told_versions(lake)) == 1
    with pytest.raises(NoSuchKey):
        lake.objects.head(BUCKET, "other")


@pytest.mark.parametrize("size", [0, 10, MIB + 1, 5 * MIB])
def test_a_body_of_another_size_than_announced_is_refused(lake: Lake, size: int) -> None:
    for announced in (size + 1, size - 1, 2 * size + 7):
        with pytest.raises(BadSize):
            lake.objects.put(BUCKET, "key", body(size), size=announced)
    assert keys(lake) == []


def test_text_is_no_body(lake: Lake) -> None:
    with pytest.raises(InputError):
        lake.objects.put(BUCKET, "key", "text")  # type: ignore[arg-type]
    with pytest.raises(InputError):
        lake.objects.put(BUCKET, "key", ["text"])  # type: ignore[list-item]
    with pytest.raises(InputError):
        lake.objects.put(BUCKET, "key", io.StringIO("text"))  # type: ignore[arg-type]
    assert keys(lake) == []


def test_objects_have_a_size_that_is_the_largest(tmp_path: Path) -> None:
    with open_lake(tmp_path, max_object_size=2 * MIB) as lake:
        lake.buckets.create(BUCKET)
        lake.objects.put(BUCKET, "key", body(2 * MIB))
        with pytest.raises(TooLarge):
            lake.objects.put(BUCKET, "larger", body(2 * MIB + 1))
        assert keys(lake) == ["key"]


def test_a_put_that_was_given_up_is_none(lake: Lake) -> None:
    with lake.objects.begin_put(BUCKET, "key") as put:
        put.write(body(5 * MIB))
    put.give_up()
    assert keys(lake) == []
    lake.objects.put(BUCKET, "key", body(5 * MIB))
    assert stored(lake, "key") == body(5 * MIB)


def test_many_puts_can_be_handed_over_before_one_is_waited_for(lake: Lake) -> None:
    pending = []
    for number in range(200):
        put = lake.objects.begin_put(BUCKET, f"{number:03}")
        put.write(b"%d" % number)
        pending.append(put.submit())
    infos = [one.wait() for one in pending]
    assert [info.key for info in infos] == keys(lake)
    assert all(stored(lake, f"{number:03}") == b"%d" % number for number in range(200))


def test_equal_bodies_of_one_batch_are_apart(lake: Lake) -> None:
    pending = []
    for number in range(10):
        put = lake.objects.begin_put(BUCKET, f"{number}", condition=IF_ABSENT)
        put.write(b"same")
        pending.append(put.submit())
    for one in pending:
        one.wait()
    lake.objects.delete(BUCKET, "3")
    assert all(stored(lake, f"{number}") == b"same" for number in range(10) if number != 3)


def test_headers_and_metadata_are_kept(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        lake.buckets.create(BUCKET)
        assert lake.objects.put(BUCKET, "key", b"data", content=CONTENT).content == CONTENT
        lake.objects.put(BUCKET, "bare", b"data")
    with open_lake(tmp_path) as lake:
        assert lake.objects.head(BUCKET, "key").content == CONTENT
        assert lake.objects.head(BUCKET, "bare").content == Content()
        rows = lake.objects.list(BUCKET).items
        assert [row.content_type for row in rows] == [None, "image/jpeg"]


@pytest.mark.parametrize(
    "content",
    [
        Content(metadata={"age": 7}),  # type: ignore[dict-item]
        Content(metadata={7: "age"}),  # type: ignore[dict-item]
        Content(content_type=b"text/plain"),  # type: ignore[arg-type]
        Content(content_type="\ud800"),
    ],
    ids=repr,
)
def test_what_is_no_text_is_refused_and_harms_no_one_else(lake: Lake, content: Content) -> None:
    good = lake.objects.begin_put(BUCKET, "good").submit()
    bad = lake.objects.begin_put(BUCKET, "bad", content=content).submit()
    with pytest.raises(InputError):
        bad.wait()
    with pytest.raises(InputError):
        lake.uploads.create(BUCKET, "bad", content=content)
    good.wait()
    lake.objects.put(BUCKET, "later", b"")
    assert keys(lake) == ["good", "later"]


def test_deleting_what_is_not_there_is_no_error(lake: Lake) -> None:
    add_bucket(lake, Versioning.DISABLED, "plain")
    assert lake.objects.delete("plain", "key") == Deleted("key", None, is_marker=False)
    lake.objects.put("plain", "key", b"data")
    assert lake.objects.delete("plain", "key") == Deleted("key", None, is_marker=False)
    assert lake.objects.delete("plain", "key") == Deleted("key", None, is_marker=False)
    with pytest.raises(NoSuchKey):
        lake.objects.get("plain", "key")


def test_many_are_deleted_each_by_itself(lake: Lake) -> None:
    info = {key: lake.objects.put(BUCKET, key, key.encode()) for key in "abc"}
    results = lake.objects.delete_many(
        BUCKET,
        [
            ObjectToDelete("a"),
            ObjectToDelete(""),
            ObjectToDelete("b", condition=Condition(if_match="another")),
            ObjectToDelete("c", info["c"].version_id),
            ObjectToDelete("missing", "0" * 32),
            ObjectToDelete("b", condition=Condition(if_match=info["b"].etag)),
        ],
    )
    kinds = [type(result) for result in results]
    assert kinds[:4] == [Deleted, type(results[1]), PreconditionFailed, Deleted]
    assert isinstance(results[1], InputError)
    assert results[3] == Deleted("c", info["c"].version_id, is_marker=False)
    assert results[4] == Deleted("missing", "0" * 32, is_marker=False)
    assert kinds[5] is Deleted
    assert keys(lake) == []
    with pytest.raises(InputError):
        lake.objects.delete_many(BUCKET, [ObjectToDelete("a")] * 1001)


def test_a_condition_of_a_write_holds_or_nothing_happens(lake: Lake) -> None:
    put = lake.objects.put
    with pytest.raises(NoSuchKey):
        put(BUCKET, "key", b"1", condition=IF_PRESENT)
    with pytest.raises(NoSuchKey):
        put(BUCKET, "key", b"1", condition=Condition(if_match="etag"))
    first = put(BUCKET, "key", b"1", condition=IF_ABSENT)
    with pytest.raises(PreconditionFailed):
        put(BUCKET, "key", b"2", condition=IF_ABSENT)
    with pytest.raises(PreconditionFailed):
        put(BUCKET, "key", b"2", condition=Condition(if_match="another"))
    assert stored(lake, "key") == b"1"
    second = put(BUCKET, "key", b"2", condition=Condition(if_match=first.etag))
    put(BUCKET, "key", b"3", condition=IF_PRESENT)
    with pytest.raises(PreconditionFailed):
        put(BUCKET, "key", b"4", condition=Condition(if_match=second.etag))
    assert stored(lake, "key") == b"3"
    with pytest.raises(InputError):
        put(BUCKET, "key", b"4", condition=Condition(if_none_match=second.etag))


def test_a_delete_marker_counts_as_nothing_there(lake: Lake) -> None:
    first = lake.objects.put(BUCKET, "key", b"1")
    lake.objects.delete(BUCKET, "key")
    for condition in (IF_PRESENT, Condition(if_match=first.etag)):
        with pytest.raises(NoSuchKey):
            lake.objects.put(BUCKET, "key", b"2", condition=condition)
        with pytest.raises(NoSuchKey):
            lake.objects.delete(BUCKET, "key", condition=condition)
    lake.objects.put(BUCKET, "key", b"2", condition=IF_ABSENT)
    assert stored(lake, "key") == b"2"


@pytest.mark.parametrize("versioning", list(Versioning))
def test_a_delete_may_have_a_condition(lake: Lake, versioning: Versioning) -> None:
    add_bucket(lake, versioning, "ant")
    with pytest.raises(NoSuchKey):
        lake.objects.delete("ant", "key", condition=IF_PRESENT)
    first = lake.objects.put("ant", "key", b"1")
    with pytest.raises(PreconditionFailed):
        lake.objects.delete("ant", "key", condition=Condition(if_match="another"))
    assert stored(lake, "key", bucket="ant") == b"1"
    lake.objects.delete("ant", "key", condition=Condition(if_match=first.etag))
    with pytest.raises(NoSuchKey):
        lake.objects.head("ant", "key")


def test_a_large_put_hears_early_that_its_condition_fails(lake: Lake, tmp_path: Path) -> None:
    lake.objects.put(BUCKET, "key", b"1")
    before = segment_bytes(tmp_path)

    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(MIB)

    with pytest.raises(PreconditionFailed):
        lake.objects.put(BUCKET, "key", endless(), condition=IF_ABSENT)
    assert segment_bytes(tmp_path) == before


def test_a_get_may_have_conditions(lake: Lake) -> None:
    info = lake.objects.put(BUCKET, "key", b"data")
    get = lake.objects.get
    assert get(BUCKET, "key", condition=ReadCondition(if_match=(info.etag,))).read() == b"data"
    with pytest.raises(PreconditionFailed):
        get(BUCKET, "key", condition=ReadCondition(if_match=("another",)))
    with pytest.raises(NotModified):
        get(BUCKET, "key", condition=ReadCondition(if_none_match=(info.etag,)))
    with pytest.raises(NotModified):
        get(BUCKET, "key", condition=ReadCondition(if_modified_since_ms=info.modified_ms))


def test_what_is_being_read_stays_whatever_happens_to_it(lake: Lake) -> None:
    data = body(9 * MIB)
    add_bucket(lake, Versioning.DISABLED, "plain")
    lake.objects.put("plain", "key", data)
    reader = lake.objects.get("plain", "key")
    pieces = iter(reader)
    first = bytes(next(pieces))
    lake.objects.put("plain", "key", b"another")
    second = bytes(next(pieces))
    lake.objects.delete("plain", "key")
    assert first + second + b"".join(pieces) == data
    assert b"".join(reader) == data


def test_missing_ones_are_told_apart(lake: Lake) -> None:
    with pytest.raises(NoSuchKey) as caught:
        lake.objects.get(BUCKET, "key")
    assert caught.value.marker_id is None
    for version_id in ("null", "0" * 32, "", "no id at all"):
        with pytest.raises(NoSuchVersion):
            lake.objects.get(BUCKET, "key", version_id=version_id)


def test_a_closed_lake_refuses_everything_and_closes_twice(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    lake.buckets.create(BUCKET)
    lake.objects.put(BUCKET, "key", b"data")
    lake.close()
    lake.close()
    with pytest.raises(Closed):
        lake.objects.put(BUCKET, "key", b"data")
    with pytest.raises(Closed):
        lake.objects.put(BUCKET, "key", body(5 * MIB))
    with pytest.raises(Closed):
        lake.objects.get(BUCKET, "key")
    with open_lake(tmp_path) as again:
        assert stored(again, "key") == b"data"


def test_a_put_that_outlives_its_lake_writes_nothing(tmp_path: Path) -> None:
    """Whoever opened the lake again has sealed the segment by then."""
    lake = open_lake(tmp_path)
    lake.buckets.create(BUCKET)
    lake.objects.put(BUCKET, "before", b"data")
    put = lake.objects.begin_put(BUCKET, "key")
    put.write(body(5 * MIB))
    lake.close()
    with open_lake(tmp_path) as again:
        held = segment_bytes(tmp_path)
        with pytest.raises(Closed):  # noqa: PT012 - what is written in the background fails later
            put.write(body(5 * MIB))
            put.finish()
        with pytest.raises(Closed):
            put.finish()
        put.give_up()
        assert segment_bytes(tmp_path) == held
        assert keys(again) == ["before"]
    with open_lake(tmp_path) as again:
        assert again.damage == []
        assert stored(again, "before") == b"data"


@pytest.mark.parametrize("size", [3, 2 * MIB])
def test_a_body_is_ended_once(lake: Lake, size: int) -> None:
    with lake.objects.begin_put(BUCKET, "k") as put:
        put.write(body(size))
        put.finish()
        with pytest.raises(Closed, match="already finished"):
            put.finish()
        with pytest.raises(Closed, match="already finished"):
            put.write(b"more")
    assert stored(lake, "k") == body(size)
    assert len(told_versions(lake)) == 1
