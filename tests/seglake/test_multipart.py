"""Multipart uploads: parts in any order, what completing asks for, and what it makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.base.errors import InputError, TooLarge
from lakebed.base.units import MIB
from lakebed.seglake.errors import (
    BadPart,
    BadPartOrder,
    BadRange,
    BadSize,
    NoSuchKey,
    NoSuchUpload,
    PartTooSmall,
    PreconditionFailed,
)
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import Condition, Content, Versioning
from lakebed.seglake.multipart import PART_NUMBER_MAX, NamedPart
from lakebed.seglake.ranges import ByteRange, part_range
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

CONTENT = Content(content_type="text/csv", content_language="en", metadata={"a": "ä"})
PART_BYTES = 5 * MIB


class Upload:
    """One under way, and what its parts are called."""

    def __init__(self, lake: Lake, key: str = "key", bucket: str = BUCKET) -> None:
        self._lake = lake
        self._place = (bucket, key)
        self.upload_id = lake.uploads.create(bucket, key, content=CONTENT).upload_id
        self.named: dict[int, NamedPart] = {}

    def put(self, number: int, data: bytes) -> NamedPart:
        part = self._lake.uploads.put_part(*self._place, self.upload_id, number, data)
        assert (part.number, part.size) == (number, len(data))
        assert part.etag == md5(data)
        self.named[number] = NamedPart(number, part.etag)
        return self.named[number]

    def complete(self, *numbers: int, condition: Condition | None = None) -> str:
        """The ETag."""
        named = [self.named[number] for number in numbers or sorted(self.named)]
        return self.complete_with(named, condition=condition)

    def complete_with(self, named: list[NamedPart], *, condition: Condition | None = None) -> str:
        condition = condition or Condition()
        return self._lake.uploads.complete(
            *self._place, self.upload_id, named, condition=condition
        ).etag


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Lake]:
    """A lake whose parts may have any size."""
    with open_lake(tmp_path, part_bytes_min=1) as lake:
        lake.buckets.create(BUCKET)
        yield lake


def etag_of(*parts: bytes) -> str:
    digests = b"".join(bytes.fromhex(md5(part)) for part in parts)
    return f"{md5(digests)}-{len(parts)}"


def test_parts_become_one_object(lake: Lake, tmp_path: Path) -> None:
    parts = [body(PART_BYTES, 1), body(PART_BYTES + 3, 2), body(10, 3)]
    upload = Upload(lake)
    for number in (3, 1, 2):
        upload.put(number, parts[number - 1])
    assert keys(lake) == []
    before = segment_bytes(tmp_path)
    assert upload.complete() == etag_of(*parts)
    assert segment_bytes(tmp_path) == before
    assert stored(lake, "key") == b"".join(parts)
    info = lake.objects.head(BUCKET, "key")
    assert info.size == sum(map(len, parts))
    assert info.part_sizes == tuple(map(len, parts))
    assert info.content == CONTENT
    for number, data in enumerate(parts, start=1):
        place = part_range(info, number)
        assert place is not None
        reader = lake.objects.get(BUCKET, "key").between(place.start, place.stop)
        assert reader.read() == data
    byte_range = ByteRange(PART_BYTES - 2, 2 * PART_BYTES + 5)
    reader = lake.objects.get(BUCKET, "key", byte_range=byte_range)
    assert reader.read() == b"".join(parts)[PART_BYTES - 2 : 2 * PART_BYTES + 6]


def test_one_part_is_enough_and_it_may_be_empty(small: Lake) -> None:
    for key, data in (("one", b"data"), ("empty", b"")):
        upload = Upload(small, key)
        upload.put(7, data)
        assert upload.complete() == etag_of(data)
        assert stored(small, key) == data
        assert small.objects.head(BUCKET, key).part_sizes == (len(data),)


def test_a_part_may_come_in_pieces(small: Lake) -> None:
    upload = Upload(small)
    data = body(PART_BYTES)
    part = small.uploads.put_part(
        BUCKET, "key", upload.upload_id, 1, in_pieces(data, 77, MIB), size=len(data)
    )
    upload.named[1] = NamedPart(1, f'"{part.etag}"')
    with pytest.raises(BadSize):
        small.uploads.put_part(BUCKET, "key", upload.upload_id, 2, b"12", size=3)
    upload.complete()
    assert stored(small, "key") == data


def test_a_part_is_replaced_by_a_later_one_of_its_number(small: Lake) -> None:
    upload = Upload(small)
    old = upload.put(1, b"old")
    upload.put(2, b"-rest")
    upload.put(1, b"new")
    with pytest.raises(BadPart):
        upload.complete_with([old, upload.named[2]])
    assert upload.complete() == etag_of(b"new", b"-rest")
    assert stored(small, "key") == b"new-rest"


def test_parts_that_are_not_named_are_dropped(small: Lake) -> None:
    upload = Upload(small)
    for number in (1, 4, 9):
        upload.put(number, b"%d" % number)
    upload.complete(1, 9)
    assert stored(small, "key") == b"19"
    with pytest.raises(NoSuchUpload):
        small.uploads.parts(BUCKET, "key", upload.upload_id)


def test_what_is_named_wrongly_is_refused_and_the_upload_stays(small: Lake) -> None:
    upload = Upload(small)
    one, two = upload.put(1, b"1"), upload.put(2, b"2")
    for named in ([two, one], [one, one], [one, two, one]):
        with pytest.raises(BadPartOrder):
            upload.complete_with(named)
    for wrong in (NamedPart(3, one.etag), NamedPart(2, one.etag), NamedPart(2, "")):
        with pytest.raises(BadPart):
            upload.complete_with([one, wrong])
    with pytest.raises(InputError):
        upload.complete_with([])
    assert keys(small) == []
    assert len(small.uploads.parts(BUCKET, "key", upload.upload_id).parts) == 2
    upload.complete()
    assert stored(small, "key") == b"12"


def test_all_parts_but_the_last_have_5_mib(lake: Lake) -> None:
    upload = Upload(lake)
    upload.put(1, body(PART_BYTES - 1))
    upload.put(2, b"rest")
    with pytest.raises(PartTooSmall):
        upload.complete()
    upload.put(1, body(PART_BYTES))
    upload.put(3, b"")
    with pytest.raises(PartTooSmall):
        upload.complete()
    upload.complete(1, 3)
    assert stored(lake, "key") == body(PART_BYTES)


def test_parts_have_numbers_from_1_to_10_000(small: Lake) -> None:
    upload = Upload(small)
    for number in (0, -1, PART_NUMBER_MAX + 1, 1 << 70):
        with pytest.raises(InputError):
            upload.put(number, b"x")
    upload.put(1, b"first ")
    upload.put(PART_NUMBER_MAX, b"last")
    upload.complete()
    assert stored(small, "key") == b"first last"


@pytest.mark.thorough
def test_ten_thousand_parts_become_one_object(small: Lake) -> None:
    upload = Upload(small)
    pending = []
    for number in range(1, PART_NUMBER_MAX + 1):
        put = small.uploads.begin_part(BUCKET, "key", upload.upload_id, number)
        put.write(b"%05d" % number)
        pending.append(put.submit())
    named = [NamedPart(part.number, part.etag) for part in [one.wait() for one in pending]]
    etag = upload.complete_with(named)
    assert etag.endswith("-10000")
    expected = b"".join(b"%05d" % number for number in range(1, PART_NUMBER_MAX + 1))
    assert stored(small, "key") == expected
    assert small.objects.get(BUCKET, "key", byte_range=ByteRange(7, 12)).read() == expected[7:13]


def test_an_object_of_parts_has_a_largest_size_too(tmp_path: Path) -> None:
    with open_lake(tmp_path, part_bytes_min=1, max_object_size=5) as lake:
        lake.buckets.create(BUCKET)
        upload = Upload(lake)
        upload.put(1, b"123")
        with pytest.raises(TooLarge):
            upload.put(2, b"456")
        lake.objects.put(BUCKET, "source", b"456")
        copying = lake.uploads.part_copying(BUCKET, "source", BUCKET, "key", upload.upload_id, 2)
        assert copying.step() is None
        with pytest.raises(TooLarge):
            copying.step()  # before anything is copied
        upload.put(2, b"45")
    with open_lake(tmp_path, part_bytes_min=1, max_object_size=4) as lake:
        named = [upload.named[1], upload.named[2]]
        with pytest.raises(TooLarge):
            lake.uploads.complete(BUCKET, "key", upload.upload_id, named)
    with open_lake(tmp_path, part_bytes_min=1, max_object_size=5) as lake:
        lake.uploads.complete(BUCKET, "key", upload.upload_id, named)
        assert stored(lake, "key") == b"12345"


def test_completing_may_have_a_condition(small: Lake) -> None:
    upload = Upload(small)
    upload.put(1, b"parts")
    with pytest.raises(NoSuchKey):
        upload.complete(condition=IF_PRESENT)
    before = small.objects.put(BUCKET, "key", b"before")
    with pytest.raises(PreconditionFailed):
        upload.complete(condition=IF_ABSENT)
    with pytest.raises(PreconditionFailed):
        upload.complete(condition=Condition(if_match="another"))
    with pytest.raises(InputError):
        upload.complete(condition=Condition(if_none_match=before.etag))
    assert stored(small, "key") == b"before"
    etag = upload.complete(condition=Condition(if_match=before.etag))
    assert stored(small, "key") == b"parts"
    again = Upload(small)
    again.put(1, b"again")
    small.objects.delete(BUCKET, "key")
    with pytest.raises(NoSuchKey):
        again.complete(condition=Condition(if_match=etag))
    again.complete(condition=IF_ABSENT)
    assert stored(small, "key") == b"again"


@pytest.mark.parametrize("versioning", list(Versioning))
def test_a_completed_upload_is_a_write_like_others(small: Lake, versioning: Versioning) -> None:
    add_bucket(small, versioning, "ant")
    small.objects.put("ant", "key", b"before")
    upload = Upload(small, bucket="ant")
    upload.put(1, b"after")
    upload.complete()
    assert stored(small, "key", bucket="ant") == b"after"
    expected = {Versioning.ENABLED: 2, Versioning.SUSPENDED: 1, Versioning.DISABLED: 1}
    assert len(told_versions(small, "ant")) == expected[versioning]


def check_gone(lake: Lake, upload: Upload, bucket: str = BUCKET, key: str = "key") -> None:
    place = (bucket, key, upload.upload_id)
    with pytest.raises(NoSuchUpload):
        lake.uploads.put_part(*place, 1, b"x")
    with pytest.raises(NoSuchUpload):
        lake.uploads.copy_part(BUCKET, "source", *place, 1)
    with pytest.raises(NoSuchUpload):
        lake.uploads.parts(*place)
    with pytest.raises(NoSuchUpload):
        lake.uploads.complete(*place, [NamedPart(1, "etag")])
    with pytest.raises(NoSuchUpload):
        lake.uploads.abort(*place)


def test_an_upload_ends_once(small: Lake) -> None:
    small.objects.put(BUCKET, "source", b"data")
    completed, aborted = Upload(small), Upload(small)
    for upload in (completed, aborted):
        upload.put(1, b"x")
    completed.complete()
    small.uploads.abort(BUCKET, "key", aborted.upload_id)
    check_gone(small, completed)
    check_gone(small, aborted)
    assert small.uploads.list(BUCKET).items == []
    assert stored(small, "key") == b"x"


def test_an_upload_belongs_to_its_bucket_and_key(small: Lake) -> None:
    small.buckets.create("other")
    small.objects.put(BUCKET, "source", b"data")
    upload = Upload(small)
    upload.put(1, b"x")
    check_gone(small, upload, key="other key")
    check_gone(small, upload, bucket="other")
    upload.complete()
    assert stored(small, "key") == b"x"


@pytest.mark.parametrize("size", [10, 2 * MIB])
def test_a_part_that_comes_after_the_end_is_refused(small: Lake, size: int) -> None:
    upload = Upload(small)
    with small.uploads.begin_part(BUCKET, "key", upload.upload_id, 1) as put:
        put.write(body(size))
        small.uploads.abort(BUCKET, "key", upload.upload_id)
        with pytest.raises(NoSuchUpload):
            put.finish()


def test_parts_are_copied_from_objects(small: Lake) -> None:
    data = body(9 * MIB)
    old = small.objects.put(BUCKET, "source", b"old one")
    small.objects.put(BUCKET, "source", data)
    upload = Upload(small)
    place = (BUCKET, "source", BUCKET, "key", upload.upload_id)
    ranged = ByteRange(4 * MIB - 5, 8 * MIB + 5)
    parts = [
        small.uploads.copy_part(*place, 1),
        small.uploads.copy_part(*place, 2, byte_range=ranged),
        small.uploads.copy_part(*place, 3, source_version_id=old.version_id),
    ]
    expected = [data, data[4 * MIB - 5 : 8 * MIB + 6], b"old one"]
    assert [part.size for part in parts] == [len(one) for one in expected]
    with pytest.raises(BadRange):
        small.uploads.copy_part(*place, 4, byte_range=ByteRange(9 * MIB))
    with pytest.raises(NoSuchKey):
        small.uploads.copy_part(BUCKET, "missing", *place[2:], 4)
    upload.named = {part.number: NamedPart(part.number, part.etag) for part in parts}
    assert upload.complete() == etag_of(*expected)
    assert stored(small, "key") == b"".join(expected)


def test_parts_are_listed_in_pages(small: Lake) -> None:
    upload = Upload(small)
    numbers = [2, 3, 7, 500, 9999]
    for number in reversed(numbers):
        upload.put(number, b"%d" % number)
    for max_parts in (1, 2, 4, 5, 1000, 5000):
        found: list[int] = []
        after: int | None = 0
        while after is not None:
            page = small.uploads.parts(
                BUCKET, "key", upload.upload_id, after=after, max_parts=max_parts
            )
            assert len(page.parts) <= max_parts
            assert page.upload.content == CONTENT
            found += [part.number for part in page.parts]
            after = page.next_number
        assert found == numbers
    for max_parts in (0, -7):
        page = small.uploads.parts(BUCKET, "key", upload.upload_id, max_parts=max_parts)
        assert (page.parts, page.next_number) == ([], None)


def test_uploads_are_listed_in_pages(small: Lake) -> None:
    expected = [
        (key, Upload(small, key).upload_id) for key in ("a", "b/1", "b/2", "b/2", "b/2", "c")
    ]
    expected.sort()
    for max_uploads in (1, 2, 3, 6):
        found: list[tuple[str, str]] = []
        marker, marker_id = "", None
        while True:
            page = small.uploads.list(
                BUCKET, key_marker=marker, upload_id_marker=marker_id, max_uploads=max_uploads
            )
            found += [(row.key, row.upload_id) for row in page.items]
            if page.next_marker is None:
                break
            marker, marker_id = page.next_marker, page.next_id
        assert found == expected
    page = small.uploads.list(BUCKET, delimiter="/")
    assert [row.key for row in page.items] == ["a", "c"]
    assert page.prefixes == ["b/"]
    page = small.uploads.list(BUCKET, prefix="b/2")
    assert [row.upload_id for row in page.items] == [one for key, one in expected if key == "b/2"]


def test_uploads_and_parts_are_there_after_reopening(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        lake.buckets.create(BUCKET)
        upload = Upload(lake)
        upload.put(1, body(PART_BYTES))
        upload.put(2, b"rest")
        pages = lake.uploads.parts(BUCKET, "key", upload.upload_id), lake.uploads.list(BUCKET)
    with open_lake(tmp_path) as lake:
        found = lake.uploads.parts(BUCKET, "key", upload.upload_id), lake.uploads.list(BUCKET)
        assert found == pages
        named = [NamedPart(part.number, part.etag) for part in found[0].parts]
        lake.uploads.complete(BUCKET, "key", upload.upload_id, named)
    with open_lake(tmp_path) as lake:
        assert stored(lake, "key") == body(PART_BYTES) + b"rest"
        assert lake.objects.head(BUCKET, "key").content == CONTENT
        assert lake.uploads.list(BUCKET).items == []
