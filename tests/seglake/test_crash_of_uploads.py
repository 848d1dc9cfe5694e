"""A crash at every I/O step of a multipart upload: no part that was acknowledged is lost, and
the object of the parts is there whole, with its upload gone, or not at all."""

from __future__ import annotations

import hashlib

import pytest

from lakebed.base.units import KIB
from lakebed.seglake.model import Algorithm, Content, Versioning
from lakebed.seglake.multipart import NamedPart
from lakebed.seglake.ranges import ByteRange
from tests.seglake.lake_worlds import (
    CONTENT,
    PLAIN,
    VERSIONED,
    Act,
    Machine,
    Play,
    content,
    use_small_chunks,
)

pytestmark = pytest.mark.thorough

SMALL, LARGE = 900, 20 * KIB  # bytes: written with others; in chunks of its own


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_chunks(monkeypatch)


def make_buckets(machine: Machine) -> None:
    machine.lake.buckets.create(PLAIN, versioning=Versioning.DISABLED)
    machine.lake.buckets.create(VERSIONED)
    for bucket in (PLAIN, VERSIONED):
        machine.lake.objects.put(bucket, "k", content(LARGE, "source"), content=CONTENT)


def create(bucket: str, *, key: str = "k", algorithm: Algorithm | None = None) -> Act:
    new = Content(content_type="video/mp4")
    return lambda machine: machine.lake.uploads.create(
        bucket, key, content=new, algorithm=algorithm
    )


def upload_of(machine: Machine, bucket: str, key: str) -> str:
    [upload] = machine.lake.uploads.list(bucket, prefix=key).items
    return upload.upload_id


def put_part(bucket: str, number: int, size: int, *, key: str = "k", seed: object = 0) -> Act:
    def act(machine: Machine) -> None:
        data = content(size, f"part {number} {seed}")
        upload_id = upload_of(machine, bucket, key)
        machine.lake.uploads.put_part(bucket, key, upload_id, number, data)

    return act


def copy_part(bucket: str, number: int, byte_range: ByteRange) -> Act:
    def act(machine: Machine) -> None:
        upload_id = upload_of(machine, bucket, "k")
        machine.lake.uploads.copy_part(
            PLAIN, "k", bucket, "k", upload_id, number, byte_range=byte_range
        )

    return act


def complete(bucket: str, *numbers: int, key: str = "k") -> Act:
    def act(machine: Machine) -> None:
        upload_id = upload_of(machine, bucket, key)
        parts = machine.lake.uploads.parts(bucket, key, upload_id).parts
        named = [NamedPart(part.number, part.etag) for part in parts if part.number in numbers]
        machine.lake.uploads.complete(bucket, key, upload_id, named)

    return act


def abort(bucket: str, key: str = "k") -> Act:
    def act(machine: Machine) -> None:
        machine.lake.uploads.abort(bucket, key, upload_of(machine, bucket, key))

    return act


COMPLETED = Play(
    before=[make_buckets],
    acts=[
        create(VERSIONED, algorithm=Algorithm.CRC32C),
        put_part(VERSIONED, 1, LARGE),
        put_part(VERSIONED, 3, SMALL),
        copy_part(VERSIONED, 4, ByteRange(100, 17_000)),
        put_part(VERSIONED, 2, SMALL),
        put_part(VERSIONED, 3, SMALL, seed="replaced"),
        complete(VERSIONED, 1, 3, 4),
    ],
)
OVER_AN_OBJECT = Play(
    before=[make_buckets, create(PLAIN), put_part(PLAIN, 1, LARGE)],
    acts=[
        put_part(PLAIN, 1, LARGE, seed="replaced"),
        Machine.pass_time,
        put_part(PLAIN, 2, SMALL),
        complete(PLAIN, 1, 2),
        Machine.pass_time,
        lambda machine: machine.lake.objects.delete(PLAIN, "k"),
    ],
)
ABORTED = Play(
    before=[make_buckets],
    acts=[
        create(VERSIONED, key="other"),
        create(VERSIONED),
        put_part(VERSIONED, 1, SMALL),
        put_part(VERSIONED, 2, LARGE, key="other"),
        abort(VERSIONED),
        put_part(VERSIONED, 1, SMALL, key="other"),
        complete(VERSIONED, 1, 2, key="other"),
        create(VERSIONED),
        abort(VERSIONED),
    ],
)
PLAYS = {"completed": COMPLETED, "over an object": OVER_AN_OBJECT, "aborted": ABORTED}
every_play = pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)


def test_the_play_ends_with_the_object_of_its_parts() -> None:
    seen = COMPLETED.seen(1)
    parts = [
        content(LARGE, "part 1 0"),
        content(SMALL, "part 3 replaced"),
        content(LARGE, "source")[100:17_001],
    ]
    assert seen[-1].data_of(VERSIONED, "k") == b"".join(parts)
    assert (seen[-1].uploads, seen[-1].parts) == ([], [])
    assert [part.number for part in seen[-2].parts] == [1, 2, 3, 4]
    assert seen[-2].data_of(VERSIONED, "k") == content(LARGE, "source")
    [info] = [one.info for one in seen[-1].objects if one.info and one.info.bucket == VERSIONED]
    md5s = b"".join(hashlib.md5(part, usedforsecurity=False).digest() for part in parts)
    assert info.etag == hashlib.md5(md5s, usedforsecurity=False).hexdigest() + "-3"
    assert info.content.content_type == "video/mp4"


def test_after_some_crashes_of_an_upload_no_part_is_lost() -> None:
    assert COMPLETED.sweep(seeds=[1], survivors=[0, 2], cases_max=16) == 16


@pytest.mark.sweep
@every_play
def test_after_a_crash_at_any_step_of_an_upload_no_part_is_lost(play: Play) -> None:
    assert play.sweep(seeds=[2], survivors=range(4), cases_max=100) == 100


@pytest.mark.slow
@every_play
def test_after_a_crash_at_any_step_of_an_upload_in_a_long_sweep(play: Play) -> None:
    play.sweep(seeds=[10], survivors=range(6), cases_max=100_000)


def test_an_upload_goes_on_after_a_restart() -> None:
    play = Play(before=[make_buckets, *COMPLETED.acts[:3]], acts=COMPLETED.acts[3:])
    assert play.seen(1)[-1].data_of(VERSIONED, "k") == COMPLETED.seen(1)[-1].data_of(VERSIONED, "k")
