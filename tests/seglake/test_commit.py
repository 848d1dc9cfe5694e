"""Puts without a condition are carried out together: the rows are those of one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakebed.base.clock import HybridClock
from lakebed.base.commit import Barrier
from lakebed.base.errors import InputError
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.kernels.checksum import blake3
from lakebed.kernels.disk import real_disk
from lakebed.seglake.body import Body
from lakebed.seglake.change import Change
from lakebed.seglake.commit_sink import CommitSink
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import NoSuchBucket, PreconditionFailed
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import BucketInfo, Condition, Content, ObjectInfo, Versioning
from lakebed.seglake.segment_pool import SegmentPool
from lakebed.seglake.versions import NewVersion, PlannedPut, VersionRules

VERSIONED, PLAIN = "versioned", "plain"
NO_CONDITION, NO_CONTENT = Condition(), Content()
TABLES = ("manifests", "versions", "objects_current", "oplog", "segments")


class Commit:
    """A sink whose clock and chance are the same each time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        clock = SimulatedClock()
        runner = ThreadRunner(clock=clock)
        self.database = Database(folder / "meta.db", disk=real_disk(), runner=runner, readers_max=1)
        for name, versioning in ((VERSIONED, Versioning.ENABLED), (PLAIN, Versioning.DISABLED)):
            info = BucketInfo(name=name, created_ms=0, versioning=versioning)
            self.database.write([partial(Writer.add_bucket, bucket=info)])
        self.rules = VersionRules(clock=HybridClock(clock), site_id="0" * 16, random=Random(1))
        self.segments = SegmentPool(
            folder, disk=real_disk(), runner=runner, config=SeglakeConfig(), random=Random(2)
        )
        self.sink = CommitSink(self.segments, self.database, self.rules.put_all, clock=runner.clock)
        self.barrier: Barrier[Change[Any], Any] = Barrier(
            self.sink, name="objects", runner=runner, wake=lambda: None
        )

    def put(
        self,
        bucket: str,
        key: str,
        *,
        together: bool = True,
        condition: Condition = NO_CONDITION,
        content: Content = NO_CONTENT,
    ) -> Change[ObjectInfo]:
        data = key.encode("utf-8", "replace") + b" is the body"
        body = Body(size=len(data), md5=bytes(16), checksums=(), inline=(blake3(data), data))

        def plan(chunks: Any) -> PlannedPut:
            new = NewVersion(size=len(data), etag="0" * 32, chunks=chunks, content=content)
            return PlannedPut(bucket, key, new)

        def apply(writer: Any, chunks: Any) -> ObjectInfo:
            return self.rules.put(writer, *plan(chunks), condition)

        return Change(
            self.barrier, apply, body, plan if together and not condition.is_given else None
        )

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        with self.database.snapshot() as reader:
            execute = reader.connection.execute
            return {
                table: sorted(execute(f"SELECT * FROM {table}"), key=repr)  # noqa: S608
                for table in TABLES
            }


@contextmanager
def commit_to(folder: Path) -> Iterator[Commit]:
    commit = Commit(folder)
    try:
        yield commit
    finally:
        commit.segments.close()
        commit.database.close()


def after(
    folder: Path, puts: Sequence[tuple[str, str]], *, together: bool
) -> tuple[list[Any], dict[str, list[tuple[Any, ...]]]]:
    with commit_to(folder) as commit:
        requests = [commit.put(bucket, key, together=together) for bucket, key in puts]
        results = commit.sink.commit(requests)
        return [str(result) for result in results], commit.rows()


@pytest.mark.parametrize("count", [1, 3, 4, 16, 17, 21, 40])
@pytest.mark.parametrize("buckets", [(VERSIONED,), (PLAIN,), (VERSIONED, PLAIN, "none")])
def test_puts_together_leave_what_puts_one_by_one_do(
    count: int, buckets: Sequence[str], tmp_path: Path
) -> None:
    puts = [(buckets[number % len(buckets)], f"key {number}") for number in range(count)]
    found = after(tmp_path / "together", puts, together=True)
    assert found == after(tmp_path / "apart", puts, together=False)


def test_of_two_puts_of_one_key_the_later_one_is_the_object(tmp_path: Path) -> None:
    with commit_to(tmp_path / "lake") as commit:
        first, other, last = commit.sink.commit(
            [commit.put(VERSIONED, key) for key in ("twice", "once", "twice")]
        )
        with commit.database.snapshot() as reader:
            current = reader.current(VERSIONED, "twice")
            before = reader.newest(VERSIONED, "twice", excluding=last.version_id)
        assert current is not None
        assert before is not None
        assert (current.version_id, before.version_id) == (last.version_id, first.version_id)
        assert first.version_id != other.version_id


def test_a_bucket_without_versions_keeps_the_last_of_two_puts_of_one_key(tmp_path: Path) -> None:
    with commit_to(tmp_path / "lake") as commit:
        requests = [commit.put(PLAIN, key) for key in ("twice", "once", "twice")]
        *_, last = commit.sink.commit(requests)
        with commit.database.snapshot() as reader:
            current = reader.current(PLAIN, "twice")
        assert current is not None
        assert current.version_id == last.version_id
        assert len(commit.rows()["versions"]) == 2


def test_a_put_that_cannot_be_stored_fails_alone(tmp_path: Path) -> None:
    with commit_to(tmp_path / "lake") as commit:
        good, bad, missing, also_good = commit.sink.commit(
            [
                commit.put(VERSIONED, "good"),
                commit.put(VERSIONED, "bad", content=Content(content_type="half \ud800")),
                commit.put("none", "missing"),
                commit.put(VERSIONED, "also good"),
            ]
        )
        assert (good.key, also_good.key) == ("good", "also good")
        assert isinstance(bad, InputError)
        assert isinstance(missing, NoSuchBucket)
        assert [row[4] for row in sorted(commit.rows()["oplog"])] == [VERSIONED] * 2


def test_a_condition_sees_the_puts_before_it_and_not_those_behind_it(tmp_path: Path) -> None:
    absent = Condition(if_none_match="*")
    with commit_to(tmp_path / "lake") as commit:
        results = commit.sink.commit(
            [
                commit.put(VERSIONED, "a"),
                commit.put(VERSIONED, "b", condition=absent),
                commit.put(VERSIONED, "a", condition=absent),
                commit.put(VERSIONED, "b"),
            ]
        )
        assert isinstance(results[2], PreconditionFailed)
        assert [result.key for result in (results[0], results[1], results[3])] == ["a", "b", "b"]


@pytest.mark.parametrize("is_last", [False, True])
def test_a_segment_is_recorded_as_long_as_the_last_body_in_it_made_it(
    is_last: bool, tmp_path: Path
) -> None:
    with commit_to(tmp_path / "lake") as commit:
        writer = commit.segments.borrow()  # as a large body does, which has its chunks written
        chunk = writer.append(blake3(b"large"), b"large")
        writer.sync()
        large = Body(5, md5=bytes(16), checksums=(), chunks=(chunk,), segments=(writer.row,))
        commit.segments.give_back(writer)
        written: Change[Any] = Change(commit.barrier, lambda *_: None, large)
        changes = [written, commit.put(VERSIONED, "small")]
        commit.sink.commit(changes if is_last else changes[::-1])
        with commit.database.snapshot() as reader:
            (row,) = reader.segments()
        assert row.size == writer.durable_end > chunk.offset + chunk.length
