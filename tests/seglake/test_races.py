"""Many threads at one key: conditions let one through, and nobody sees half of anything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from lakebed.base.errors import Closed, LakebedError
from lakebed.base.units import KIB, MIB
from lakebed.seglake.errors import (
    BucketNotEmpty,
    NoSuchBucket,
    NoSuchKey,
    NoSuchUpload,
    PreconditionFailed,
)
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import Condition, Versioning
from lakebed.seglake.multipart import NamedPart
from tests.seglake.lakes import (
    BUCKET,
    IF_ABSENT,
    add_bucket,
    keys,
    open_lake,
    stored,
    told_versions,
)

pytestmark = pytest.mark.thorough

THREADS = 32
ROUNDS = 10
_HANGING_S = 120  # a guard against hanging, nothing that is measured


def together(count: int, call: Callable[[int], object]) -> list[object]:
    """Call it in that many threads at once; what each returned, or its error."""
    results: list[object] = [None] * count
    start = threading.Barrier(count)

    def run(index: int) -> None:
        start.wait(_HANGING_S)
        try:
            results[index] = call(index)
        except Exception as error:  # noqa: BLE001 - looked at by the test
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_HANGING_S)
        assert not thread.is_alive(), "it hangs"
    return results


def winner(results: list[object], error: type[LakebedError]) -> int:
    """The only one without an error; all others have that one."""
    winners = [index for index, result in enumerate(results) if not isinstance(result, Exception)]
    assert len(winners) == 1, results
    losers = [result for index, result in enumerate(results) if index != winners[0]]
    assert {type(loser) for loser in losers} == {error}
    return winners[0]


@pytest.fixture(params=list(Versioning), ids=lambda one: one.value)
def any_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    """A lake with one bucket, in each state of versioning."""
    with open_lake(tmp_path, part_bytes_min=1) as lake:
        add_bucket(lake, request.param)
        yield lake


def test_of_all_that_put_if_absent_one_succeeds(any_lake: Lake) -> None:
    for number in range(ROUNDS):
        key = f"key {number}"
        size = 2 * MIB if number == 0 else 10  # one round with segments of their own

        def put(index: int, key: str = key, size: int = size) -> object:
            data = bytes([index]) * size
            return any_lake.objects.put(BUCKET, key, data, condition=IF_ABSENT)

        won = winner(together(THREADS, put), PreconditionFailed)
        assert stored(any_lake, key) == bytes([won]) * size
    assert len(keys(any_lake)) == ROUNDS


def test_of_all_that_put_if_it_matches_one_succeeds(any_lake: Lake) -> None:
    etag = any_lake.objects.put(BUCKET, "key", b"first").etag
    for number in range(ROUNDS):
        condition = Condition(if_match=etag)

        def put(index: int, number: int = number, condition: Condition = condition) -> object:
            data = b"%d of %d" % (index, number)
            return any_lake.objects.put(BUCKET, "key", data, condition=condition)

        won = winner(together(THREADS, put), PreconditionFailed)
        assert stored(any_lake, "key") == b"%d of %d" % (won, number)
        etag = any_lake.objects.head(BUCKET, "key").etag
    if any_lake.buckets.get(BUCKET).versioning is Versioning.ENABLED:
        assert len(told_versions(any_lake)) == ROUNDS + 1


def test_an_absent_key_is_put_by_one_whatever_way_it_comes(any_lake: Lake) -> None:
    """As a body, a copy, or an upload."""
    any_lake.objects.put(BUCKET, "source", b"copy")
    for number in range(ROUNDS):
        key = f"key {number}"
        uploads = []
        for _ in range(4):
            upload_id = any_lake.uploads.create(BUCKET, key).upload_id
            etag = any_lake.uploads.put_part(BUCKET, key, upload_id, 1, b"upload").etag
            uploads.append((upload_id, [NamedPart(1, etag)]))

        def write(index: int, key: str = key, uploads: list = uploads) -> object:  # type: ignore[type-arg]
            if index < 4:
                return any_lake.uploads.complete(BUCKET, key, *uploads[index], condition=IF_ABSENT)
            if index % 2:
                return any_lake.objects.copy(BUCKET, "source", BUCKET, key, condition=IF_ABSENT)
            return any_lake.objects.put(BUCKET, key, b"put", condition=IF_ABSENT)

        won = winner(together(12, write), PreconditionFailed)
        expected = b"upload" if won < 4 else b"copy" if won % 2 else b"put"
        assert stored(any_lake, key) == expected
        assert len(any_lake.uploads.list(BUCKET, prefix=key).items) == 4 - (won < 4)


def test_an_upload_is_completed_by_one(any_lake: Lake) -> None:
    for number in range(ROUNDS):
        key = f"key {number}"
        upload_id = any_lake.uploads.create(BUCKET, key).upload_id
        named = [
            NamedPart(one, any_lake.uploads.put_part(BUCKET, key, upload_id, one, b"%d" % one).etag)
            for one in (1, 2)
        ]

        def end(
            index: int, key: str = key, upload_id: str = upload_id, named: list[NamedPart] = named
        ) -> object:
            if index == 7:
                any_lake.uploads.abort(BUCKET, key, upload_id)
                return None
            return any_lake.uploads.complete(BUCKET, key, upload_id, named)

        won = winner(together(THREADS, end), NoSuchUpload)
        assert keys(any_lake).count(key) == (won != 7)
        if won != 7:
            assert stored(any_lake, key) == b"12"
    if any_lake.buckets.get(BUCKET).versioning is Versioning.ENABLED:
        assert len(told_versions(any_lake)) == len(keys(any_lake))


def test_a_delete_that_must_match_is_done_by_one(any_lake: Lake) -> None:
    for number in range(ROUNDS):
        etag = any_lake.objects.put(BUCKET, "key", b"%d" % number).etag
        condition = Condition(if_match=etag)

        def delete(_index: int, condition: Condition = condition) -> object:
            return any_lake.objects.delete(BUCKET, "key", condition=condition)

        winner(together(THREADS, delete), NoSuchKey)
        assert keys(any_lake) == []


def test_nobody_reads_mixed_bytes(any_lake: Lake) -> None:
    """Bodies of one repeated byte, small and large, written, deleted and read at once."""
    sizes = (1, 700, 64 * KIB, MIB + 1)

    def work(index: int) -> int:
        random = Random(index)
        reads = 0
        for _ in range(12):
            action = random.choice(["put", "put", "read", "read", "delete", "copy"])
            size = random.choice(sizes)
            try:
                if action == "put":
                    any_lake.objects.put(BUCKET, "key", bytes([index]) * size)
                elif action == "delete":
                    any_lake.objects.delete(BUCKET, "key")
                elif action == "copy":
                    any_lake.objects.copy(BUCKET, "key", BUCKET, "key")
                else:
                    reader = any_lake.objects.get(BUCKET, "key")
                    data = reader.read()
                    assert len(data) == reader.info.size
                    assert data == data[:1] * len(data)
                    reads += 1
            except NoSuchKey:
                continue
        return reads

    results = together(16, work)
    assert all(isinstance(result, int) for result in results), results
    assert sum(result for result in results if isinstance(result, int)) > 0


def test_parts_that_are_replaced_while_an_upload_is_completed_are_whole(any_lake: Lake) -> None:
    for number in range(ROUNDS):
        key = f"key {number}"
        upload_id = any_lake.uploads.create(BUCKET, key).upload_id
        first = any_lake.uploads.put_part(BUCKET, key, upload_id, 1, b"first").etag

        def act(
            index: int, key: str = key, upload_id: str = upload_id, etag: str = first
        ) -> object:
            if index == 3:
                return any_lake.uploads.complete(BUCKET, key, upload_id, [NamedPart(1, etag)])
            return any_lake.uploads.put_part(BUCKET, key, upload_id, 1, b"other %d" % index)

        completed = together(8, act)[3]
        assert keys(any_lake).count(key) == (not isinstance(completed, Exception))
        if not isinstance(completed, Exception):
            assert stored(any_lake, key) == b"first"


def test_a_bucket_is_deleted_or_has_the_object(any_lake: Lake) -> None:
    for number in range(ROUNDS):
        name = f"bucket-{number}"
        any_lake.buckets.create(name)

        def act(index: int, name: str = name) -> object:
            if index % 4 == 0:
                any_lake.buckets.delete(name)
                return None
            return any_lake.objects.put(name, f"{index}", b"data")

        results = together(8, act)
        there = name in [found.name for found in any_lake.buckets.list()]
        stored_keys = [str(i) for i in range(8) if i % 4 and not isinstance(results[i], Exception)]
        errors = {type(result) for result in results if isinstance(result, Exception)}
        if there:
            assert keys(any_lake, name) == stored_keys
            assert errors == {BucketNotEmpty}
        else:
            assert stored_keys == []
            assert errors == {NoSuchBucket}


def test_a_bucket_is_created_by_all_who_agree(any_lake: Lake) -> None:
    results = together(THREADS, lambda _: any_lake.buckets.create("new"))
    assert len({repr(result) for result in results}) == 1


def test_what_was_acknowledged_before_a_close_is_there_and_all_else_was_refused(
    tmp_path: Path,
) -> None:
    for number in range(3):
        root = tmp_path / f"{number}"
        lake = open_lake(root)
        lake.buckets.create(BUCKET)
        done: list[tuple[str, int, int]] = []
        enough = threading.Event()

        def work(
            index: int,
            lake: Lake = lake,
            done: list[tuple[str, int, int]] = done,
            enough: threading.Event = enough,
        ) -> object:
            if index == 0:
                enough.wait(_HANGING_S)
                lake.close()
                return None
            count = 20 if index % 4 == 0 else 1  # pieces; the large ones are long under way
            while True:
                key = f"{index}-{len(done)}"
                lake.objects.put(BUCKET, key, (bytes([index]) * MIB for _ in range(count)))
                done.append((key, index, count))
                if len(done) >= 20:
                    enough.set()

        assert {type(result) for result in together(12, work)[1:]} == {Closed}
        with open_lake(root) as again:
            for key, index, count in done:
                assert stored(again, key) == bytes([index]) * (count * MIB)
