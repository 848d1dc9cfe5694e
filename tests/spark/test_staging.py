"""Staged batches: in a folder, in a bucket, in the messages; and what is left in the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.clock import SystemClock
from lakebed.base.errors import Corrupt, NotFound, TooLarge
from lakebed.base.runner import ThreadRunner
from lakebed.client.store import RemoteStore
from lakebed.kernels.disk import real_disk
from lakebed.spark import staging as module
from lakebed.spark import staging_bucket
from lakebed.spark.staging import KEPT_DECIDED_MS, KEPT_MS, Batches, Inline, Run
from lakebed.spark.staging_bucket import BucketStaging
from lakebed.spark.staging_folder import FolderStaging
from lakebed.store.staged_batch import StagedFile, StagedObject
from tests.http_api.live_api import open_api

RUN = Run("orders", "query 7", 41)


class LateClock(SystemClock):
    """Can be put forward."""

    late_ms = 0

    def wall_ns(self) -> int:
        return super().wall_ns() + self.late_ms * 1_000_000


class Scene:
    """A place to stage in, and a look behind it."""

    def __init__(self, staging: Any, clock: LateClock, sizes: Any) -> None:
        self.staging = staging
        self.clock = clock
        self._sizes = sizes

    def names(self) -> list[str]:
        """What is there, without the lock."""
        return list(self._sizes())

    def stored_bytes(self) -> int:
        return sum(self._sizes().values())

    def stage(self, run: Run = RUN, **batches: bytes) -> dict[int, Any]:
        writer = self.staging.writer(run)
        for name, data in batches.items():
            writer.append(int(name[1:]), data)
        found: dict[int, Any] = writer.finish()
        return found


@pytest.fixture(params=["folder", "bucket"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    if request.param == "folder":
        folder = tmp_path / "deep" / "staging"
        clock = LateClock()
        with ThreadRunner(clock=clock) as runner:
            staging = FolderStaging(str(folder), disk=real_disk(), runner=runner)

            def sizes() -> dict[str, int]:
                found = [path for path in folder.rglob("*") if path.name != "lock"]
                return {
                    str(path.relative_to(folder)): path.stat().st_size if path.is_file() else 0
                    for path in found
                }

            yield Scene(staging, clock, sizes)
        return
    with (
        open_api(tmp_path) as live_api,
        RemoteStore.open(f"http://127.0.0.1:{live_api.port}") as store,
    ):
        clock = LateClock()
        bucket = store.bucket("stage")
        yield Scene(
            BucketStaging(bucket, clock=clock),
            clock,
            lambda: {one.key: one.size for one in bucket.list()},
        )


def content(staged: Any, scene: Scene) -> bytes:
    if isinstance(staged, StagedFile):
        return Path(staged.path).read_bytes()
    assert isinstance(staged, StagedObject)
    data: bytes = scene.staging._bucket.read(staged.key)
    return data


def test_a_partition_has_its_batches_one_behind_the_other(scene: Scene) -> None:
    writer = scene.staging.writer(RUN)
    for partition, batch in ((3, b"one"), (0, b"zero"), (3, b"two")):
        writer.append(partition, batch)
    found = writer.finish()
    assert sorted(found) == [0, 3]
    assert b"".join(content(one, scene) for one in found[3]) == b"onetwo"
    assert b"".join(content(one, scene) for one in found[0]) == b"zero"


def test_many_bytes_are_sent_before_the_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_bucket, "OBJECT_BYTES", 100)
    monkeypatch.setattr(staging_bucket, "HELD_BYTES_MAX", 150)
    writer = scene.staging.writer(RUN)
    written = 0
    for _ in range(10):
        for partition in range(4):
            writer.append(partition, b"%d" % partition * 30)
            written += 30
            assert scene.stored_bytes() > written - 150
    found = writer.finish()
    assert scene.stored_bytes() == written == 1200
    for partition in range(4):
        data = b"".join(content(one, scene) for one in found[partition])
        assert data == b"%d" % partition * 300


def test_two_attempts_of_a_task_do_not_meet(scene: Scene) -> None:
    first, second = scene.stage(p0=b"first"), scene.stage(p0=b"second")
    assert content(first[0][0], scene) == b"first"
    assert content(second[0][0], scene) == b"second"


def test_the_first_decision_counts(scene: Scene) -> None:
    first, second = scene.stage(p0=b"first"), scene.stage(p1=b"second")
    assert scene.staging.decide(RUN, first) == first
    assert scene.staging.decide(RUN, second) == first
    assert scene.staging.decide(RUN._replace(version=42), second) == second
    assert scene.staging.decide(RUN._replace(topic="other"), second) == second


def test_a_decision_that_is_taken_back_makes_room_for_another(scene: Scene) -> None:
    first, second = scene.stage(p0=b"first"), scene.stage(p1=b"second")
    scene.staging.decide(RUN, first)
    scene.staging.forget(RUN)
    assert scene.staging.decide(RUN, second) == second


def test_who_decides_at_the_same_moment_takes_what_the_other_did(tmp_path: Path) -> None:
    with (
        open_api(tmp_path) as live_api,
        RemoteStore.open(f"http://127.0.0.1:{live_api.port}") as store,
    ):
        bucket = store.bucket("stage")
        first = BucketStaging(bucket, clock=SystemClock())
        theirs: Batches = {0: [StagedObject("stage", "theirs")]}
        ours: Batches = {0: [StagedObject("stage", "ours")]}

        class Slow:
            """Somebody else decides when it was looked, and nothing was found."""

            def __getattr__(self, name: str) -> Any:
                return getattr(bucket, name)

            def read(self, key: str) -> bytes:
                try:
                    return bucket.read(key)
                except NotFound:
                    first.decide(RUN, theirs)
                    raise

        second = BucketStaging(Slow(), clock=SystemClock())  # type: ignore[arg-type]
        assert second.decide(RUN, ours) == theirs


def test_a_failed_task_takes_its_batches_with_it(scene: Scene) -> None:
    kept = scene.stage(p0=b"kept")
    writer = scene.staging.writer(RUN)
    writer.append(0, b"gone")
    writer.discard()
    assert content(kept[0][0], scene) == b"kept"
    scene.staging.discard(RUN, kept)
    assert scene.names() == []


def test_what_was_decided_is_not_discarded(scene: Scene) -> None:
    decided, other = scene.stage(p0=b"decided"), scene.stage(p0=b"other")
    scene.staging.decide(RUN, decided)
    for staged in (decided, other):
        scene.staging.discard(RUN, staged)
    assert content(decided[0][0], scene) == b"decided"
    with pytest.raises((NotFound, FileNotFoundError)):
        content(other[0][0], scene)
    assert len([name for name in scene.names() if name != RUN.name]) == 2  # with the decision


def test_after_a_commit_nothing_of_its_run_is_left(scene: Scene) -> None:
    other = scene.stage(RUN._replace(version=42), p0=b"other")
    scene.staging.decide(RUN, scene.stage(p0=b"a", p1=b"b"))
    scene.stage(p1=b"of an attempt that nobody knows of")
    scene.staging.remove(RUN)
    assert all(RUN._replace(version=42).name in name for name in scene.names())
    assert content(other[0][0], scene) == b"other"
    scene.staging.remove(RUN)  # again does no harm


def test_a_task_may_come_when_its_run_was_removed(scene: Scene) -> None:
    writer = scene.staging.writer(RUN)
    writer.append(0, b"before")
    scene.staging.remove(RUN)
    writer = scene.staging.writer(RUN)
    writer.append(0, b"after")
    assert content(writer.finish()[0][0], scene) == b"after"


def test_leftovers_are_removed_after_a_day_and_decided_ones_after_thirty(scene: Scene) -> None:
    scene.stage(p0=b"left")
    decided = RUN._replace(version=42)
    scene.staging.decide(decided, scene.stage(decided, p0=b"decided"))
    scene.clock.late_ms = KEPT_MS - 60_000
    assert scene.staging.remove_leftovers() == 0
    scene.clock.late_ms = KEPT_MS + 60_000
    assert scene.staging.remove_leftovers() == 1
    assert all(decided.name in name for name in scene.names())
    scene.clock.late_ms = KEPT_DECIDED_MS + 60_000
    assert scene.staging.remove_leftovers() == 1
    assert scene.names() == []


def test_names_that_are_no_runs_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "somebody's").mkdir()
    clock = LateClock()
    clock.late_ms = 10 * KEPT_DECIDED_MS
    with ThreadRunner(clock=clock) as runner:
        staging = FolderStaging(str(tmp_path), disk=real_disk(), runner=runner)
        assert staging.remove_leftovers() == 0
    assert os.listdir(tmp_path) == ["somebody's"]


def test_a_folder_without_a_date_is_not_old(tmp_path: Path) -> None:
    new = tmp_path / RUN.name  # of a task that is about to write, or of who decides upon no rows
    new.mkdir()
    deciding = tmp_path / RUN._replace(version=42).name
    deciding.mkdir()
    (deciding / "decision.json.1.tmp").write_bytes(b"")
    clock = LateClock()
    clock.late_ms = 10 * KEPT_DECIDED_MS
    with ThreadRunner(clock=clock) as runner:
        assert FolderStaging(str(tmp_path), disk=real_disk(), runner=runner).remove_leftovers() == 0
    assert new.exists()
    assert os.listdir(deciding) == ["decision.json.1.tmp"]


def test_inline_batches_are_what_the_message_carries() -> None:
    writer = Inline().writer(RUN)
    writer.append(1, b"a")
    writer.append(1, b"b")
    found = writer.finish()
    assert found == {1: [b"a", b"b"]}
    assert Inline().decide(RUN, found) == found


def test_too_much_for_a_message_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INLINE_BYTES_MAX", 10)
    writer = Inline().writer(RUN)
    writer.append(0, b"12345")
    with pytest.raises(TooLarge, match="stagingBucket"):
        writer.append(0, b"678901")
    with pytest.raises(TooLarge, match="stagingBucket"):
        Inline().decide(RUN, {0: [b"123456"], 1: [b"78901"]})


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format": "other"}', b"\xff"])
def test_what_is_no_decision_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="not a valid list of the staged batches to commit"):
        module.decode_decision(data, path="p")
